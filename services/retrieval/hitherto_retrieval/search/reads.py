"""What is read of one user, whether the database or a snapshot answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.ranking.turns import FARTHEST, TURNS
from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage import (
    chunk_candidates,
    chunks,
    conversations,
    filtered_candidates,
    memories,
    message_candidates,
    messages,
    neighbours,
    past,
    people,
    summary_candidates,
)
from hitherto_retrieval.storage.cached_memories import FRESH_PLACES
from hitherto_retrieval.storage.cached_passages import (
    CachedMessages,
    CachedPassages,
    can_filter,
)
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind, MessageKey
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.neighbours import Facts, MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.passage_search import PassageSearch
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.snapshot import Snapshot
from hitherto_retrieval.storage.standing import Standing
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_shared.database.pool import Reads
from hitherto_shared.metrics import SNAPSHOT_LOOKUPS, labelled
from hitherto_shared.models import Entity, Memory, Preference, Profile, Scope, Summary

FoundCandidates = Statement[list[Candidate]]
Whole = Statement[Mapping[Key, Item]]
_PASSAGES: Mapping[Kind, PassageSearch] = {
    "message": message_candidates.SEARCH,
    "summary": summary_candidates.SEARCH,
    "document": chunk_candidates.SEARCH,
}


class UserReads:
    """The statements of what is read of a user.

    Those that a snapshot answers are answered already. What confirms it goes with the first round
    trip, in place of everything that it has; if the user's revision differs, that is read
    afterwards.

    Args:
        scope: The user.
        moment: Another time, at which the sections of a context are read, and items whole.
        snapshots: Where a snapshot may be; None to read without one.

    Attributes:
        confirming: The user's state, and the usage of the memories, to be asked first if there is a
            snapshot; None if there is none.
        snapshot: The snapshot that answers, once it is confirmed; None if the database does.
    """

    def __init__(
        self, scope: Scope, moment: Moment | None = None, snapshots: Snapshots | None = None
    ) -> None:
        self.scope = scope
        self.moment = moment
        self._snapshots = snapshots
        self._known = None if snapshots is None else snapshots.cached(scope)
        self.confirming: Statement[UserReadState] | None = None
        if self._known is not None:
            self.confirming = people.user(scope, with_usage=True)
        self.snapshot: Snapshot | None = None
        self._usage = b""

    def only_list(self, *, limit: int, newest_first: bool, doubtful: bool) -> None:
        """Ask for the usage of no memories but those that `top` may return."""
        if self._known is not None:
            used = self._known.memories.told_of(
                limit=limit, fresh=_fresh(limit), newest_first=newest_first, doubtful=doubtful
            )
            self.confirming = people.user(self.scope, with_usage=True, used=used)

    def confirm(self, user: UserReadState, database: Reads) -> None:
        """Let the snapshot answer from now on if it has the state `user`, read from `database`."""
        if self._snapshots is None:
            return
        # Each read counts once.
        snapshots, self._snapshots = self._snapshots, None
        found = snapshots.of(self.scope, user, database)
        # A snapshot loaded meanwhile has no usage of the memories.
        hit = found is not None and found is self._known
        labelled(SNAPSHOT_LOOKUPS, "hit" if hit else "miss").inc()
        if hit:
            self.snapshot, self._usage = found, user.usage

    def profile(self) -> Statement[Profile | None]:
        """The profile."""
        if self.snapshot is not None:
            return Answered(self.snapshot.profile)
        at = self._stood_at
        return people.profile(self.scope) if at is None else past.profile(self.scope, at)

    def preferences(self) -> Statement[list[Preference]]:
        """The preferences inferred from behaviour, the most certain first."""
        if self.snapshot is not None:
            return Answered(self.snapshot.preferences)
        found, at = people.preferences(self.scope), self._stood_at
        if at is None:
            return found
        return found.meaning(lambda known: [each for each in known if each.updated_at <= at])

    @property
    def _stood_at(self) -> datetime | None:
        """What has no validity of its own is read as it stood at the earlier time."""
        if self.moment is None:
            return None
        given = (self.moment.known_at, self.moment.as_of)
        return min((at for at in given if at is not None), default=None)

    def top(self, *, limit: int, newest_first: bool, doubtful: bool) -> Statement[list[Memory]]:
        """The most important memories, some places for the newest; or the newest alone."""
        scope, moment, snapshot = self.scope, self.moment, self.snapshot
        if moment is not None:
            return past.top(
                scope, moment, limit=limit, newest_first=newest_first, doubtful=doubtful
            )
        if newest_first:
            if snapshot is None:
                return memories.newest(scope, limit=limit, doubtful=doubtful)
            return Answered(snapshot.memories.newest(self._usage, limit=limit, doubtful=doubtful))
        fresh = _fresh(limit)
        if snapshot is None:
            return memories.top(scope, limit=limit, fresh=fresh, doubtful=doubtful)
        return Answered(
            snapshot.memories.top(self._usage, limit=limit, fresh=fresh, doubtful=doubtful)
        )

    def conversations(self, *, first: str | None, limit: int) -> Statement[list[Summary]]:
        """The summaries of the most recent conversations, after that of the one named."""
        if self.snapshot is not None:
            return Answered(self.snapshot.recent(first=first, limit=limit))
        moment = self.moment or PRESENT
        return conversations.recent(self.scope, first=first, limit=limit, moment=moment)

    def entities(self, *, named: Sequence[str], limit: int) -> Statement[list[Entity]]:
        """The most mentioned entities, after those with one of the names."""
        if self.snapshot is not None:
            return Answered(self.snapshot.known(named=named, limit=limit))
        known_at = self.moment.known_at if self.moment is not None else None
        return people.known_entities(self.scope, named=named, limit=limit, known_at=known_at)

    def has_memories(self, filters: Filters) -> bool:
        """Whether memories that pass `filters` are found without asking."""
        return self.snapshot is not None and self.snapshot.memories.can_answer(filters)

    def has_passages(self, kind: Kind, filters: PassageFilters) -> bool:
        """Whether passages of a kind that pass `filters` are found without asking."""
        return self._cached(kind, filters) is not None

    def _cached(self, kind: Kind, filters: PassageFilters) -> CachedPassages | None:
        """The passages of a kind, if the snapshot has them and the fields that filters use."""
        if self.snapshot is None or not can_filter(filters):
            return None
        return {"message": self._messages, "summary": self.snapshot.summaries}.get(kind)

    @property
    def _messages(self) -> CachedMessages | None:
        return None if self.snapshot is None else self.snapshot.messages

    def memories(self, query: ItemQuery, filters: Filters) -> FoundCandidates:
        """The candidates among the memories that pass `filters`, all of them compared."""
        if self.snapshot is not None and self.has_memories(filters):
            return Answered(self.snapshot.memories.candidates(query, filters))
        return filtered_candidates.find(query, filters)

    def passages(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, among_all: bool = False
    ) -> FoundCandidates:
        """Passages of a kind near to the question or with words of it; see `PassageSearch.find`."""
        cached = self._cached(kind, filters)
        if cached is not None:
            return Answered(cached.find(query, filters))
        return _PASSAGES[kind].find(query, filters, among_all=among_all)

    def newest(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, limit: int
    ) -> FoundCandidates:
        """The newest passages of a kind."""
        cached = self._cached(kind, filters)
        if cached is not None:
            return Answered(cached.most_recent(query, filters, limit=limit))
        return _PASSAGES[kind].newest(query, filters, limit=limit)

    def around(self, query: ItemQuery, keys: Sequence[MessageKey]) -> FoundCandidates:
        """What was said right before and after messages."""
        if self._messages is not None:
            return Answered(self._messages.around(query, keys, turns=TURNS, farthest=FARTHEST))
        return neighbours.around(query, keys, turns=TURNS, farthest=FARTHEST)

    def facts(
        self, query: ItemQuery, keys: Sequence[MessageKey]
    ) -> Statement[dict[MessageKey, Facts]]:
        """What was learnt from messages."""
        if self._messages is not None:
            return Answered(self._messages.facts_about(query, keys))
        return neighbours.facts_about(query, keys)

    def standing(self, filters: Filters) -> Statement[Standing]:
        """Which of the memories that pass `filters` are in doubt, and which may replace others.

        A snapshot knows of the current memories alone.
        """
        if self.snapshot is not None and filters.only_current:
            return Answered(self.snapshot.memories.standing)
        return memories.standing(self.scope)

    def caveats(self, keys: Sequence[MessageKey]) -> Statement[MessageFlags]:
        """What a prompt must know of messages."""
        if self._messages is not None:
            return Answered(self._messages.caveats)
        return neighbours.caveats(self.scope, keys)

    def answered(self, keys: Sequence[MessageKey]) -> Statement[Mapping[MessageKey, int]]:
        """The number of the user's last message before each message."""
        if self._messages is not None:
            return Answered(self._messages.answered)
        return neighbours.answered(self.scope, keys)

    def whole(self, kind: Kind, keys: Sequence[Key]) -> Whole:
        """The items of one kind by key, without items deleted in the meantime.

        At another time, memories are as they stood then, and later summaries are left out. `used`
        knows how memories of a snapshot were used.
        """
        found = self._cached_whole(kind, keys)
        if found is not None:
            return Answered(found)
        scope, moment = self.scope, self.moment
        if kind == "memory":
            ids = cast(Sequence[UUID], keys)
            read = past.whole(scope, moment, ids) if moment else memories.by_ids(scope, ids)
            return read.meaning(lambda found: {memory.memory_id: memory for memory in found})
        if kind == "message":
            return messages.by_keys(scope, cast(Sequence[MessageKey], keys)).meaning(
                # Keys of several kinds, of which these are one.
                lambda found: cast(Mapping[Key, Item], found)
            )
        if kind == "summary":
            summaries = conversations.by_conversations(
                scope, cast(Sequence[str], keys), moment=moment or PRESENT
            )
            return summaries.meaning(
                lambda found: {summary.conversation_id: summary for summary in found}
            )
        return chunks.by_ids(scope, cast(Sequence[UUID], keys)).meaning(
            lambda found: {chunk.chunk_id: chunk for chunk in found}
        )

    def used(self, memories: Sequence[Memory]) -> Sequence[Memory]:
        """Memories that were read whole, as they were used.

        Of what is found, little is returned: only for that, the usage is looked up.
        """
        if self.snapshot is None:
            return memories
        return self.snapshot.memories.used(memories, self._usage)

    def _cached_whole(self, kind: Kind, keys: Sequence[Any]) -> Mapping[Any, Item] | None:
        """The items, if the snapshot has them; a search may ask for memories not current."""
        if self.snapshot is None:
            return None
        if kind == "memory":
            current = self.snapshot.memories.whole(keys)
            return current if len(current) == len(keys) else None
        if kind == "message" and self._messages is not None:
            return self._messages.whole(keys)
        return self.snapshot.whole_summaries(keys) if kind == "summary" else None


def _fresh(limit: int) -> int:
    return min(FRESH_PLACES, limit // 2)
