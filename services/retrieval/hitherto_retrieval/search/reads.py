"""What is read of one user: one interface, whether the database or a snapshot answers.

What a snapshot has comes as statements that are answered already; the database is asked for the
rest.
"""

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
    CachedSummaries,
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
    """What the database answers.

    Args:
        scope: The user.
        moment: Another time, at which the sections of a context are read, and items whole.

    Attributes:
        snapshot: The snapshot that answers; None if the database does.
    """

    snapshot: Snapshot | None = None

    def __init__(self, scope: Scope, moment: Moment | None = None) -> None:
        self.scope = scope
        self.moment = moment

    def profile(self) -> Statement[Profile | None]:
        """The profile."""
        at = self._stood_at
        return people.profile(self.scope) if at is None else past.profile(self.scope, at)

    def preferences(self) -> Statement[list[Preference]]:
        """The preferences inferred from behaviour, the most certain first."""
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
        scope, moment = self.scope, self.moment
        if moment is not None:
            return past.top(
                scope, moment, limit=limit, newest_first=newest_first, doubtful=doubtful
            )
        if newest_first:
            return memories.newest(scope, limit=limit, doubtful=doubtful)
        return memories.top(scope, limit=limit, fresh=_fresh(limit), doubtful=doubtful)

    def conversations(self, *, first: str | None, limit: int) -> Statement[list[Summary]]:
        """The summaries of the most recent conversations, after that of the one named."""
        moment = self.moment or PRESENT
        return conversations.recent(self.scope, first=first, limit=limit, moment=moment)

    def entities(self, *, named: Sequence[str], limit: int) -> Statement[list[Entity]]:
        """The most mentioned entities, after those with one of the names."""
        known_at = self.moment.known_at if self.moment is not None else None
        return people.known_entities(self.scope, named=named, limit=limit, known_at=known_at)

    def has_memories(self, filters: Filters) -> bool:
        """Whether memories that pass `filters` are found without asking."""
        return False

    def has_passages(self, kind: Kind, filters: PassageFilters) -> bool:
        """Whether passages of a kind that pass `filters` are found without asking."""
        return False

    def memories(self, query: ItemQuery, filters: Filters) -> FoundCandidates:
        """The candidates among the memories that pass `filters`, all of them compared."""
        return filtered_candidates.find(query, filters)

    def passages(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, among_all: bool = False
    ) -> FoundCandidates:
        """Passages of a kind near to the question or with words of it; see `PassageSearch.find`."""
        return _PASSAGES[kind].find(query, filters, among_all=among_all)

    def newest(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, limit: int
    ) -> FoundCandidates:
        """The newest passages of a kind."""
        return _PASSAGES[kind].newest(query, filters, limit=limit)

    def around(self, query: ItemQuery, keys: Sequence[MessageKey]) -> FoundCandidates:
        """What was said right before and after messages."""
        return neighbours.around(query, keys, turns=TURNS, farthest=FARTHEST)

    def facts(
        self, query: ItemQuery, keys: Sequence[MessageKey]
    ) -> Statement[dict[MessageKey, Facts]]:
        """What was learnt from messages."""
        return neighbours.facts_about(query, keys)

    def standing(self, filters: Filters) -> Statement[Standing]:
        """Which of the memories that pass `filters` are in doubt, and which may replace others."""
        return memories.standing(self.scope)

    def caveats(self, keys: Sequence[MessageKey]) -> Statement[MessageFlags]:
        """What a prompt must know of messages."""
        return neighbours.caveats(self.scope, keys)

    def answered(self, keys: Sequence[MessageKey]) -> Statement[Mapping[MessageKey, int]]:
        """The number of the user's last message before each message."""
        return neighbours.answered(self.scope, keys)

    def whole(self, kind: Kind, keys: Sequence[Key]) -> Whole:
        """The items of one kind by key, without items deleted in the meantime.

        At another time, memories are as they stood then, and later summaries are left out.
        """
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


