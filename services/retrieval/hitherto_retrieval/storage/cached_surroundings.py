"""Profile, preferences, entities and summaries of one user, cached for a context.

Rows are in the order in which Postgres sorts them, so that ties have the same order here, whatever
the database's collation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from math import inf
from typing import Any

from hitherto_retrieval.storage import conversations, passages, people
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Entity, Preference, Profile, Scope, Summary
from hitherto_shared.text.bm25 import Statistics

MOST_ENTITIES = 2_000
MOST_SUMMARIES = 1_000
NAMED = 20
"""Maximum number of entities that a question names, as in `people.lookup`."""

_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata, called,
       octet_length(name) + octet_length(metadata::text) + octet_length(called::text),
       row_number() OVER (ORDER BY name, entity_id),
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
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
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

# As in the view `short_conversations`, for all conversations at once: few memories have ended.
_TAKEN_BACK = """
SELECT s.conversation_id,
       (array_agg(DISTINCT left(f.content, 300) ORDER BY left(f.content, 300))
            FILTER (WHERE f.status <> 'contradicted'))[:51],
       min(f.valid_to) FILTER (WHERE f.status = 'contradicted'
                               AND f.valid_to > least(c.last_said_at, c.updated_at))
FROM memories AS f
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.memory_id = f.memory_id
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = s.conversation_id
WHERE f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
  AND f.status IN ('forgotten', 'quarantined', 'contradicted')
GROUP BY s.conversation_id
"""

_BYTES_OF_AN_ENTITY = 2_000
_BYTES_OF_A_SUMMARY = 3_000
"""Approximate bytes of a summary besides its text."""
_BYTES_OF_A_BYTE = 7
"""As in `cached_memories`."""


@dataclass(frozen=True, slots=True)
class CachedEntity:
    """An entity, mentioned or not, and the stored forms of what it is called.

    Attributes:
        until: Until when a memory that holds, or a document, mentions it, in seconds since the
            epoch; infinity if one does not expire.
    """

    entity: Entity
    called: frozenset[str]
    until: float = inf


@dataclass(frozen=True, slots=True)
class CachedSurroundings:
    """The contents of a context besides memories; immutable.

    Attributes:
        profile: The profile, or None.
        own_name: The user's name, if the profile has it.
        preferences: The preferences inferred from behaviour, the most certain first.
        statistics: Statistics of the keyword indexes of passages.
        entities: All entities, in the order of their names.
        size: Approximate size in bytes.
    """

    profile: Profile | None
    own_name: str
    preferences: list[Preference]
    statistics: Mapping[passages.Index, Statistics]
    entities: Sequence[CachedEntity]
    size: int
    _mentioned: Sequence[CachedEntity]
    _summaries: Sequence[Summary]

    def named(self, names: Sequence[str]) -> list[Entity]:
        """The entities with one of the names, as in `people.lookup`."""
        if not names:
            return []
        wanted = frozenset(names)
        found = [each.entity for each in self._mentioned if not each.called.isdisjoint(wanted)]
        return found[:NAMED]

    def known(self, *, named: Sequence[str], limit: int, at: datetime) -> list[Entity]:
        """See `people.known_entities`; by the database's clock `at`."""
        now = at.timestamp()
        current = [each for each in self._mentioned if each.until > now]
        if not named:
            return [each.entity for each in current[:limit]]
        wanted = frozenset(named)
        first = sorted(current, key=lambda each: each.called.isdisjoint(wanted))
        return [each.entity for each in first[:limit]]

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
        of = {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
        self._profile = people.profile(scope)
        self._own_name: Statement[Rows] = Statement(_OWN_NAME, of, lambda rows: rows)
        self._preferences = people.preferences(scope)
        self._statistics = passages.statistics(scope)
        self._entities: Statement[Rows] = Statement(
            _ENTITIES, {**of, "limit": MOST_ENTITIES + 1}, lambda rows: rows
        )
        self._summaries = conversations.recent(
            scope, first=None, limit=MOST_SUMMARIES + 1, to_show=False
        )
        self._taken_back: Statement[Rows] = Statement(_TAKEN_BACK, of, lambda rows: rows)

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
            self._taken_back,
        )

    def cached(self) -> CachedSurroundings | None:
        """The answers; None if there is too much, so that the database is read each time."""
        entities, summaries = self._entities.answer, self._summaries.answer
        if len(entities) > MOST_ENTITIES or len(summaries) > MOST_SUMMARIES:
            return None
        own_name, size = self._own_name.answer[0] if self._own_name.answer else (None, 0)
        profile = self._profile.answer
        size += sum(row[7] for row in entities)
        cached = [
            CachedEntity(Entity(*(*row[:6], {})), frozenset(row[6]), row[9] or -inf)
            for row in entities
        ]
        by_name = sorted(zip(entities, cached, strict=True), key=lambda each: each[0][8])
        size += sum(len(s.title) + len(s.summary) for s in summaries)
        size += sum(len(text) for row in self._taken_back.answer for text in row[1] or ())
        return CachedSurroundings(
            profile=None if profile is None else replace(profile, memo={}),
            own_name=own_name or "",
            preferences=[replace(each, memo={}) for each in self._preferences.answer],
            statistics=self._statistics.answer,
            size=_BYTES_OF_A_BYTE * size
            + _BYTES_OF_AN_ENTITY * (len(entities) + len(self._preferences.answer))
            + _BYTES_OF_A_SUMMARY * len(summaries),
            entities=[each for _, each in by_name],
            _mentioned=[each for each in cached if each.entity.mention_count > 0],
            _summaries=self._summaries_cached(),
        )

    def _summaries_cached(self) -> list[Summary]:
        taken_back = {row[0]: (row[1] or [], row[2]) for row in self._taken_back.answer}
        cached = []
        for summary in self._summaries.answer:
            withheld, until = taken_back.get(summary.conversation_id, ([], None))
            cached.append(replace(summary, withheld=withheld, partly_until=until, memo={}))
        return cached
