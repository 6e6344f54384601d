"""Snapshots of returning users in this process, each of one state, identified by its revision.

A read fetches the user's revision from the database, along with the postings of its question's
words and the usage of the user's memories. If the snapshot has that revision, its contents need not
be read again. A snapshot is thus as fresh as any read: it shows neither more nor less than the
database would, whichever server answers and whatever it has replayed. Revisions grow by random
steps, so that no two states of a user share one, not even those of a lost primary and of the server
that took over.

A snapshot is loaded in the background when a second read finds a revision unchanged; users who are
written to between any two reads have none. There is none either for users who have ever decided on
encryption, or who have too much data. The most recently used stay within the limit in bytes; a
changed user's snapshot is dropped when a read notices the change, or by a sweep over all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_retrieval.storage import held_memories, held_passages, memories, people
from hitherto_retrieval.storage.held_memories import HeldMemories
from hitherto_retrieval.storage.held_passages import (
    MOST_MESSAGES,
    HeldMessages,
    HeldSummaries,
)
from hitherto_retrieval.storage.held_surroundings import HeldSurroundings, Surroundings
from hitherto_retrieval.storage.memory_candidates import CODES_ABOVE
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Statement, ask
from hitherto_retrieval.storage.uses import StateAndUses, Uses, state_and_uses
from hitherto_shared.database.pool import Connection, Reads
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.metrics import SNAPSHOT_BYTES, SNAPSHOT_LOOKUPS, SNAPSHOTS
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.snapshots")

MOST_MEMORIES = CODES_ABOVE
"""Above this number, Postgres searches by sign bits first, which finds slightly less than
everything."""
SWEEP_SECONDS = 20.0
_ASKED_AT_ONCE = 500
_LOAD_SECONDS = 5.0
_LOADED_AT_ONCE = 2
_REMEMBERED = 10_000
"""Number of users whose last read revision is remembered."""
_NOT_AGAIN = -(1 << 30)
"""The count of a state that was too large, which is thus never loaded."""
_ONE_STATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_State = tuple[int, tuple[str, int]]
"""A revision, and the active model with its dimensions."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of a user.

    Attributes:
        state: Its revision, and the model of its vectors.
        memories: The current memories.
        surroundings: Profile, preferences, entities and conversations.
        messages: The messages; None if there are too many.
        summaries: The summaries, as a search compares them.
    """

    state: _State
    memories: HeldMemories
    surroundings: HeldSurroundings
    messages: HeldMessages | None
    summaries: HeldSummaries

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        parts = (self.memories, self.surroundings, self.messages, self.summaries)
        return sum(part.size for part in parts if part is not None)


class Loading:
    """A snapshot being loaded.

    Args:
        scope: The user.
        model: The active model, with its dimensions.
    """

    def __init__(self, scope: Scope, model: tuple[str, int]) -> None:
        name, self._dimensions = model
        self._user = people.user(scope)
        self._current = held_memories.current(scope, name)
        self._whole = memories.current(scope)
        self._mentioned = held_memories.mentioned(scope)
        self._surroundings = Surroundings(scope)
        self._messages = held_passages.messages(scope, name)
        self._held_back = held_passages.held_back(scope)
        self._summaries = held_passages.summaries(scope, name)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run, in one state of the database."""
        return (
            self._user,
            self._current,
            self._whole,
            self._mentioned,
            *self._surroundings.statements,
            self._messages,
            self._held_back,
            self._summaries,
        )

    @property
    def state(self) -> UserReadState:
        """The state of the user, once the statements have run."""
        return self._user.answer

    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if it is too large. Uses only the CPU."""
        surroundings, user = self._surroundings.held(), self.state
        if surroundings is None or len(self._current.answer) > MOST_MEMORIES:
            return None
        dimensions = self._dimensions
        held = HeldMemories(
            self._current.answer, self._whole.answer, self._mentioned.answer, dimensions
        )
        said = self._messages.answer
        messages = None
        if len(said) <= MOST_MESSAGES:
            messages = HeldMessages(said, self._held_back.answer, held, dimensions)
        summaries = HeldSummaries(self._summaries.answer, dimensions)
        assert user.active_model is not None
        state = (user.revision, user.active_model)
        return Snapshot(state, held, surroundings, messages, summaries)


class Believed:
    """An unconfirmed snapshot: the database has not yet reported the user's revision.

    Its statement goes with the first round trip of a read, in place of everything in the snapshot;
    if the revision differs, the read fetches that afterwards.

    Attributes:
        snapshot: The snapshot; None if there is none.
        statement: The user's state, and the usage of the memories.
    """

    def __init__(self, snapshots: Snapshots, scope: Scope, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        self.statement: Statement[StateAndUses] = state_and_uses(scope)
        self._snapshots = snapshots
        self._scope = scope
        self._confirmed: bool | None = None

    @property
    def uses(self) -> Uses:
        """The usage of the memories, once the statement has run."""
        return self.statement.answer.uses

    def confirmed(self, user: UserReadState, database: Reads) -> Snapshot | None:
        """The snapshot, if it has the reported state; None if the database must be read.

        Args:
            user: The state.
            database: Where it was read.
        """
        if self._confirmed is None:
            found = self._snapshots.of(self._scope, user, database)
            # A snapshot loaded meanwhile has no usage of the memories.
            self._confirmed = found is not None and found is self.snapshot
            SNAPSHOT_LOOKUPS.labels("hit" if self._confirmed else "miss").inc()
        return self.snapshot if self._confirmed else None


class Snapshots:
    """Holds snapshots.

    Args:
        sweeping: The database for the sweep's checks: the primary, while it is reachable.
        most_bytes: Maximum size of all snapshots together; 0 disables them.
        after: Number of reads that must find a user unchanged before a snapshot is loaded.
    """

    def __init__(self, sweeping: Reads, most_bytes: int, *, after: int = 1) -> None:
        self._sweeping = sweeping
        self._most_bytes = most_bytes
        self._after = after
        self._held: OrderedDict[Scope, Snapshot] = OrderedDict()
        self._bytes = 0
        self._met: OrderedDict[Scope, tuple[_State, int]] = OrderedDict()
        self._loading: dict[Scope, asyncio.Task[None]] = {}
        self._sweep: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, scope: object) -> bool:
        return scope in self._held

    @property
    def bytes(self) -> int:
        """Approximate size of all snapshots in bytes."""
        return self._bytes

    async def start(self) -> None:
        """Start sweeping in the background."""
        if self._most_bytes:
            self._sweep = asyncio.create_task(self._run(), name="snapshots")

    async def stop(self) -> None:
        """Stop sweeping and drop all snapshots."""
        tasks = [*self._loading.values(), *([] if self._sweep is None else [self._sweep])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._clear()

    def believed(self, scope: Scope) -> Believed:
        """The user's snapshot, to be confirmed."""
        return Believed(self, scope, self._held.get(scope))

    def of(self, scope: Scope, user: UserReadState, database: Reads) -> Snapshot | None:
        """The snapshot of a user whose state was just read; None if the database must be read.

        Args:
            scope: The user.
            user: The user's state.
            database: Where the state was read, and where a snapshot is loaded from.
        """
        if not self._most_bytes:
            return None
        model = user.active_model
        if (
            model is None
            or user.may_be_sealed
            or user.erased
            or user.statistics.documents > MOST_MEMORIES
        ):
            self._drop(scope)
            return None
        state = (user.revision, model)
        held = self._held.get(scope)
        if held is not None:
            if held.state == state:
                self._held.move_to_end(scope)
                return held
            # A lagging replica does not invalidate what the primary has.
            if held.state[0] > user.revision:
                return None
            self._drop(scope)
        self._meet(scope, state, database)
        return None

    async def loaded(self) -> None:
        """Wait until no snapshot is being loaded."""
        while self._loading:
            await asyncio.gather(*self._loading.values(), return_exceptions=True)

    async def sweep(self) -> None:
        """Drop the snapshots of users who have changed, were erased, or cannot be checked."""
        of_tenants: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self._held:
            of_tenants[scope.tenant_id].append(scope)
        for tenant_id, scopes in of_tenants.items():
            for first in range(0, len(scopes), _ASKED_AT_ONCE):
                await self._check(tenant_id, scopes[first : first + _ASKED_AT_ONCE])

    async def _check(self, tenant_id: str, scopes: list[Scope]) -> None:
        before = {scope: self._held[scope] for scope in scopes if scope in self._held}
        asked = people.revisions(tenant_id, [scope.user_id for scope in before])
        true: dict[str, int] = {}
        try:
            with acting_for(tenant_id):
                await self._sweeping.run(
                    lambda connection: ask(connection, asked),
                    timeout=_LOAD_SECONDS,
                    repeatable=True,
                )
            true = asked.answer
        except Exception as error:
            logger.info("cannot check the snapshots, which are dropped: %s", error)
        for scope, snapshot in before.items():
            if self._held.get(scope) is snapshot and true.get(scope.user_id) != snapshot.state[0]:
                self._drop(scope)

    def _meet(self, scope: Scope, state: _State, database: Reads) -> None:
        """Record the revision at which a user was read; load the snapshot of a returning user."""
        met, times = self._met.pop(scope, (state, 0))
        times = times + 1 if met == state else 1
        self._met[scope] = (state, times)
        if len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        if (
            times > self._after
            and scope not in self._loading
            and len(self._loading) < _LOADED_AT_ONCE
        ):
            task = asyncio.create_task(self._load(scope, state[1], database))
            self._loading[scope] = task
            task.add_done_callback(lambda _: self._loading.pop(scope, None))

    async def _load(self, scope: Scope, model: tuple[str, int], database: Reads) -> None:
        loading = Loading(scope, model)

        async def read(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_ONE_STATE, {})
                await ask(connection, *loading.statements)

        try:
            with acting_for(scope.tenant_id):
                await database.run(read, timeout=_LOAD_SECONDS, repeatable=True)
            state = loading.state
            if not state.known or state.erased or state.may_be_sealed:
                return
            if state.active_model != model:
                return
            snapshot = await asyncio.to_thread(loading.snapshot)
            if snapshot is None:
                self._met[scope] = ((state.revision, model), _NOT_AGAIN)
            else:
                self._keep(scope, snapshot)
        except Exception as error:
            # The next read goes to the database like this one.
            logger.info("cannot load a snapshot: %s", error)

    def _keep(self, scope: Scope, snapshot: Snapshot) -> None:
        self._drop(scope)
        if snapshot.size > self._most_bytes:
            self._met[scope] = (snapshot.state, _NOT_AGAIN)
            return
        self._held[scope] = snapshot
        self._bytes += snapshot.size
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._held)))
        self._show()

    def _drop(self, scope: Scope) -> None:
        held = self._held.pop(scope, None)
        if held is not None:
            self._bytes -= held.size
            self._show()

    def _show(self) -> None:
        SNAPSHOTS.set(len(self._held))
        SNAPSHOT_BYTES.set(self._bytes)

    def _clear(self) -> None:
        self._held.clear()
        self._met.clear()
        self._bytes = 0
        self._show()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()
