"""Profile, preferences, entities and summaries of one user, cached for a context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from hitherto_retrieval.storage import conversations, passages, people
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Entity, Preference, Profile, Scope, Summary
from hitherto_shared.text.bm25 import Statistics

MOST_ENTITIES = 2_000
MOST_SUMMARIES = 1_000
NAMED = 20
"""Maximum number of entities that a question names, as in `people.user`."""

# In the order of `people.known_entities`, with the end of what mentions each: NULL if nothing does.
_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata, called,
       octet_length(name) + octet_length(metadata::text) + octet_length(called::text),
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

_OWN_NAME = """
SELECT facts #>> '{personal,name}',
       octet_length(summary) + octet_length(facts::text) + octet_length(metadata::text)
           + octet_length(preferences::text)
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_BYTES_OF_AN_ENTITY = 2_000
_BYTES_OF_A_SUMMARY = 3_000
"""Approximate bytes of a summary besides its text."""
_BYTES_OF_A_BYTE = 7
"""As in `cached_memories`."""


@dataclass(frozen=True, slots=True)
class CachedEntity:
    """An entity, the stored forms of what it is called, and whether anything mentions it now."""

    entity: Entity
    called: frozenset[str]
    current: bool


@dataclass(frozen=True, slots=True)
class CachedSurroundings:
    """The contents of a context besides memories; immutable.

    Attributes:
        profile: The profile, or None.
        own_name: The user's name, if the profile has it.
        preferences: The preferences inferred from behaviour, the most certain first.
        statistics: Statistics of the keyword indexes of passages.
        size: Approximate size in bytes.
        until: When an entity is first mentioned by nothing any more; None if none will be.
    """

    profile: Profile | None
    own_name: str
    preferences: list[Preference]
    statistics: Mapping[passages.Index, Statistics]
    size: int
    until: datetime | None
    _entities: Sequence[CachedEntity]
    _summaries: Sequence[Summary]

    def named(self, names: Sequence[str]) -> list[Entity]:
        """The entities with one of the names, as in `people.user`."""
        if not names:
            return []
        wanted = frozenset(names)
        found = [each.entity for each in self._entities if not each.called.isdisjoint(wanted)]
        return found[:NAMED]

    def known(self, *, named: Sequence[str], limit: int) -> list[Entity]:
        """See `people.known_entities`."""
        current = [each for each in self._entities if each.current]
        if named:
            wanted = frozenset(named)
            current.sort(key=lambda each: each.called.isdisjoint(wanted))
        return [each.entity for each in current[:limit]]

    def summaries(self, conversation_ids: Sequence[str]) -> dict[str, Summary]:
        """Summaries by their conversations; those without one are left out."""
        wanted = set(conversation_ids)
        return {s.conversation_id: s for s in self._summaries if s.conversation_id in wanted}

    def recent(self, *, first: str | None, limit: int) -> list[Summary]:
        """See `conversations.recent`."""
        ordered = self._summaries
        if first is not None:
            ordered = sorted(ordered, key=lambda each: each.conversation_id != first)
        return list(islice((each for each in ordered if not each.withheld), limit))


class Surroundings:
    """The statements from which `CachedSurroundings` is built."""

    def __init__(self, scope: Scope) -> None:
        self._profile = people.profile(scope)
        self._own_name: Statement[Rows] = Statement(_OWN_NAME, scope.bind(), lambda rows: rows)
        self._preferences = people.preferences(scope)
        self._statistics = passages.statistics(scope)
        self._entities: Statement[Rows] = Statement(
            _ENTITIES, scope.bind(limit=MOST_ENTITIES + 1), lambda rows: rows
        )
        self._summaries = conversations.recent(
            scope, first=None, limit=MOST_SUMMARIES + 1, to_show=False
        )

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run before `cached`."""
        return (
            self._profile,
            self._own_name,
            self._preferences,
            self._statistics,
            self._entities,
            self._summaries,
        )

    @property
    def fit(self) -> bool:
        """Whether there are not too many, so that the database need not be read each time."""
        entities, summaries = self._entities.answer, self._summaries.answer
        return len(entities) <= MOST_ENTITIES and len(summaries) <= MOST_SUMMARIES

    def cached(self, at: datetime) -> CachedSurroundings:
        """The answers, by the database's clock."""
        entities, summaries = self._entities.answer, self._summaries.answer
        own_name, size = self._own_name.answer[0] if self._own_name.answer else (None, 0)
        profile, now = self._profile.answer, at.timestamp()
        size += sum(row[7] for row in entities)
        size += sum(len(s.title) + len(s.summary) + sum(map(len, s.withheld)) for s in summaries)
        ends = [row[8] for row in entities if row[8] is not None and now < row[8] < float("inf")]
        return CachedSurroundings(
            profile=None if profile is None else replace(profile, memo={}),
            own_name=own_name or "",
            preferences=[replace(each, memo={}) for each in self._preferences.answer],
            statistics=self._statistics.answer,
            size=_BYTES_OF_A_BYTE * size
            + _BYTES_OF_AN_ENTITY * (len(entities) + len(self._preferences.answer))
            + _BYTES_OF_A_SUMMARY * len(summaries),
            until=datetime.fromtimestamp(min(ends), UTC) if ends else None,
            _entities=[
                CachedEntity(
                    Entity(*(*row[:6], {})),
                    frozenset(row[6]),
                    row[8] is not None and row[8] > now,
                )
                for row in entities
            ],
            _summaries=[replace(summary, memo={}) for summary in summaries],
        )
