-- Statistics soon after a table has grown. Autovacuum looks about once a minute, and some installations
-- have it off; until it has looked, Postgres takes every user for one who has a single memory, and
-- reads all of a user's rows where one by its key was meant.
--
-- ANALYZE is the owner's. The function lets the maintenance role have done what is due, and nothing else.
CREATE FUNCTION analyse_grown() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hitherto, pg_catalog, pg_temp
AS $$
DECLARE
    grown record;
BEGIN
    FOR grown IN
        SELECT c.oid, c.relname
        FROM pg_class AS c
        WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
          AND pg_stat_get_mod_since_analyze(c.oid) > 1000 + greatest(c.reltuples, 0)
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
    'Analyses one table of which more rows have changed than it had when it was analysed last, and a '
    'thousand; its name, or null if there is none.';

REVOKE ALL ON FUNCTION analyse_grown FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analyse_grown TO hitherto_maintenance;
