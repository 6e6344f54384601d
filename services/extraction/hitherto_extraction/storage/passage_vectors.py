"""Messages and summaries during re-embedding, across users.

The role is hitherto_maintenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitherto_shared.database.pool import Connection
from hitherto_shared.text.passages import MAX_EMBEDDED, message_text, summary_text

# A row whose state says what is not so has the other state from now on.
_AWAIT_MESSAGES = """
UPDATE messages AS g
SET embedding_state = CASE g.embedding_state WHEN 'stored' THEN 'pending' ELSE 'stored' END
WHERE g.embedding_state <> 'none' AND (g.embedding_state = 'stored') IS DISTINCT FROM EXISTS (
        SELECT FROM message_embeddings AS e
        WHERE e.tenant_id = g.tenant_id AND e.user_id = g.user_id
          AND e.conversation_id = g.conversation_id AND e.message_no = g.message_no
          AND e.model = %(model)s)
"""

_AWAIT_SUMMARIES = """
UPDATE conversation_summaries AS s
SET embedding_state = CASE s.embedding_state WHEN 'stored' THEN 'pending' ELSE 'stored' END
WHERE s.embedding_state <> 'none' AND (s.embedding_state = 'stored') IS DISTINCT FROM EXISTS (
        SELECT FROM summary_embeddings AS e
        WHERE e.tenant_id = s.tenant_id AND e.user_id = s.user_id
          AND e.conversation_id = s.conversation_id AND e.text_version = s.text_version
          AND e.model = %(model)s)
"""

_COUNT = """
SELECT count(*) FILTER (WHERE has), count(*) FILTER (WHERE NOT has)
FROM (
    SELECT EXISTS (
        SELECT FROM message_embeddings AS e
        WHERE e.tenant_id = g.tenant_id AND e.user_id = g.user_id
          AND e.conversation_id = g.conversation_id AND e.message_no = g.message_no
          AND e.model = %(model)s) AS has
    FROM messages AS g
    WHERE g.embedding_state <> 'none'
    UNION ALL
    SELECT EXISTS (
        SELECT FROM summary_embeddings AS e
        WHERE e.tenant_id = s.tenant_id AND e.user_id = s.user_id
          AND e.conversation_id = s.conversation_id AND e.text_version = s.text_version
          AND e.model = %(model)s)
    FROM conversation_summaries AS s
    WHERE s.embedding_state <> 'none'
) AS texts
"""

# In the order of the key, so that a long back-fill reads the table once.
_MESSAGES_WITHOUT = """
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, g.name,
       left(g.content, %(characters)s)
FROM messages AS g
WHERE (g.tenant_id, g.user_id, g.conversation_id, g.message_no)
      > (%(tenant_id)s::text, %(user_id)s::text, %(conversation_id)s::text, %(number)s::int)
  AND g.embedding_state <> 'none' AND NOT EXISTS (
      SELECT FROM message_embeddings AS e
      WHERE e.tenant_id = g.tenant_id AND e.user_id = g.user_id
        AND e.conversation_id = g.conversation_id AND e.message_no = g.message_no
        AND e.model = %(model)s)
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
LIMIT %(limit)s
"""

_SUMMARIES_WITHOUT = """
SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version, s.title, s.summary, s.key_topics,
       s.technical_topics
FROM conversation_summaries AS s
WHERE (s.tenant_id, s.user_id, s.conversation_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(conversation_id)s::text)
  AND s.embedding_state <> 'none' AND NOT EXISTS (
      SELECT FROM summary_embeddings AS e
      WHERE e.tenant_id = s.tenant_id AND e.user_id = s.user_id
        AND e.conversation_id = s.conversation_id AND e.text_version = s.text_version
        AND e.model = %(model)s)
ORDER BY s.tenant_id, s.user_id, s.conversation_id
LIMIT %(limit)s
"""

Key = tuple[str, str, str, int]
START: Key = ("", "", "", 0)
"""Before the first passage in the order of the keys."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A message or summary without a vector.

    `key` identifies it like `MessageWords.text_id` or `SummaryWords.text_id`.
    """

    key: Key
    content: str
    source_text: str = ""


async def activate(connection: Connection, model: str) -> None:
    """Queue items that lack a vector of the newly active model."""
    await connection.execute(_AWAIT_MESSAGES, {"model": model})
    await connection.execute(_AWAIT_SUMMARIES, {"model": model})


async def count(connection: Connection, model: str) -> tuple[int, int]:
    """How many messages and summaries have a vector of the model, and how many do not."""
    cursor = await connection.execute(_COUNT, {"model": model})
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def messages_without(
    connection: Connection, model: str, *, after: Key, limit: int
) -> list[PassageText]:
    """The next messages without a vector, of those that are to have one."""
    rows = await _without(connection, _MESSAGES_WITHOUT, model, after, limit)
    return [PassageText(row[:4], message_text(*row[4:])[:MAX_EMBEDDED]) for row in rows]


async def summaries_without(
    connection: Connection, model: str, *, after: Key, limit: int
) -> list[PassageText]:
    """The next summaries without a vector of their present words."""
    rows = await _without(connection, _SUMMARIES_WITHOUT, model, after, limit)
    return [PassageText(row[:4], summary_text(*row[4:])[:MAX_EMBEDDED]) for row in rows]


async def _without(
    connection: Connection, statement: str, model: str, after: Key, limit: int
) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(
        statement,
        {
            "tenant_id": after[0],
            "user_id": after[1],
            "conversation_id": after[2],
            "number": after[3],
            "model": model,
            "characters": MAX_EMBEDDED,
            "limit": limit,
        },
    )
    return await cursor.fetchall()
