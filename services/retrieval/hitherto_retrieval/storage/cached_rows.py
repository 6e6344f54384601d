"""Reads the memories, messages and summaries of a user for a snapshot, with their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.cached_memories import CachedMemories, MemoryRow
from hitherto_retrieval.storage.cached_passages import (
    CachedMessages,
    CachedSummaries,
    MessageRow,
    SummaryRow,
)
from hitherto_retrieval.storage.cached_vectors import CachedVectors
from hitherto_retrieval.storage.memories import whole_memories
from hitherto_retrieval.storage.memory_candidates import CODES_ABOVE
from hitherto_retrieval.storage.neighbours import MessageFlags
from hitherto_retrieval.storage.statement import Rows, Statement, ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Message, Scope

MOST_MEMORIES = 3_000
MOST_MESSAGES = 3_000

# How many memories and messages there are, up to one more than a snapshot holds, and how many
# vectors a search compares by signs.
_COUNTS = """
SELECT (SELECT count(*) FROM (
            SELECT FROM memories
            WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
              AND status IN ('active', 'achieved')
            LIMIT %(most_memories)s + 1) AS m),
       (SELECT count(*) FROM (
            SELECT FROM messages
            WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
            LIMIT %(most_messages)s + 1) AS m),
       (SELECT count(*) FROM memory_embeddings
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND model = %(model)s
          AND status IN ('active', 'achieved'))
"""

# Vectors are looked up by their full key, whatever the planner's estimate. One of an earlier
# wording is none.
_MEMORIES = """
SELECT m.memory_id, m.lexical_no, m.size,
       ARRAY(SELECT em.entity_id
             FROM entity_mentions AS em
             WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
               AND em.memory_id = m.memory_id
             ORDER BY em.entity_id),
       (SELECT halfvec_send(e.embedding) FROM memory_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s
          AND e.text_version = m.text_version),
       (SELECT halfvec_send(s.embedding) FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s),
       w.*
FROM (SELECT memory_id, lexical_no, text_version,
             octet_length(content) + octet_length(detail) + octet_length(context::text)
                 + octet_length(metadata::text) AS size
      FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id > %(memory_id)s
        AND status IN ('active', 'achieved')
      ORDER BY memory_id
      LIMIT %(limit)s) AS m
JOIN @whole_memories AS w ON w.memory_id = m.memory_id
ORDER BY m.memory_id
"""
_WHOLE = 6
"""The first column of whole memories."""

_MESSAGES = """
SELECT m.conversation_id, m.message_no, coalesce(m.lexical_no, 0), m.accepted_at, m.message_id,
       m.role, m.name, m.content, m.said_at, m.context_items, m.pending_action_ids, m.metadata,
       octet_length(m.content) + octet_length(m.metadata::text)
           + octet_length(m.context_items::text),
       (SELECT halfvec_send(e.embedding) FROM message_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
          AND e.model = %(model)s)
FROM messages AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND (m.conversation_id, m.message_no) > (%(conversation_id)s, %(message_no)s)
ORDER BY m.conversation_id, m.message_no
LIMIT %(limit)s
"""

_SUMMARIES = """
SELECT s.conversation_id, coalesce(s.lexical_no, 0),
       least(coalesce(c.last_said_at, s.created_at), c.updated_at), s.created_at,
       (SELECT halfvec_send(e.embedding) FROM summary_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = s.conversation_id AND e.model = %(model)s
          AND e.text_version = s.text_version)
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.conversation_id > %(conversation_id)s
ORDER BY s.conversation_id
LIMIT %(limit)s
"""

# As `neighbours._CAVEATS`, for all messages of the user, by their ids: to look up the message of
# every memory that was ever contradicted would take longer than all the rest.
_CAVEATS = """
SELECT s.conversation_id, s.message_id, bool_or(f.status <> 'contradicted'),
       min(f.valid_to) FILTER (WHERE f.status = 'contradicted'),
       (array_agg(left(instead.content, 300) ORDER BY f.valid_to, instead.memory_id)
            FILTER (WHERE f.status = 'contradicted' AND instead.content <> ''))[1]
