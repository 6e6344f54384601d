"""How the snapshot of a user is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage import conversations, passages, people
from hitherto_retrieval.storage.cached_memories import CachedMemories, MemoryRow
from hitherto_retrieval.storage.cached_passages import (
    CachedMessages,
    CachedPassages,
    PassageRow,
)
from hitherto_retrieval.storage.cached_vectors import CachedVectors
from hitherto_retrieval.storage.memories import whole_memories
from hitherto_retrieval.storage.memory_candidates import CODES_ABOVE
from hitherto_retrieval.storage.neighbours import MessageFlags
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.snapshot import CachedEntity, KeptContexts, Snapshot
from hitherto_retrieval.storage.statement import Rows, Statement, ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Entity, Message, Scope

MOST_MEMORIES = 3_000
MOST_MESSAGES = 3_000
MOST_ENTITIES = 2_000
MOST_SUMMARIES = 1_000
_LEAST_ROOM, _MOST_ROOM, _SHARE_OF_ROOM = 16 * 1024, 128 * 1024, 8
"""Bytes for the kept contexts: a part of what is cached, within bounds."""
_BYTES_OF_AN_ENTITY = 2_000
_BYTES_OF_A_SUMMARY = 3_000
"""Approximate bytes of a summary besides its text."""
_BYTES_OF_A_CANDIDATE = 500
"""What a search compares of a summary, besides its vector."""
_BYTES_OF_A_BYTE = 7
"""As in `cached_memories`."""
_READ_AT_ONCE = 250
"""Rows with vectors whose arrival keeps the event loop busy for some 15 ms."""

_ONE_STATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

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

# In the order of `people.known_entities`, with the end of what mentions each: NULL if nothing does.
_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata, called,
       extract(epoch FROM greatest(
           (SELECT max(coalesce(m.expires_at, 'infinity'))
            FROM entity_mentions AS em
            JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
                 AND m.memory_id = em.memory_id
            WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
              AND em.entity_id = e.entity_id AND m.status IN ('active', 'achieved')),
           (SELECT max(coalesce(d.expires_at, 'infinity'))
            FROM document_mentions AS dm
            JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
                 AND d.document_id = dm.document_id
            WHERE dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s
              AND dm.entity_id = e.entity_id)))::float8
FROM entities AS e
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
ORDER BY mention_count DESC, name, entity_id
LIMIT %(limit)s
"""


