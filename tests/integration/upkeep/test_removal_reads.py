"""What a removal reads: only what it removes, however much else the user has."""

from __future__ import annotations

from uuid import UUID

from hitherto_extraction.storage import document_mentions, removal, retention
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_shared.identifiers import uuid7
from tests.integration.upkeep.past import ANA, conversation, message
from tests.integration.upkeep.stage import TENANT, Stage

_ENTITY = """
INSERT INTO entities (tenant_id, user_id, entity_id, name, name_key, type)
VALUES ('default', 'ana', %s, %s, %s, 'topic')
"""
_EVENT = """
INSERT INTO history (tenant_id, user_id, event_id, subject, memory_id, action, version, actor,
                     reason, job_id)
VALUES ('default', 'ana', %s, 'memory', %s, 'achieved', 2, 'model', 'a quote', %s)
"""
_SOURCE_VECTOR = """
INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model, dimensions, embedding)
SELECT 'default', 'ana', %s, model, dimensions,
       ('[1' || repeat(',0', dimensions - 1) || ']')::halfvec
FROM embedding_models
"""
_QUOTES = "SELECT count(*) FROM history WHERE reason = 'a quote'"
_READ = """
SELECT relname, coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_xact_user_tables
WHERE relname IN ('entities', 'history', 'memory_source_embeddings')
"""


async def fill(stage: Stage, count: int) -> list[UUID]:
    """Ids: each names a memory with a source vector, an entity, and a job with a quote."""
    await stage.rows("INSERT INTO embedding_models (model, dimensions) VALUES ('small', 8)")
    ids = []
    for number in map(str, range(count)):
        ids.append(await stage.memory(number))
        await stage.rows(_ENTITY, ids[-1], number, number)
        await stage.rows(_EVENT, uuid7(), ids[-1], ids[-1])
        await stage.rows(_SOURCE_VECTOR, ids[-1])
    await stage.rows("ANALYZE entities, history, memory_source_embeddings")
    return ids


async def test_a_removal_of_some_reads_no_others(stage: Stage) -> None:
    """Also with the plan that Postgres keeps for a statement which runs often."""
    ids = await fill(stage, 30)
    async with stage.removal.connection() as connection, connection.transaction():
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        await connection.execute("SET LOCAL enable_seqscan = off")
        assert await document_mentions.drop_unmentioned(connection.of(ANA), ids[:1]) == 1
        assert await removal.delete_source_vectors(connection.of(ANA), ids[:1]) == 1
        await removal.drop_excerpts(connection.of(ANA), ids[:1])
        read: dict[str, int] = dict(await connection.fetch_rows(_READ, ()))
    assert read.keys() == {"entities", "history", "memory_source_embeddings"}
    assert max(read.values()) < len(ids) / 2, read
    assert await stage.value(_QUOTES) == len(ids) - 1


async def test_a_removal_of_all_leaves_none(stage: Stage) -> None:
    count = len(await fill(stage, 3))
    async with stage.removal.connection() as connection, connection.transaction():
        assert await removal.delete_source_vectors(connection.of(ANA)) == count
        await removal.drop_excerpts(connection.of(ANA))
    assert await stage.value(_QUOTES) == 0


_LOOKED_UP = """
SELECT sum(coalesce(idx_scan, 0) + seq_scan) FROM pg_stat_xact_user_tables
WHERE relname IN ('history', 'jobs', 'conversations')
"""


async def test_who_keeps_everything_is_not_examined(stage: Stage) -> None:
    """Another user's retention makes the job run, over all users of the tenant."""
    await conversation(stage)
    for number in range(1, 31):
        await message(stage, number)
        await stage.memory(str(number), age="99 days")
    await stage.rows("ANALYZE messages, memories, conversations, history, jobs")
    keep = RetentionDays(0, 0)
    async with stage.removal.connection() as connection, connection.transaction():
        assert await retention.count(connection, TENANT, keep, user_id=None) == (0, 0, 0, 0)
        assert await retention.find_due(connection, TENANT, keep, after="", limit=9) == ([], "ana")
        assert await retention.find_messages(connection.of(ANA), keep, limit=99) == []
        assert await retention.find_memories(connection.of(ANA), keep, limit=99) == []
        # At most when each statement asks when the user spoke last.
        assert await connection.fetch_value(_LOOKED_UP, ()) <= 4
