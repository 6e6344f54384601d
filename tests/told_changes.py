"""A fence in every test's database: no service changes a memory or a profile untold.

Whoever waits for changes learns of each only if the transaction that makes it also writes it to
`memory_changes`. Here a transaction of the extraction service that writes a version or a status of
a memory, removes one, or writes a version of a profile, cannot commit without: whichever test makes
a writer write, tests this too. Somebody who is being erased is told of nothing any more.
"""

from __future__ import annotations

import psycopg

_FENCE = """
CREATE OR REPLACE FUNCTION hitherto.test_require_told() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed jsonb := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
    changed_no integer := changed ->> 'version';
BEGIN
    IF current_setting('application_name') <> 'hitherto-extraction'
       OR NOT EXISTS (
           SELECT FROM hitherto.users AS u
           WHERE u.tenant_id = changed ->> 'tenant_id' AND u.user_id = changed ->> 'user_id'
             AND u.erased_at IS NULL)
       OR EXISTS (
           SELECT FROM hitherto.memory_changes AS c
           WHERE c.tenant_id = changed ->> 'tenant_id' AND c.user_id = changed ->> 'user_id'
             AND c.memory_id IS NOT DISTINCT FROM (changed ->> 'memory_id')::uuid
             AND c.version = changed_no AND (c.action = 'expired') = (TG_OP = 'DELETE'))
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'untold: % of %, version %, of %', TG_OP, TG_TABLE_NAME, changed_no,
        changed ->> 'user_id';
END
$$;

CREATE CONSTRAINT TRIGGER test_require_told_of_new AFTER INSERT OR DELETE ON hitherto.memories
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hitherto.test_require_told();
CREATE CONSTRAINT TRIGGER test_require_told_of_change AFTER UPDATE ON hitherto.memories
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.version, OLD.status) IS DISTINCT FROM (NEW.version, NEW.status))
    EXECUTE FUNCTION hitherto.test_require_told();
CREATE CONSTRAINT TRIGGER test_require_told AFTER INSERT ON hitherto.profiles
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hitherto.test_require_told();
CREATE CONSTRAINT TRIGGER test_require_told_of_change AFTER UPDATE ON hitherto.profiles
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.version <> NEW.version)
    EXECUTE FUNCTION hitherto.test_require_told();
"""


def fence_changes(conninfo: str) -> None:
    """Put up the fence in a migrated database, and in every copy of it; may be repeated.

    Args:
        conninfo: The database, as its administrator.
    """
    with psycopg.connect(conninfo) as connection:
        # Workers of one run come here at once.
        connection.execute("SELECT pg_advisory_xact_lock(4713)")
        known = connection.execute(
            "SELECT 1 FROM pg_proc WHERE proname = 'test_require_told'"
        ).fetchone()
        if known is None:
            connection.execute(_FENCE)
