"""A snapshot of a user, and how it is loaded."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.cached_memories import CachedMemories
from hitherto_retrieval.storage.cached_passages import CachedMessages, CachedSummaries
from hitherto_retrieval.storage.cached_rows import CachedRows
from hitherto_retrieval.storage.cached_surroundings import CachedSurroundings, Surroundings
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

MOST_KEPT = 4
"""How many contexts are kept with a user's snapshot."""
_LEAST_ROOM, _MOST_ROOM, _SHARE_OF_ROOM = 16 * 1024, 128 * 1024, 8
"""Bytes for the kept contexts: a part of what is cached, within bounds."""
_ONE_STATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

State = tuple[int, tuple[str, int]]
"""A revision, and the active model with its dimensions."""


class Keepable(Protocol):
    """A context, which the layers above this one make."""

    def to_keep(self) -> tuple[Any, int] | None:
        """What is kept of it, with its bytes; None: nothing is."""


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

    def keep(self, key: Hashable, context: Keepable) -> None:
        """Keep a context, in place of the oldest ones if they are too many or too large."""
        kept = context.to_keep()
        if kept is None or kept[1] > self.room:
            return
        self._kept.pop(key, None)
        self._kept[key] = kept
        while len(self._kept) > MOST_KEPT or self._size > self.room:
            del self._kept[next(iter(self._kept))]

    @property
    def _size(self) -> int:
        return sum(size for _, size in self._kept.values())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of a user.

    Attributes:
        state: Its revision, and the model of its vectors.
        until: The time, by the database's clock, from which on something of it has expired.
        memories: The current memories.
        surroundings: Profile, preferences, entities and conversations.
        messages: The messages; None if there are too many.
        summaries: The summaries, as a search compares them.
        contexts: The contexts that are kept with it.
        rows: How many memories and messages it holds.
        size: Approximate size in bytes, with the room for what will be kept.
    """

    state: State
    until: datetime | None
    memories: CachedMemories
    surroundings: CachedSurroundings
    messages: CachedMessages | None
    summaries: CachedSummaries
    contexts: KeptContexts
    rows: int
    size: int


class Loading:
    """A snapshot being loaded.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        self._model = model
        self._user = people.user(scope)
        self._rows = CachedRows(scope, model)
        self._surroundings = Surroundings(scope)
        self._fits = False

    async def run(self, connection: Connection) -> None:
        """Read one state of the database; `state` and `snapshot` are available afterwards."""
        async with connection.transaction():
            await connection.execute(_ONE_STATE, {})
            await ask(
                connection, self._user, *self._rows.statements, *self._surroundings.statements
            )
            self._fits = self._surroundings.fit and await self._rows.read(connection)

    @property
    def state(self) -> UserReadState:
        """The state of the user."""
        return self._user.answer

    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if it is too large. Uses only the CPU."""
        state = self.state
        if not self._fits:
            return None
        surroundings = self._surroundings.cached(state.at)
        memories = self._rows.memories(state.statistics.documents, state.at)
        messages, summaries = self._rows.messages(memories), self._rows.summaries()
        ends = [end for end in (memories.until, surroundings.until) if end is not None]
        parts = (memories, surroundings, messages, summaries)
        cached = sum(part.size for part in parts if part is not None)
        room = min(_MOST_ROOM, max(_LEAST_ROOM, cached // _SHARE_OF_ROOM))
        return Snapshot(
            state=(state.revision, self._model),
            until=min(ends, default=None),
            memories=memories,
            surroundings=surroundings,
            messages=messages,
            summaries=summaries,
            contexts=KeptContexts(room),
            rows=len(memories) + (0 if messages is None else len(messages.rows)),
            size=cached + room,
        )
