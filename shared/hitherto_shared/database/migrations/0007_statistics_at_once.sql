-- Tables are analysed as soon as they have grown. Postgres counts the rows of other connections up to
-- ten seconds late, so that what was imported a moment ago was taken for a single row, and its first
-- searches read all rows of the user for every row. The size of a file is known at once. Files of one
-- or two pages are left alone: no plan reads them slowly.
--
-- A transaction that has not ended leaves a file that has grown and rows that nobody sees yet. Those
-- who analyse it then learn that it is empty; the late counts put that right.
CREATE OR REPLACE FUNCTION analyse_grown() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hitherto, pg_catalog, pg_temp
AS $$
DECLARE
    grown record;
BEGIN
    FOR grown IN
        SELECT c.oid, c.relname
        FROM pg_class AS c
        WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
          AND (pg_stat_get_mod_since_analyze(c.oid) > 1000 + greatest(c.reltuples, 0)
               OR pg_stat_get_live_tuples(c.oid) > 50 + 2 * greatest(c.reltuples, 0)
               OR pg_relation_size(c.oid)
                  > current_setting('block_size')::bigint * (2 + 2 * c.relpages::bigint))
        ORDER BY pg_stat_get_mod_since_analyze(c.oid) DESC
    LOOP
        BEGIN
            -- Whoever holds the table is analysing it, or changes it; it is looked at again.
            EXECUTE format('LOCK TABLE hitherto.%I IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', grown.relname);
            EXECUTE format('ANALYZE hitherto.%I', grown.relname);
            RETURN grown.relname;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION analyse_grown IS
    'Analyses one table that has doubled since it was analysed last and has more than 50 rows or two '
    'pages, or of which more rows have changed than it had, and a thousand; its name, or null if '
    'there is none.';