class Loading:
    """A snapshot being loaded."""

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        self._model, self._dimensions = model, model[1]
        self._of = of = scope.bind(model=model[0])
        self._user = people.user(scope, named=())
        self._counts: Statement[Rows] = Statement(
            _COUNTS,
            {**of, "most_memories": MOST_MEMORIES, "most_messages": MOST_MESSAGES},
            _as_they_are,
        )
        self._caveats: Statement[Rows] = Statement(_CAVEATS, of, _as_they_are)
        self._profile = people.profile(scope)
        self._preferences = people.preferences(scope)
        self._statistics = passages.statistics(scope)
        self._entities: Statement[Rows] = Statement(
            _ENTITIES, {**of, "limit": MOST_ENTITIES + 1}, _as_they_are
        )
        self._conversations = conversations.recent(
            scope, first=None, limit=MOST_SUMMARIES + 1, to_show=False
        )
        self._fits = False

    async def run(self, connection: Connection) -> None:
        """Read one state of the database; `state` and `snapshot` are available afterwards."""
        # Those of an attempt whose connection was lost are of another state.
        self._fits, self._messages = False, None
        async with connection.transaction():
            await connection.execute(_ONE_STATE, {})
            await ask(
                connection,
                self._user,
                self._counts,
                self._caveats,
                self._profile,
                self._preferences,
                self._statistics,
                self._entities,
                self._conversations,
            )
            memories, messages, self._compared = self._counts.answer[0]
            if (
                memories > MOST_MEMORIES
                or len(self._entities.answer) > MOST_ENTITIES
                or len(self._conversations.answer) > MOST_SUMMARIES
            ):
                return
            self._memories = await self._all(connection, _MEMORIES, memory_id=UUID(int=0))
            if messages <= MOST_MESSAGES:
                self._messages = await self._all(
                    connection, _MESSAGES, conversation_id="", message_no=0
                )
            self._summaries = await self._all(connection, _SUMMARIES, conversation_id="")
            self._fits = True

    async def _all(self, connection: Connection, sql: str, **start: Any) -> Rows:
        """All rows in the order of their keys, the first columns, which follow `start`.

        They are read some at a time, so that other calls proceed in between.
        """
        rows: list[tuple[Any, ...]] = []
        after: Mapping[str, Any] = start
        while True:
            page: Statement[Rows] = Statement(
                sql, {**self._of, **after, "limit": _READ_AT_ONCE}, _as_they_are
            )
            await ask(connection, page)
            rows += page.answer
            if len(page.answer) < _READ_AT_ONCE:
                return rows
            after = dict(zip(start, rows[-1], strict=False))

    @property
    def state(self) -> UserReadState:
        """The state of the user."""
        return self._user.answer

    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if it is too large. Uses only the CPU."""
        if not self._fits:
            return None
        state, now = self.state, self.state.at.timestamp()
        memories = self._cached_memories()
        messages = self._cached_messages(memories)
        summaries = CachedPassages(
            [
                PassageRow(("summary", of, happened_at, created_at, of), lexical_no, happened_at)
                for of, lexical_no, happened_at, created_at, _ in self._summaries
            ],
            self._vectors(self._summaries, -1),
            _BYTES_OF_A_CANDIDATE,
        )
        entities, profile = self._entities.answer, self._profile.answer
        recent, preferences = self._conversations.answer, self._preferences.answer
        ends = [row[7] for row in entities if row[7] is not None and now < row[7] < float("inf")]
        moments = [datetime.fromtimestamp(end, UTC) for end in ends]
        moments += [] if memories.until is None else [memories.until]
        texts = (profile, preferences, entities, recent, [each.withheld for each in recent])
        cached = (
            sum(part.size for part in (memories, messages, summaries) if part is not None)
            + _BYTES_OF_A_BYTE * len(str(texts).encode())
            + _BYTES_OF_AN_ENTITY * (len(entities) + len(preferences))
            + _BYTES_OF_A_SUMMARY * len(recent)
        )
        room = min(_MOST_ROOM, max(_LEAST_ROOM, cached // _SHARE_OF_ROOM))
        return Snapshot(
            state=(state.revision, self._model),
            until=min(moments, default=None),
            memories=memories,
            messages=messages,
            summaries=summaries,
            profile=None if profile is None else replace(profile, memo={}),
            own_name=state.own_name,
            preferences=[replace(each, memo={}) for each in preferences],
            statistics=self._statistics.answer,
            contexts=KeptContexts(room),
            size=cached + room,
            _entities=[
                CachedEntity(
                    Entity(*(*row[:6], {})),
                    frozenset(row[6]),
                    row[7] is not None and row[7] > now,
                )
                for row in entities
            ],
            _conversations=[replace(summary, memo={}) for summary in recent],
        )

    def _cached_memories(self) -> CachedMemories:
        rows = self._memories
        memories = whole_memories([row[_WHOLE:] for row in rows])
        return CachedMemories(
            [
                MemoryRow(replace(memory, memo={}), *row[1:4])
                for memory, row in zip(memories, rows, strict=True)
            ],
            # Of many, most are compared by signs alone.
            self._vectors(rows, 4, by_item=len(rows) > CODES_ABOVE),
            # A search compares those of its candidates alone.
            self._vectors(rows, 5, by_item=True),
            documents=self.state.statistics.documents,
            compared=self._compared,
            at=self.state.at,
        )

    def _cached_messages(self, memories: CachedMemories) -> CachedMessages | None:
        """The messages, of which some memories were made; None if there are too many."""
        if self._messages is None:
            return None
        messages = [
            (Message(*(row[0], *row[4:12], None, {})), row[1], row[2], row[3])
            for row in self._messages
        ]
        numbers = {(each.conversation_id, each.message_id): no for each, no, _, _ in messages}
        caveats = MessageFlags.of(
            [
                (conversation_id, numbers[conversation_id, message_id], *caveat)
                for conversation_id, message_id, *caveat in self._caveats.answer
                if (conversation_id, message_id) in numbers
            ]
        ).with_replies(((each.conversation_id, no), each.role) for each, no, _, _ in messages)
        return CachedMessages(
            messages,
            sum(row[12] for row in self._messages),
            self._vectors(self._messages, -1),
            caveats=caveats,
            memories=memories,
        )

    def _vectors(self, rows: Rows, column: int, *, by_item: bool = False) -> CachedVectors:
        return CachedVectors([row[column] for row in rows], self._dimensions, by_item=by_item)


def _as_they_are(rows: Rows) -> Rows:
    return rows