class CachedReads(UserReads):
    """What the confirmed snapshot of a user answers, as the database would.

    Args:
        scope: The user.
        snapshot: The snapshot.
        usage: The usage of the memories, as `UserReadState` has it.
    """

    def __init__(self, scope: Scope, snapshot: Snapshot, usage: bytes) -> None:
        super().__init__(scope)
        self.snapshot: Snapshot = snapshot
        self._memories, self._messages = snapshot.memories, snapshot.messages
        self._usage = usage

    def profile(self) -> Statement[Profile | None]:
        """See `UserReads.profile`."""
        return Answered(self.snapshot.profile)

    def preferences(self) -> Statement[list[Preference]]:
        """See `UserReads.preferences`."""
        return Answered(self.snapshot.preferences)

    def top(self, *, limit: int, newest_first: bool, doubtful: bool) -> Statement[list[Memory]]:
        """See `UserReads.top`."""
        memories, usage = self._memories, self._usage
        if newest_first:
            return Answered(memories.newest(usage, limit=limit, doubtful=doubtful))
        fresh = _fresh(limit)
        return Answered(memories.top(usage, limit=limit, fresh=fresh, doubtful=doubtful))

    def conversations(self, *, first: str | None, limit: int) -> Statement[list[Summary]]:
        """See `UserReads.conversations`."""
        return Answered(self.snapshot.recent(first=first, limit=limit))

    def entities(self, *, named: Sequence[str], limit: int) -> Statement[list[Entity]]:
        """See `UserReads.entities`."""
        return Answered(self.snapshot.known(named=named, limit=limit))

    def has_memories(self, filters: Filters) -> bool:
        """See `UserReads.has_memories`."""
        return self._memories.can_answer(filters)

    def has_passages(self, kind: Kind, filters: PassageFilters) -> bool:
        """See `UserReads.has_passages`."""
        return self._cached(kind, filters) is not None

    def _cached(
        self, kind: Kind, filters: PassageFilters
    ) -> CachedMessages | CachedSummaries | None:
        """The passages of a kind, if the snapshot has them and the fields that filters use."""
        if not can_filter(filters):
            return None
        return {"message": self._messages, "summary": self.snapshot.summaries}.get(kind)

    def memories(self, query: ItemQuery, filters: Filters) -> FoundCandidates:
        """See `UserReads.memories`."""
        if not self.has_memories(filters):
            return super().memories(query, filters)
        return Answered(self._memories.candidates(query, filters))

    def passages(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, among_all: bool = False
    ) -> FoundCandidates:
        """See `UserReads.passages`."""
        cached = self._cached(kind, filters)
        if cached is None:
            return super().passages(kind, query, filters, among_all=among_all)
        return Answered(cached.find(query, filters))

    def newest(
        self, kind: Kind, query: ItemQuery, filters: PassageFilters, *, limit: int
    ) -> FoundCandidates:
        """See `UserReads.newest`."""
        cached = self._cached(kind, filters)
        if cached is None:
            return super().newest(kind, query, filters, limit=limit)
        return Answered(cached.most_recent(query, filters, limit=limit))

    def around(self, query: ItemQuery, keys: Sequence[MessageKey]) -> FoundCandidates:
        """See `UserReads.around`."""
        if self._messages is None:
            return super().around(query, keys)
        return Answered(self._messages.around(query, keys, turns=TURNS, farthest=FARTHEST))

    def facts(
        self, query: ItemQuery, keys: Sequence[MessageKey]
    ) -> Statement[dict[MessageKey, Facts]]:
        """See `UserReads.facts`."""
        if self._messages is None:
            return super().facts(query, keys)
        return Answered(self._messages.facts_about(query, keys))

    def standing(self, filters: Filters) -> Statement[Standing]:
        """See `UserReads.standing`; a snapshot knows of the current memories alone."""
        if not filters.only_current:
            return super().standing(filters)
        return Answered(self._memories.standing)

    def caveats(self, keys: Sequence[MessageKey]) -> Statement[MessageFlags]:
        """See `UserReads.caveats`."""
        if self._messages is None:
            return super().caveats(keys)
        return Answered(self._messages.caveats)

    def answered(self, keys: Sequence[MessageKey]) -> Statement[Mapping[MessageKey, int]]:
        """See `UserReads.answered`."""
        if self._messages is None:
            return super().answered(keys)
        return Answered(self._messages.answered(keys))

    def whole(self, kind: Kind, keys: Sequence[Key]) -> Whole:
        """See `UserReads.whole`; a search may ask for memories that are not current."""
        found: Mapping[Any, Item] | None = None
        if kind == "memory":
            current = self._memories.whole(cast(Sequence[UUID], keys), self._usage)
            found = current if len(current) == len(set(keys)) else None
        elif kind == "message" and self._messages is not None:
            found = self._messages.whole(cast(Sequence[MessageKey], keys))
        elif kind == "summary":
            found = self.snapshot.whole_summaries(cast(Sequence[str], keys))
        return super().whole(kind, keys) if found is None else Answered(found)


class UnconfirmedReads:
    """What answers a read, before the database has told the user's revision.

    What confirms a snapshot goes with the first round trip, in place of everything in the snapshot;
    if the revision differs, that is read afterwards.

    Args:
        scope: The user.
        moment: Another time to read.
        snapshots: Where a snapshot may be; None to read without one.

    Attributes:
        database: What answers without a snapshot.
        confirming: The user's state, and the usage of the memories, to be asked first if there is a
            snapshot; None if there is none.
    """

    def __init__(self, scope: Scope, moment: Moment | None, snapshots: Snapshots | None) -> None:
        self.database = UserReads(scope, moment)
        self._snapshots = snapshots
        self._snapshot = None if snapshots is None else snapshots.cached(scope)
        self.confirming: Statement[UserReadState] | None = None
        if self._snapshot is not None:
            self.confirming = people.user(scope, with_usage=True)
        self._confirmed: UserReads | None = None

    def only_list(self, *, limit: int, newest_first: bool, doubtful: bool) -> None:
        """Ask for the usage of no memories but those that `UserReads.top` may return."""
        if self._snapshot is not None:
            used = self._snapshot.memories.told_of(
                limit=limit, fresh=_fresh(limit), newest_first=newest_first, doubtful=doubtful
            )
            self.confirming = people.user(self.database.scope, with_usage=True, used=used)

    def confirmed(self, user: UserReadState, database: Reads) -> UserReads:
        """What answers: the snapshot if it has the reported state, else the database.

        Args:
            user: The state.
            database: Where it was read.
        """
        if self._confirmed is None:
            self._confirmed = self.database
            if self._snapshots is not None:
                scope, snapshot = self.database.scope, self._snapshot
                found = self._snapshots.of(scope, user, database)
                # A snapshot loaded meanwhile has no usage of the memories.
                hit = found is not None and found is snapshot
                labelled(SNAPSHOT_LOOKUPS, "hit" if hit else "miss").inc()
                if found is not None and hit:
                    self._confirmed = CachedReads(scope, found, user.usage)
        return self._confirmed


def _fresh(limit: int) -> int:
    return min(FRESH_PLACES, limit // 2)
