"""Reads the current memories of a user for a snapshot: those that changed since an earlier one.

The first round trip reads a stamp of each memory, and which messages and entities memories belong
to; the second one reads the memories whose stamps are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage import memory_candidates
from hitherto_retrieval.storage.cached_filters import MemoryRow
from hitherto_retrieval.storage.cached_memories import CachedMemories
from hitherto_retrieval.storage.cached_surroundings import CachedEntity
from hitherto_retrieval.storage.row_versions import Refresh
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Scope

# One packed value: the memories and their vectors, in the order of the keys. A vector of an earlier
# wording is none. Each is looked up by its full key, whatever the planner's estimate. Then the
# number of vectors that a search compares by signs.
_STAMPS = r"""
SELECT string_agg(
           uuid_send(m.memory_id) || xidsend(m.xmin)
           || coalesce((SELECT xidsend(e.xmin) FROM memory_embeddings AS e
                        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
                          AND e.memory_id = m.memory_id AND e.model = %(model)s
                          AND e.text_version = m.text_version), '\x00000000')
           || coalesce((SELECT xidsend(s.xmin) FROM memory_source_embeddings AS s
                        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                          AND s.memory_id = m.memory_id AND s.model = %(model)s), '\x00000000'),
           ''::bytea ORDER BY m.memory_id),
       (SELECT count(*) FROM memory_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.model = %(model)s
          AND e.status IN ('active', 'achieved'))
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.status IN ('active', 'achieved')
"""

# The columns of `MemoryRow`, then the vectors.
_ROWS = """
SELECT m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source, m.origin,
       m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
       m.context, m.metadata, m.sensitive, m.conversation_id, m.valid_to, m.expires_at,
       m.superseded_by, m.supersedes, m.version, m.job_id, m.lexical_no,
       octet_length(m.content) + octet_length(m.detail) + octet_length(m.context::text)
           + octet_length(m.metadata::text),
       m.doubt, m.may_replace, m.last_confirmed_at,
       (SELECT halfvec_send(e.embedding) FROM memory_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s
          AND e.text_version = m.text_version),
       (SELECT halfvec_send(s.embedding) FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s)
FROM unnest(%(memory_ids)s::uuid[]) WITH ORDINALITY AS wanted (memory_id, place)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = wanted.memory_id
ORDER BY wanted.place
"""

# Of all memories, whatever their status.
_SOURCES = """
SELECT memory_id, conversation_id, message_id, quote
FROM memory_sources
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY conversation_id, message_id, memory_id
"""

_MENTIONS = """
SELECT entity_id, memory_id
FROM entity_mentions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY entity_id, memory_id
"""

_STAMP_BYTES = 16 + 3 * 4
"""A key and three transactions."""


class MemoryRows:
    """The statements from which `CachedMemories` is built.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        name, self._dimensions = model
        self._of = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "model": name}
        self._stamps: Statement[tuple[Sequence[bytes], int]] = Statement(_STAMPS, self._of, _stamps)
        self._sources: Statement[Rows] = Statement(_SOURCES, self._of, lambda rows: rows)
        self._mentions: Statement[Rows] = Statement(_MENTIONS, self._of, lambda rows: rows)
        self._before: CachedMemories | None = None

    @property
    def first(self) -> Sequence[Statement[Any]]:
        """Statements of the first round trip."""
        return self._stamps, self._sources, self._mentions

    @property
    def count(self) -> int:
        """The number of memories, after the first round trip."""
        return len(self._stamps.answer[0])

    def second(self, before: CachedMemories | None) -> Sequence[Statement[Any]]:
        """Statements that read what `before` lacks; see `Refresh`."""
        self._before = before
        stamps, _ = self._stamps.answer
        self._refresh = Refresh(stamps, () if before is None else before.stamps, self._read)
        return self._refresh.statements

    def _read(self, stamps: Sequence[bytes]) -> Statement[Rows]:
        ids = Uuids([UUID(bytes=stamp[:16]) for stamp in stamps])
        return Statement(_ROWS, {**self._of, "memory_ids": ids}, lambda rows: rows)

    def cached(self, entities: Sequence[CachedEntity], documents: int) -> CachedMemories:
        """The memories of the present state.

        Args:
            entities: The entities of the present state.
            documents: See `CachedMemories`.
        """
        (stamps, compared), before, refresh = self._stamps.answer, self._before, self._refresh
        # Of many, most are compared by signs alone.
        by_item = len(stamps) > memory_candidates.CODES_ABOVE
        return CachedMemories(
            stamps,
            refresh.rows(() if before is None else before.rows, -2, MemoryRow._make),
            refresh.vectors(
                None if before is None else before.vectors, -2, self._dimensions, by_item=by_item
            ),
            # A search compares those of its candidates alone.
            refresh.vectors(
                None if before is None else before.source_vectors,
                -1,
                self._dimensions,
                by_item=True,
            ),
            made_from=self._sources.answer,
            mentions=self._mentions.answer,
            entities=entities,
            documents=documents,
            compared=compared,
        )


def _stamps(rows: Rows) -> tuple[Sequence[bytes], int]:
    packed: bytes = rows[0][0] or b""
    starts = range(0, len(packed), _STAMP_BYTES)
    return [packed[start : start + _STAMP_BYTES] for start in starts], rows[0][1]
