"""Reads the messages and summaries of a user for a snapshot: what changed since an earlier one.

The first round trip reads a stamp of each message, and all about summaries but their vectors; the
second one reads the messages, and the vectors of the summaries, whose stamps are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitherto_retrieval.storage.cached_memories import CachedMemories
from hitherto_retrieval.storage.cached_passages import (
    CachedMessages,
    CachedSummaries,
    MessageRow,
    SummaryRow,
)
from hitherto_retrieval.storage.cached_surroundings import MOST_SUMMARIES
from hitherto_retrieval.storage.neighbours import MessageFlags
from hitherto_retrieval.storage.row_versions import Refresh
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Texts
from hitherto_shared.models import Scope

MOST_MESSAGES = 3_000

# A packed value for each conversation: its messages and their vectors, in the order of the keys.
_MESSAGE_STAMPS = r"""
SELECT m.conversation_id, string_agg(
           int4send(m.message_no) || xidsend(m.writer)
           || coalesce((SELECT xidsend(e.xmin) FROM message_embeddings AS e
                        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
                          AND e.conversation_id = m.conversation_id
                          AND e.message_no = m.message_no AND e.model = %(model)s),
                       '\x00000000'),
           ''::bytea ORDER BY m.message_no)
FROM (SELECT conversation_id, message_no, xmin AS writer
      FROM messages
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      ORDER BY conversation_id, message_no
      LIMIT %(limit)s) AS m
GROUP BY m.conversation_id
ORDER BY m.conversation_id
"""

_MESSAGES = """
SELECT m.conversation_id, m.message_no, coalesce(m.lexical_no, 0), m.said_at, m.accepted_at,
       m.message_id, m.role, m.name, m.content, m.context_items, m.pending_action_ids, m.metadata,
       octet_length(m.content) + octet_length(m.metadata::text)
           + octet_length(m.context_items::text),
       (SELECT halfvec_send(e.embedding) FROM message_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
          AND e.model = %(model)s)
FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[])
     WITH ORDINALITY AS wanted (conversation_id, message_no, place)
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = wanted.conversation_id AND m.message_no = wanted.message_no
ORDER BY wanted.place
"""

# As `neighbours._CAVEATS`, for all messages of the user, by their ids: to look up the message of
# every memory that was ever contradicted would take longer than all the rest.
_CAVEATS = """
SELECT s.conversation_id, s.message_id, bool_or(f.status <> 'contradicted'),
       min(f.valid_to) FILTER (WHERE f.status = 'contradicted'),
       (array_agg(left(instead.content, 300) ORDER BY f.valid_to, instead.memory_id)
            FILTER (WHERE f.status = 'contradicted' AND instead.content <> ''))[1],
       (array_agg(instead.expires_at ORDER BY f.valid_to, instead.memory_id)
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

# A vector of an earlier wording is none.
_SUMMARIES = """
SELECT s.conversation_id, coalesce(s.lexical_no, 0),
       least(coalesce(c.last_said_at, s.created_at), c.updated_at), s.created_at,
       (SELECT xidsend(e.xmin) FROM summary_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = s.conversation_id AND e.model = %(model)s
          AND e.text_version = s.text_version)
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
ORDER BY s.conversation_id
LIMIT %(limit)s
"""

_SUMMARY_VECTORS = """
SELECT (SELECT halfvec_send(e.embedding)
        FROM conversation_summaries AS s
        JOIN summary_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
             AND e.conversation_id = s.conversation_id AND e.text_version = s.text_version
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.conversation_id = wanted.conversation_id AND e.model = %(model)s)
FROM unnest(%(conversation_ids)s::text[]) WITH ORDINALITY AS wanted (conversation_id, place)
ORDER BY wanted.place
"""

_STAMP_BYTES = 4 + 2 * 4
"""The number of a message and two transactions."""
_Stamp = tuple[str, bytes]


class MessageRows:
    """The statements from which `CachedMessages` is built.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        name, self._dimensions = model
        self._of = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "model": name}
        self._stamps: Statement[Sequence[_Stamp]] = Statement(
            _MESSAGE_STAMPS, {**self._of, "limit": MOST_MESSAGES + 1}, _stamps
        )
        self._caveats: Statement[Rows] = Statement(_CAVEATS, self._of, lambda rows: rows)
        self._before: CachedMessages | None = None

    @property
    def first(self) -> Sequence[Statement[Any]]:
        """Statements of the first round trip."""
        return self._stamps, self._caveats

    def second(self, before: CachedMessages | None) -> Sequence[Statement[Any]]:
        """See `MemoryRows.second`; nothing if there are too many."""
        self._before = before
        stamps = self._stamps.answer
        if len(stamps) > MOST_MESSAGES:
            return ()
        self._refresh = Refresh(stamps, () if before is None else before.stamps, self._read)
        return self._refresh.statements

    def _read(self, stamps: Sequence[_Stamp]) -> Statement[Rows]:
        wanted = {
            "conversation_ids": Texts([conversation_id for conversation_id, _ in stamps]),
            "message_nos": Integers([int.from_bytes(stamp[:4]) for _, stamp in stamps]),
        }
        return Statement(_MESSAGES, {**self._of, **wanted}, lambda rows: rows)

    def cached(self, memories: CachedMemories) -> CachedMessages | None:
        """The messages of the present state, as are the memories; None if there are too many."""
        stamps, before = self._stamps.answer, self._before
        if len(stamps) > MOST_MESSAGES:
            return None
        rows = self._refresh.rows(() if before is None else before.rows, -1, MessageRow._make)
        vectors = self._refresh.vectors(
            None if before is None else before.vectors, -1, self._dimensions
        )
        numbers = {(row.conversation_id, row.message_id): row.message_no for row in rows}
        caveats = MessageFlags.of(
            [
                (conversation_id, numbers[conversation_id, message_id], *caveat)
                for conversation_id, message_id, *caveat in self._caveats.answer
                if (conversation_id, message_id) in numbers
            ]
        ).with_replies(((row.conversation_id, row.message_no), row.role) for row in rows)
        return CachedMessages(stamps, rows, vectors, caveats=caveats, memories=memories)


class SummaryRows:
    """The statements from which `CachedSummaries` is built.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        name, self._dimensions = model
        self._of = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "model": name}
        self._summaries: Statement[list[SummaryRow]] = Statement(
            _SUMMARIES,
            {**self._of, "limit": MOST_SUMMARIES + 1},
            lambda rows: [SummaryRow(*row) for row in rows],
        )
        self._before: CachedSummaries | None = None

    @property
    def first(self) -> Sequence[Statement[Any]]:
        """Statements of the first round trip."""
        return (self._summaries,)

    def second(self, before: CachedSummaries | None) -> Sequence[Statement[Any]]:
        """See `MemoryRows.second`: of summaries, only vectors."""
        self._before = before
        earlier = () if before is None else before.stamps
        stamps = [(row.conversation_id, row.vector_stamp) for row in self._summaries.answer]
        self._refresh = Refresh(stamps, earlier, self._read)
        return self._refresh.statements

    def _read(self, stamps: Sequence[tuple[str, Any]]) -> Statement[Rows]:
        wanted = {"conversation_ids": Texts([conversation_id for conversation_id, _ in stamps])}
        return Statement(_SUMMARY_VECTORS, {**self._of, **wanted}, lambda rows: rows)

    def cached(self, memories: CachedMemories) -> CachedSummaries:
        """The summaries of the present state, as are the memories."""
        before = self._before
        vectors = self._refresh.vectors(
            None if before is None else before.vectors, 0, self._dimensions
        )
        return CachedSummaries(self._summaries.answer, vectors, memories)


def _stamps(rows: Rows) -> Sequence[_Stamp]:
    return [
        (conversation_id, packed[start : start + _STAMP_BYTES])
        for conversation_id, packed in rows
        for start in range(0, len(packed), _STAMP_BYTES)
    ]
