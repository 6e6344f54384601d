"""Reads the sealed items of a user, for a search that compares them one by one.

The newest come first: a search reads no more than it can open in time. Tags, metadata and words of
sealed items are not visible here, so filters on these apply after opening.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.message_candidates import said_by_then
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.encryption.rows import MEMORY, MESSAGE, SUMMARY, VECTOR, Place
from hitherto_shared.models import Scope

MEMORIES = 2_000
"""Maximum number of sealed memories that a search compares."""
MESSAGES = 500
"""Maximum number of sealed messages."""
SUMMARIES = 200
"""Maximum number of sealed summaries."""

_MEMORIES = """
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed,
       (SELECT sealed_at(e.sealed, e.text_version) FROM sealed_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s AND %(with_vectors)s
          AND e.text_version = m.text_version AND m.version >= m.text_version)
FROM @filtered_memories AS m
WHERE m.sealed IS NOT NULL
  AND (%(doubtful)s OR m.memory_id NOT IN (
      SELECT memory_id FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL))
ORDER BY m.created_at DESC, m.memory_id DESC
LIMIT %(limit)s
"""

_PAST_MEMORIES = """
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed,
       (SELECT sealed_at(e.sealed, e.text_version) FROM sealed_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s AND %(with_vectors)s
          AND e.text_version = m.text_version AND m.version >= m.text_version)
FROM @filtered_memories_at AS m
WHERE m.sealed IS NOT NULL
  AND (%(doubtful)s OR m.memory_id NOT IN (
      SELECT d.memory_id
      FROM @in_doubt_at AS d))
ORDER BY m.created_at DESC, m.memory_id DESC
LIMIT %(limit)s
"""

_MESSAGES = """
SELECT m.conversation_id, m.message_no, m.message_id, m.said_at, m.accepted_at, m.role, m.sealed
FROM @filtered_messages AS m
WHERE m.sealed IS NOT NULL
ORDER BY least(m.said_at, m.accepted_at) DESC, m.conversation_id DESC, m.message_no DESC
LIMIT %(limit)s
"""

_SUMMARIES = """
SELECT s.conversation_id, s.happened_at, s.created_at, sealed_at(s.sealed, s.sealed_version)
FROM @filtered_summaries AS s
WHERE s.sealed IS NOT NULL
ORDER BY s.happened_at DESC, s.conversation_id DESC
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class SealedItem:
    """A sealed candidate.

    Attributes:
        candidate: Without the features that depend on its words and its vector.
        sealed: Its words.
        place: The place to which they are bound.
        vector: Its sealed vector, if it has one.
        vector_place: The place to which that is bound.
    """

    candidate: Candidate
    sealed: bytes
    place: Place
    vector: bytes | None = None
    vector_place: Place = ()


def memories(
    scope: Scope,
    filters: Filters,
    moment: Moment | None = None,
    *,
    model: str = "",
    with_vectors: bool = False,
) -> Statement[list[SealedItem]]:
    """The newest sealed memories that pass all `filters` but tags and metadata.

    There is one more than `MEMORIES` if more exist. With `moment` they are as of then.
    """

    def read(rows: Rows) -> list[SealedItem]:
        return [
            SealedItem(
                Candidate(
                    kind="memory",
                    key=memory_id,
                    happened_at=valid_from,
                    created_at=created_at,
                    conversation_id=conversation_id,
                    importance=importance,
                ),
                sealed,
                MEMORY.place(memory_id),
                vector,
                VECTOR.place(memory_id, model),
            )
            for memory_id, importance, created_at, valid_from, conversation_id, sealed, vector in (
                rows
            )
        ]

    seen = replace(filters, tags=None, metadata={}, sealed_ids=None)
    return Statement(
        _PAST_MEMORIES if moment else _MEMORIES,
        {
            **scope.parameters,
            **(moment.parameters() if moment else {}),
            **seen.parameters(),
            "model": model,
            "with_vectors": with_vectors,
            "limit": MEMORIES + 1,
        },
        read,
        planned_anew=moment is not None,
    )


def messages(scope: Scope, filters: PassageFilters) -> Statement[list[SealedItem]]:
    """The newest sealed messages that pass all `filters` but metadata, and one more."""
    return Statement(
        _MESSAGES,
        {**scope.parameters, **replace(filters, metadata={}).parameters(), "limit": MESSAGES + 1},
        lambda rows: [
            SealedItem(
                Candidate(
                    kind="message",
                    key=(conversation_id, message_no),
                    happened_at=said_by_then(said_at, accepted_at),
                    created_at=accepted_at,
                    conversation_id=conversation_id,
                    role=role,
                ),
                sealed,
                MESSAGE.place(conversation_id, message_id),
            )
            for conversation_id, message_no, message_id, said_at, accepted_at, role, sealed in rows
        ],
        planned_anew=not filters.all_that_was_said,
    )


def summaries(scope: Scope, filters: PassageFilters) -> Statement[list[SealedItem]]:
    """The sealed summaries of the last active conversations that pass `filters`, and one more."""
    return Statement(
        _SUMMARIES,
        {**scope.parameters, **filters.parameters(), "limit": SUMMARIES + 1},
        lambda rows: [_summary(*row) for row in rows],
        planned_anew=not filters.all_that_was_said,
    )


def _summary(
    conversation_id: str, happened_at: datetime, created_at: datetime, sealed: bytes
) -> SealedItem:
    return SealedItem(
        Candidate(
            kind="summary",
            key=conversation_id,
            happened_at=happened_at,
            created_at=created_at,
            conversation_id=conversation_id,
        ),
        sealed,
        SUMMARY.place(conversation_id),
    )