FROM memories AS f
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.memory_id = f.memory_id
LEFT JOIN memories AS instead ON instead.tenant_id = %(tenant_id)s AND instead.user_id = %(user_id)s
     AND instead.memory_id = f.superseded_by AND instead.status IN ('active', 'achieved')
     AND (instead.expires_at IS NULL OR instead.expires_at > now())
WHERE f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
  AND f.status IN ('quarantined', 'forgotten', 'contradicted')
GROUP BY s.conversation_id, s.message_id
"""

_READ_AT_ONCE = 250
"""Rows with vectors whose arrival keeps the event loop busy for some 15 ms."""


class CachedRows:
    """What `CachedMemories`, `CachedMessages` and `CachedSummaries` are built from.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        name, self._dimensions = model
        self._of = scope.bind(model=name)
        limits = {"most_memories": MOST_MEMORIES, "most_messages": MOST_MESSAGES}
        self._counts: Statement[Rows] = Statement(
            _COUNTS, {**self._of, **limits}, lambda rows: rows
        )
        self._caveats: Statement[Rows] = Statement(_CAVEATS, self._of, lambda rows: rows)
        self._messages: Rows | None = None

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run before `read`."""
        return self._counts, self._caveats

    async def read(self, connection: Connection) -> bool:
        """Read the rows; returns False if there are too many."""
        memories, messages, self._compared = self._counts.answer[0]
        if memories > MOST_MEMORIES:
            return False
        # Those of an attempt whose connection was lost are of another state.
        self._messages = None
        self._memories = await self._all(connection, _MEMORIES, memory_id=UUID(int=0))
        if messages <= MOST_MESSAGES:
            self._messages = await self._all(
                connection, _MESSAGES, conversation_id="", message_no=0
            )
        self._summaries = await self._all(connection, _SUMMARIES, conversation_id="")
        return True

    async def _all(self, connection: Connection, sql: str, **start: Any) -> Rows:
        """All rows in the order of their keys, the first columns, which follow `start`.

        They are read some at a time, so that other calls proceed in between.
        """
        rows: list[tuple[Any, ...]] = []
        after: Mapping[str, Any] = start
        while True:
            page: Statement[Rows] = Statement(
                sql, {**self._of, **after, "limit": _READ_AT_ONCE}, lambda found: found
            )
            await ask(connection, page)
            rows += page.answer
            if len(page.answer) < _READ_AT_ONCE:
                return rows
            after = dict(zip(start, rows[-1], strict=False))

    def memories(self, documents: int, at: datetime) -> CachedMemories:
        """The memories; see `CachedMemories` for what is given."""
        rows = self._memories
        # Of many, most are compared by signs alone.
        by_item = len(rows) > CODES_ABOVE
        return CachedMemories(
            [
                MemoryRow(replace(memory, memo={}), *row[1:4])
                for memory, row in zip(
                    whole_memories([row[_WHOLE:] for row in rows]), rows, strict=True
                )
            ],
            self._vectors(rows, 4, by_item=by_item),
            # A search compares those of its candidates alone.
            self._vectors(rows, 5, by_item=True),
            documents=documents,
            compared=self._compared,
            at=at,
        )

    def messages(self, memories: CachedMemories) -> CachedMessages | None:
        """The messages, of which some memories were made; None if there are too many."""
        if self._messages is None:
            return None
        rows = [
            MessageRow(*(*row[:4], Message(*(row[0], *row[4:12], None, {})), row[12]))
            for row in self._messages
        ]
        numbers = {(row.conversation_id, row.message.message_id): row.message_no for row in rows}
        caveats = MessageFlags.of(
            [
                (conversation_id, numbers[conversation_id, message_id], *caveat)
                for conversation_id, message_id, *caveat in self._caveats.answer
                if (conversation_id, message_id) in numbers
            ]
        ).with_replies(((row.conversation_id, row.message_no), row.message.role) for row in rows)
        vectors = self._vectors(self._messages, -1)
        return CachedMessages(rows, vectors, caveats=caveats, memories=memories)

    def summaries(self) -> CachedSummaries:
        """The summaries, as a search compares them."""
        rows = self._summaries
        return CachedSummaries([SummaryRow(*row[:-1]) for row in rows], self._vectors(rows, -1))

    def _vectors(self, rows: Rows, column: int, *, by_item: bool = False) -> CachedVectors:
        return CachedVectors([row[column] for row in rows], self._dimensions, by_item=by_item)
