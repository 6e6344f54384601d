"""Reads the sealed items of a user, for a search that compares them one by one, and for histories.

The newest come first: a search reads no more than it can open in time. Tags, metadata and words of
sealed items are not visible here, so filters on these apply after opening.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import LET_THROUGH, Filters
from hitherto_retrieval.storage.message_candidates import LET_THROUGH as SAID_LET_THROUGH
from hitherto_retrieval.storage.moment import AT_THE_MOMENT, Moment
from hitherto_retrieval.storage.passage_filters import SAID_OF_ENTITY, PassageFilters, of
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.encryption.places import (
    Place,
    memory_place,
    message_place,
    summary_place,
    vector_place,
)
from hitherto_shared.models import Scope

MEMORIES = 2_000
"""Maximum number of sealed memories that a search compares."""
MESSAGES = 500
"""Maximum number of sealed messages."""
SUMMARIES = 200
"""Maximum number of sealed summaries."""

# A vector of an earlier wording does not count. At another time memories may have had other
# wordings, whose vectors are not stored: `text_version` tells.
_FOUND = """
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed,
       (SELECT sealed_at(e.sealed, e.text_version) FROM sealed_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s AND %(with_vectors)s
          AND e.text_version = m.text_version AND m.version >= m.text_version)
"""
_NEWEST = """
      AND m.sealed IS NOT NULL
    ORDER BY m.created_at DESC, m.memory_id DESC
    LIMIT %(limit)s
"""
_MEMORIES = _FOUND + "FROM memories AS m\n" + LET_THROUGH + _NEWEST
_PAST_MEMORIES = AT_THE_MOMENT + _FOUND + "FROM seen AS m\n" + LET_THROUGH + _NEWEST

_MESSAGES = (
    """
SELECT m.conversation_id, m.message_no, m.message_id, m.said_at, m.accepted_at, m.role, m.sealed
FROM messages AS m
"""
    + SAID_LET_THROUGH
    + """
      AND m.sealed IS NOT NULL
    ORDER BY m.said_at DESC, m.conversation_id DESC, m.message_no DESC
    LIMIT %(limit)s
"""
)

_SUMMARIES = (
    """
SELECT s.conversation_id, coalesce(c.last_said_at, s.created_at), s.created_at,
       sealed_at(s.sealed, s.sealed_version)
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = s.tenant_id AND c.user_id = s.user_id
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.sealed IS NOT NULL
  AND (%(conversation_id)s::text IS NULL OR s.conversation_id = %(conversation_id)s)
  AND (%(created_after)s::timestamptz IS NULL
       OR coalesce(c.last_said_at, s.created_at) >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL
       OR coalesce(c.last_said_at, s.created_at) < %(created_before)s)
  AND (%(stored_by)s::timestamptz IS NULL OR s.updated_at <= %(stored_by)s)
  AND %(metadata)s::jsonb IS NULL
  AND (%(entity_names)s::text[] IS NULL OR s.conversation_id IN (
        SELECT said.conversation_id FROM ("""
    + SAID_OF_ENTITY
    + """) AS said))
ORDER BY c.last_said_at DESC NULLS LAST, s.conversation_id DESC
LIMIT %(limit)s
"""
)

# The present version is with the memory, earlier ones are separate.
_VERSIONS = """
SELECT version, sealed_of_memory(tenant_id, user_id, memory_id, version, text_version, sealed)
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND version = ANY(%(versions)s) AND sealed IS NOT NULL
UNION ALL
SELECT version, sealed_of_memory(tenant_id, user_id, memory_id, version, 0, sealed)
FROM memory_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND version = ANY(%(versions)s) AND sealed IS NOT NULL
"""

_PROFILE_VERSIONS = """
SELECT version, sealed FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND version = ANY(%(versions)s) AND sealed IS NOT NULL
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
                memory_place(memory_id),
                vector,
                vector_place(memory_id, model),
            )
            for memory_id, importance, created_at, valid_from, conversation_id, sealed, vector in (
                rows
            )
        ]

    seen = replace(filters, tags=None, metadata={}, sealed_ids=None)
    return Statement(
        _PAST_MEMORIES if moment else _MEMORIES,
        {
            **of(scope),
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
        {**of(scope), **replace(filters, metadata={}).parameters(), "limit": MESSAGES + 1},
        lambda rows: [
            SealedItem(
                Candidate(
                    kind="message",
                    key=(conversation_id, message_no),
                    happened_at=said_at,
                    created_at=accepted_at,
                    conversation_id=conversation_id,
                    role=role,
                ),
                sealed,
                message_place(conversation_id, message_id),
            )
            for conversation_id, message_no, message_id, said_at, accepted_at, role, sealed in rows
        ],
        planned_anew=not filters.all_that_was_said,
    )


def summaries(scope: Scope, filters: PassageFilters) -> Statement[list[SealedItem]]:
    """The sealed summaries of the last active conversations that pass `filters`, and one more."""
    return Statement(
        _SUMMARIES,
        {**of(scope), **filters.parameters(), "limit": SUMMARIES + 1},
        lambda rows: [_summary(*row) for row in rows],
        planned_anew=not filters.all_that_was_said,
    )


def versions_of_memory(
    scope: Scope, memory_id: UUID, versions: Sequence[int]
) -> Statement[dict[int, bytes]]:
    """The sealed values of versions of a memory; unsealed versions are left out."""
    return _versions(_VERSIONS, scope, versions, memory_id=memory_id)


def versions_of_profile(scope: Scope, versions: Sequence[int]) -> Statement[dict[int, bytes]]:
    """The same of the user's profile."""
    return _versions(_PROFILE_VERSIONS, scope, versions)


def _versions(
    sql: str, scope: Scope, versions: Sequence[int], **values: Any
) -> Statement[dict[int, bytes]]:
    return Statement(
        sql,
        {**of(scope), "versions": list(versions), **values},
        lambda rows: {row[0]: row[1] for row in rows},
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
        summary_place(conversation_id),
    )
