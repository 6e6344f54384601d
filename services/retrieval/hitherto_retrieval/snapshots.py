"""Snapshots of returning users in this process, each of one state, identified by its revision.

A read fetches the user's revision from the database. If the snapshot has that revision, its
contents need not be read again: it shows neither more nor less than the database would, whichever
server answers and whatever it has replayed. Revisions grow by random steps, so that no two states
of a user share one, not even those of a lost primary and of the server that took over.

In full memory, a user is loaded only in place of one who has been away for a while, and only now
and then: else each of more users than there is room for would push out the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from math import inf
from time import monotonic

from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.loading import MOST_MEMORIES, Loading
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.snapshot import Snapshot, State
from hitherto_retrieval.storage.statement import ask
from hitherto_shared import tasks
from hitherto_shared.database.pool import Reads
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.metrics import SNAPSHOT_BYTES, SNAPSHOT_LOADS, SNAPSHOTS
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread
from hitherto_shared.work_record import begin_record

logger = logging.getLogger("hitherto.snapshots")

SWEEP_SECONDS = 20.0
_ASKED_AT_ONCE = 500
_CHECK_SECONDS = 5.0
_LOAD_SECONDS = 15.0
_LOADED_AT_ONCE = 2
IDLE_SECONDS = 60.0
"""How long a snapshot must not have been used to be pushed out."""
REPLACING_SECONDS = 0.5
"""How far apart the loads are that push out other snapshots. One takes some 35 ms of CPU, of the
service and Postgres together, and saves a fifth of that at each read."""
_REMEMBERED = 10_000
"""Number of users whose last read revision is remembered."""
_NOT_AGAIN = -(1 << 30)
"""The count of a state that was too large, which is thus never loaded."""
_AFTER_A_FAILURE = -10
"""The count of a state whose loading failed: it is tried again some reads later."""
_WITHOUT_ROOM = -100
"""The count of a state for which others in use left no room: loading it took a while in vain."""


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
        self._cached: OrderedDict[Scope, tuple[Snapshot, float]] = OrderedDict()
        """The most recently used last, each with the time of its last use."""
        self._bytes = 0
        self._met: OrderedDict[Scope, tuple[State, int]] = OrderedDict()
        """The state in which a user was read last, and how many reads found it."""
        self._loading: dict[Scope, asyncio.Task[None]] = {}
        self._replaced_at = -inf
        self._sweep: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._cached)

    def __contains__(self, scope: object) -> bool:
        return scope in self._cached

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
        await tasks.cancel(self._sweep, *self._loading.values())
        self._cached.clear()
        self._met.clear()
        self._bytes = 0
        self._show()

    def cached(self, scope: Scope) -> Snapshot | None:
        """The user's snapshot, if there is one; `of` tells whether it is up to date."""
        found = self._cached.get(scope)
        return None if found is None else found[0]

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
            or user.erased
            or user.may_be_sealed
            or user.statistics.documents > MOST_MEMORIES
        ):
            self.drop(scope)
            return None
        state = (user.revision, model)
        snapshot = self.cached(scope)
        if snapshot is not None:
            until = snapshot.until
            if snapshot.state == state and (until is None or user.at < until):
                self._cached[scope] = snapshot, monotonic()
                self._cached.move_to_end(scope)
                return snapshot
            # A lagging replica does not invalidate what the primary has.
            if snapshot.state[0] > user.revision:
                return None
            self.drop(scope)
        self._meet(scope, state, database)
        return None

    async def loaded(self) -> None:
        """Wait until no snapshot is being loaded."""
        while self._loading:
            await asyncio.gather(*self._loading.values(), return_exceptions=True)

    async def sweep(self) -> None:
        """Drop the snapshots of users who have changed, or who cannot be checked."""
        of_tenants: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self._cached:
            of_tenants[scope.tenant_id].append(scope)
        for tenant_id, scopes in of_tenants.items():
            for first in range(0, len(scopes), _ASKED_AT_ONCE):
                await self._check(tenant_id, scopes[first : first + _ASKED_AT_ONCE])

    async def _check(self, tenant_id: str, scopes: list[Scope]) -> None:
        before = {scope: snapshot for scope in scopes if (snapshot := self.cached(scope))}
        asked = people.revisions(tenant_id, [scope.user_id for scope in before])
        true: Mapping[str, int] = {}
        try:
            with acting_for(tenant_id):
                await self._sweeping.run(
                    lambda connection: ask(connection, asked),
                    timeout=_CHECK_SECONDS,
                    repeatable=True,
                )
            true = asked.answer
        except Exception as error:
            logger.info("cannot check the snapshots, which are dropped: %s", error)
        for scope, snapshot in before.items():
            if true.get(scope.user_id) != snapshot.state[0]:
                self.drop(scope)

    def _meet(self, scope: Scope, state: State, database: Reads) -> None:
        """Note the state in which a user was read; load the snapshot of one who returns in it."""
        known, times = self._met.pop(scope, (state, 0))
        times = times + 1 if known == state else 1
        self._met[scope] = state, times
        while len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        if (
            times > self._after
            and scope not in self._loading
            and len(self._loading) < _LOADED_AT_ONCE
            and self._may_load()
        ):
            task = asyncio.create_task(self._load(scope, state, database))
            self._loading[scope] = task
            task.add_done_callback(lambda _: self._loading.pop(scope, None))

    def _may_load(self) -> bool:
        """Whether there is room for one of usual size, or one may be pushed out again."""
        usual = self._bytes // max(1, len(self._cached))
        if self._bytes + usual <= self._most_bytes:
            return True
        now = monotonic()
        _, used_at = next(iter(self._cached.values()))
        if now - used_at < IDLE_SECONDS or now - self._replaced_at < REPLACING_SECONDS:
            return False
        self._replaced_at = now
        return True

    async def _load(self, scope: Scope, state: State, database: Reads) -> None:
        # The call that starts this does not wait for it.
        begin_record()
        model = state[1]
        loading = Loading(scope, model)
        try:
            with acting_for(scope.tenant_id):
                await database.run(loading.run, timeout=_LOAD_SECONDS, repeatable=True)
                user = loading.state
                if (
                    not user.known
                    or user.erased
                    or user.may_be_sealed
                    or user.active_model != model
                ):
                    self.drop(scope)
                    return
                snapshot = await in_thread(loading.snapshot)
        except Exception as error:
            # The next reads go to the database like this one.
            logger.info("cannot load a snapshot: %s", type(error).__name__)
            self._met[scope] = state, _AFTER_A_FAILURE
            return
        self.drop(scope)
        if snapshot is None or snapshot.size > self._most_bytes:
            self._met[scope] = (user.revision, model), _NOT_AGAIN
            return
        going = self._making_room(snapshot.size)
        if going is None:
            self._met[scope] = (user.revision, model), _WITHOUT_ROOM
            return
        for each in going:
            self.drop(each)
        SNAPSHOT_LOADS.inc()
        # Whoever is met in the same state again is met after the snapshot's end.
        self._met.pop(scope, None)
        self._cached[scope] = snapshot, monotonic()
        self._bytes += snapshot.size
        self._show()

    def _making_room(self, size: int) -> list[Scope] | None:
        """Whose snapshots must go for one of this size; None if one of them is in use."""
        now, free = monotonic(), self._most_bytes - self._bytes
        going: list[Scope] = []
        for scope, (snapshot, used_at) in self._cached.items():
            if free >= size:
                break
            if now - used_at < IDLE_SECONDS:
                return None
            going.append(scope)
            free += snapshot.size
        return going

    def drop(self, scope: Scope) -> None:
        """Drop the snapshot of a user, if there is one."""
        found = self._cached.pop(scope, None)
        if found is not None:
            self._bytes -= found[0].size
            self._show()

    def _show(self) -> None:
        SNAPSHOTS.set(len(self._cached))
        SNAPSHOT_BYTES.set(self._bytes)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()
