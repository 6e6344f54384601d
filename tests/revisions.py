"""A fence in every test's database: what reads may hold is changed by no service unnoticed.

A retrieval process may keep what it read of a person for as long as the person's `revision` stands.
Each transaction of the extraction service that changes a row of `HELD_TABLES` must therefore raise
it, and here it cannot commit unless it does: whichever test makes a writer write, tests this too.
What a test changes by hand raises it by itself.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

HELD_TABLES = (
    "document_chunk_embeddings", "document_chunks", "document_mentions", "documents", "entities",
    "entity_mentions", "memories", "memory_embeddings", "memory_source_embeddings",
    "memory_sources", "message_embeddings", "messages", "passage_postings", "passage_statistics",
    "postings", "preferences", "profiles", "conversation_summaries", "summary_embeddings",
)  # fmt: skip
"""What may be held of a person between two reads; the row of the person is another."""

_FENCE = """
CREATE OR REPLACE FUNCTION hitherto.test_note_raised() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM set_config('test.raised',
        coalesce(current_setting('test.raised', true), '') || ' '
        || md5(NEW.tenant_id || '/' || NEW.user_id), true);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION hitherto.test_require_raised() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed record := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF strpos(coalesce(current_setting('test.raised', true), ''),
              md5(changed.tenant_id || '/' || changed.user_id)) > 0 THEN
        RETURN NULL;
    END IF;
    IF current_setting('application_name') <> 'hitherto-extraction' THEN
        UPDATE hitherto.users AS u SET revision = u.revision + 1
        WHERE u.tenant_id = changed.tenant_id AND u.user_id = changed.user_id;
        RETURN NULL;
    END IF;
    -- Whether a vector is waited for is nothing that a read sees.
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) - 'embedding_state' = to_jsonb(NEW) - 'embedding_state'
    THEN
        RETURN NULL;
    END IF;
    -- Of somebody erased nothing is read, and nothing held is told.
    IF NOT EXISTS (
        SELECT FROM hitherto.users AS u
        WHERE u.tenant_id = changed.tenant_id AND u.user_id = changed.user_id
          AND u.erased_at IS NULL) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'revision not raised: % of % of %', TG_OP, TG_TABLE_NAME, changed.user_id;
END
$$;

CREATE OR REPLACE TRIGGER test_note_raised AFTER UPDATE OF revision ON hitherto.users
    FOR EACH ROW WHEN (OLD.revision <> NEW.revision)
    EXECUTE FUNCTION hitherto.test_note_raised();
CREATE OR REPLACE TRIGGER test_note_new AFTER INSERT ON hitherto.users
    FOR EACH ROW WHEN (NEW.revision > 0) EXECUTE FUNCTION hitherto.test_note_raised();
CREATE OR REPLACE TRIGGER test_note_switches AFTER UPDATE ON hitherto.users
    FOR EACH ROW WHEN (
        OLD.revision = NEW.revision
        AND (OLD.memory_enabled, OLD.erased_at, OLD.time_zone, OLD.encrypt_sensitive)
            IS DISTINCT FROM
            (NEW.memory_enabled, NEW.erased_at, NEW.time_zone, NEW.encrypt_sensitive))
    EXECUTE FUNCTION hitherto.test_require_raised();
-- Of conversations, reads tell when somebody last spoke.
DROP TRIGGER IF EXISTS test_require_raised ON hitherto.conversations;
CREATE CONSTRAINT TRIGGER test_require_raised AFTER UPDATE ON hitherto.conversations
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.last_said_at IS DISTINCT FROM NEW.last_said_at)
    EXECUTE FUNCTION hitherto.test_require_raised();
"""

_OF_TABLE = """
DROP TRIGGER IF EXISTS test_require_raised ON hitherto.{table};
CREATE CONSTRAINT TRIGGER test_require_raised AFTER INSERT OR UPDATE OR DELETE ON hitherto.{table}
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hitherto.test_require_raised();
"""


def fence_revisions(conninfo: str) -> None:
    """Put up the fence in a migrated database, and in every copy of it; may be repeated.

    Args:
        conninfo: The database, as its administrator.
    """
    with psycopg.connect(conninfo) as connection:
        # Workers of one run come here at once.
        connection.execute("SELECT pg_advisory_xact_lock(4712)")
        known = connection.execute(
            "SELECT 1 FROM pg_proc WHERE proname = 'test_require_raised'"
        ).fetchone()
        if known is not None:
            return
        connection.execute(_FENCE)
        for table in HELD_TABLES:
            connection.execute(sql.SQL(_OF_TABLE).format(table=sql.Identifier(table)))
