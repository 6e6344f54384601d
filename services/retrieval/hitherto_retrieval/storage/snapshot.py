"""A snapshot of a user: what reads need, in one state of the database."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from hitherto_retrieval.storage import passages
from hitherto_retrieval.storage.cached_memories import CachedMemories
from hitherto_retrieval.storage.cached_passages import CachedMessages, CachedPassages
from hitherto_shared.models import Entity, Preference, Profile, Summary
from hitherto_shared.text.bm25 import Statistics

NAMED = 20
"""Maximum number of entities that a question names, as in `people.user`."""
MOST_KEPT = 4
"""How many contexts are kept with a user's snapshot."""

State = tuple[int, tuple[str, int]]
"""A revision, and the active model with its dimensions."""


class CachedEntity(NamedTuple):
    """An entity, the stored forms of what it is called, and whether anything mentions it now."""

    entity: Entity
    called: frozenset[str]
    current: bool


class KeptContexts:
    """The contexts without a question that are kept with a user's snapshot; used on the loop only.

    Args:
        room: How many bytes they may take, which the size of the snapshot counts.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: dict[Hashable, tuple[Any, int]] = {}

    def find(self, key: Hashable) -> Any:
        """What is kept under the key: differs in its fence, its day and usage at most; or None."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: Hashable, context: Any, size: int) -> None:
        """Keep a context, in place of the oldest ones if they are too many or too large."""
        if size > self.room:
            return
        self._kept.pop(key, None)
        self._kept[key] = context, size
        while len(self._kept) > MOST_KEPT or self._size > self.room:
            del self._kept[next(iter(self._kept))]

    @property
    def _size(self) -> int:
        return sum(size for _, size in self._kept.values())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What reads need of a user, in one state of the database.

    Attributes:
        state: Its revision, and the model of its vectors.
        until: The time, by the database's clock, from which on something of it has expired.
        messages: The messages; None if there are too many.
        summaries: The summaries, as a search compares them.
        own_name: The user's name, if the profile has it.
        preferences: The preferences inferred from behaviour, the most certain first.
        statistics: Statistics of the keyword indexes of passages.
        contexts: The contexts that are kept with it.
        size: Approximate size in bytes, with the room for what will be kept.
    """

    state: State
    until: datetime | None
    memories: CachedMemories
    messages: CachedMessages | None
    summaries: CachedPassages
    profile: Profile | None
    own_name: str
    preferences: list[Preference]
    statistics: Mapping[passages.Index, Statistics]
    contexts: KeptContexts
    size: int
    _entities: Sequence[CachedEntity]
    _conversations: Sequence[Summary]

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

    def whole_summaries(self, conversation_ids: Sequence[str]) -> dict[str, Summary]:
        """Summaries by their conversations; those without one are left out."""
        wanted = set(conversation_ids)
        return {s.conversation_id: s for s in self._conversations if s.conversation_id in wanted}

    def recent(self, *, first: str | None, limit: int) -> list[Summary]:
        """See `conversations.recent`."""
        ordered = self._conversations
        if first is not None:
            ordered = sorted(ordered, key=lambda each: each.conversation_id != first)
        return list(islice((each for each in ordered if not each.withheld), limit))
