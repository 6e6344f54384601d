"""A snapshot of a user, and how it is loaded: anew, or from an earlier one and what changed since.

Memories, messages and vectors, which are most of it, are read by what changed; the rest is small
and read whole. Both ways run the same statements in the same order, and make the same snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from hitherto_retrieval.storage import people, row_versions
from hitherto_retrieval.storage.cached_memories import CachedMemories
from hitherto_retrieval.storage.cached_memory_rows import MemoryRows
from hitherto_retrieval.storage.cached_passage_rows import MessageRows, SummaryRows
from hitherto_retrieval.storage.cached_passages import CachedMessages, CachedSummaries
from hitherto_retrieval.storage.cached_surroundings import CachedSurroundings, Surroundings
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.row_versions import Server
from hitherto_retrieval.storage.statement import Statement, ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Memo, Scope

MOST_MEMORIES = 3_000
_LEAST_ROOM, _MOST_ROOM, _SHARE_OF_ROOM = 16 * 1024, 128 * 1024, 8
"""Bytes for the kept contexts (`user_context`): a part of what is cached, within bounds."""
_ONE_STATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

State = tuple[int, tuple[str, int]]
"""A revision, and the active model with its dimensions."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of a user.

    Attributes:
        state: Its revision, and the model of its vectors.
        server: Where it was read.
        memories: The current memories.
        surroundings: Profile, preferences, entities and conversations.
        messages: The messages; None if there are too many.
        summaries: The summaries, as a search compares them.
        memo: What readers derive from it.
    """

    state: State
    server: Server
    memories: CachedMemories
    surroundings: CachedSurroundings
    messages: CachedMessages | None
    summaries: CachedSummaries
    memo: Memo = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Approximate size in bytes, with the room for what will be kept."""
        cached = self._cached
        return cached + _room_beside(cached)

    @property
    def room(self) -> int:
        """The bytes for contexts that are kept with it."""
        return _room_beside(self._cached)

    @property
    def _cached(self) -> int:
        parts = (self.memories, self.surroundings, self.messages, self.summaries)
        return sum(part.size for part in parts if part is not None)


def _room_beside(cached: int) -> int:
    return min(_MOST_ROOM, max(_LEAST_ROOM, cached // _SHARE_OF_ROOM))


class Loading:
    """A snapshot being loaded.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
        before: An earlier snapshot of the user, if there is one.
    """

    def __init__(
        self, scope: Scope, model: tuple[str, int], before: Snapshot | None = None
    ) -> None:
        self._before = before
        self._model = model
        self._server = row_versions.server()
        self._user = people.user(scope)
        self._memories = MemoryRows(scope, model)
        self._messages = MessageRows(scope, model)
        self._summaries = SummaryRows(scope, model)
        self._surroundings = Surroundings(scope)

    async def run(self, connection: Connection) -> None:
        """Read one state of the database; `state` and `snapshot` are available afterwards."""
        async with connection.transaction():
            await connection.execute(_ONE_STATE, {})
            await ask(
                connection,
                self._server,
                self._user,
                *self._memories.first,
                *self._messages.first,
                *self._summaries.first,
                *self._surroundings.statements,
            )
            # One after the other, so that other calls proceed in between.
            for together in zip_longest(*self._second()):
                await ask(connection, *(each for each in together if each is not None))

    def _second(self) -> Sequence[Sequence[Statement[Any]]]:
        before = self._before
        if before is not None and (before.server, before.state[1]) != (
            self._server.answer,
            self._model,
        ):
            before = self._before = None
        if self._memories.count > MOST_MEMORIES:
            return ()
        return (
            self._memories.second(None if before is None else before.memories),
            self._messages.second(None if before is None else before.messages),
            self._summaries.second(None if before is None else before.summaries),
        )

    @property
    def state(self) -> UserReadState:
        """The state of the user."""
        return self._user.answer

    @property
    def refreshed(self) -> bool:
        """Whether anything was kept of the earlier snapshot."""
        return self._before is not None

    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if it is too large. Uses only the CPU."""
        surroundings = self._surroundings.cached()
        if surroundings is None or self._memories.count > MOST_MEMORIES:
            return None
        memories = self._memories.cached(surroundings.entities, self.state.statistics.documents)
        return Snapshot(
            (self.state.revision, self._model),
            self._server.answer,
            memories,
            surroundings,
            self._messages.cached(memories),
            self._summaries.cached(memories),
        )
