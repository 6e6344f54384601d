-- The second wall between tenants: whoever works for one user sees the rows of one tenant only, the
-- one in the setting hitherto.tenant_id, and without it none. Plain equality, which is leakproof, so
-- that indexes are used as before. The owner is not held: migrations and an administrator's own
-- statements see everything.
--
-- api_keys stays open: whose tenant a key belongs to is what it is asked for. It holds hashes.
DO $$
DECLARE
    walled text;
BEGIN
    FOR walled IN
        SELECT c.table_name
        FROM information_schema.columns AS c
        JOIN information_schema.tables AS t USING (table_schema, table_name)
        WHERE c.table_schema = 'hitherto' AND c.column_name = 'tenant_id'
          AND t.table_type = 'BASE TABLE' AND c.table_name <> 'api_keys'
        ORDER BY c.table_name
    LOOP
        EXECUTE format('ALTER TABLE hitherto.%I ENABLE ROW LEVEL SECURITY', walled);
        EXECUTE format(
            'CREATE POLICY one_tenant ON hitherto.%I'
            ' TO hitherto_read, hitherto_write, hitherto_removal'
            ' USING (tenant_id = current_setting(''hitherto.tenant_id'', true))'
            ' WITH CHECK (tenant_id = current_setting(''hitherto.tenant_id'', true))', walled);
        EXECUTE format(
            'CREATE POLICY across_tenants ON hitherto.%I TO hitherto_maintenance'
            ' USING (true) WITH CHECK (true)', walled);
    END LOOP;
END
$$;
