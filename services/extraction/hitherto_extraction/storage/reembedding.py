"""Embedding models: known models, the active one, and how many vectors are missing.

The role is hitherto_maintenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hitherto_extraction.storage.corpora import vectors
from hitherto_shared.database.pool import Connection

# A model has one role at most, and a role one model.
_LOOK = """
SELECT CASE WHEN active THEN 'active' WHEN target THEN 'target' ELSE 'previous' END,
       model, dimensions
FROM embedding_models
WHERE active OR target OR previous
"""

_LOCK = """
SELECT CASE WHEN active THEN 'active' WHEN target THEN 'target' ELSE 'previous' END,
       model, dimensions
FROM embedding_models
WHERE active OR target OR previous
ORDER BY model
FOR UPDATE
"""

_CLEAR_TARGET = "UPDATE embedding_models SET target = false WHERE target"

# The target reverts to its role before a roll-back; the previous model stays what it is.
_SET_TARGET = """
UPDATE embedding_models SET target = true, previous = false WHERE model = %(model)s
"""

_CLEAR_PREVIOUS = "UPDATE embedding_models SET previous = false WHERE previous"

_RETIRE = """
UPDATE embedding_models SET active = false, previous = %(previous)s WHERE active
"""

_ACTIVATE = """
UPDATE embedding_models
SET active = true, target = false, previous = false, activated_at = statement_timestamp()
WHERE model = %(model)s
"""

_ACTIVATED = """
SELECT model, activated_at - interval '2 minutes'
FROM embedding_models
WHERE active AND (%(within)s::interval IS NULL OR activated_at > now() - %(within)s::interval)
"""

# Across users: what was written with the old model during the change.
_AWAIT_RECENT = """
UPDATE memories AS m SET embedding_state = 'pending'
WHERE m.embedding_state = 'stored' AND m.updated_at > %(since)s
  AND NOT @memory_has_vector(m)
"""

# Across users: of texts that are to have a vector.
_COUNT = """
SELECT count(*) FILTER (WHERE has), count(*) FILTER (WHERE NOT has)
FROM (
    SELECT @memory_has_vector(m) AS has
    FROM memories AS m
    WHERE m.sealed IS NULL
    UNION ALL
    SELECT @chunk_has_vector(c)
    FROM document_chunks AS c
    UNION ALL
    SELECT @message_has_vector(g)
    FROM messages AS g
    WHERE g.embedding_state <> 'none'
    UNION ALL
    SELECT @summary_has_vector(s)
    FROM conversation_summaries AS s
    WHERE s.embedding_state <> 'none'
) AS texts
"""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """A model and the length of its vectors."""

    name: str
    dimensions: int


async def models(connection: Connection, *, lock: bool = False) -> dict[str, EmbeddingModel]:
    """The models that are `active`, `target` or `previous`, by role; `lock` locks them."""
    rows = await connection.fetch_rows(_LOCK if lock else _LOOK)
    return {role: EmbeddingModel(*columns) for role, *columns in rows}


async def set_target(connection: Connection, model: str) -> None:
    """Make a model the target of the back-fill."""
    await connection.execute(_CLEAR_TARGET)
    await connection.execute(_SET_TARGET, {"model": model})


async def activate(connection: Connection, model: str, *, keep_previous: bool) -> None:
    """Make a model active and, if requested, keep the one before it for a roll-back.

    Items that lack its vector wait for one from now on, and are found by their words meanwhile.
    """
    await connection.execute(_CLEAR_PREVIOUS)
    await connection.execute(_RETIRE, {"previous": keep_previous})
    await connection.execute(_ACTIVATE, {"model": model})
    await vectors.activate(connection, model)


async def await_recent(connection: Connection) -> int:
    """Let items embedded with the old model during a change wait for a new vector."""
    changed = await activated(connection, within=timedelta(minutes=10))
    if changed is None:
        return 0
    model, since = changed
    return (await connection.execute(_AWAIT_RECENT, {"model": model, "since": since})).rowcount


async def activated(
    connection: Connection, *, within: timedelta | None = None
) -> tuple[str, datetime] | None:
    """The active model and two minutes before it became that, if it did so recently or ever."""
    row = await connection.fetch_row(_ACTIVATED, {"within": within})
    return None if row is None else (row[0], row[1])


async def count(connection: Connection, model: str) -> tuple[int, int]:
    """How many texts have a vector of the model, and how many do not."""
    [(stored, missing)] = await connection.fetch_rows(_COUNT, {"model": model})
    return int(stored), int(missing)
