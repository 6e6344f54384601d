-- Statistics of small tables too: a fresh installation with some hundred messages is searched as much
-- as a large one. A small table is analysed when it has doubled, not for every update of its rows:
-- each analysis has the plans of all connections made anew.
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
               OR pg_stat_get_live_tuples(c.oid) > 50 + 2 * greatest(c.reltuples, 0))
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
    'Analyses one table that has doubled since it was analysed last and has more than 50 rows, or of '
    'which more rows have changed than it had, and a thousand; its name, or null if there is none.';
