"""Snapshots of returning users in this process, each of one state, identified by its revision.

A read fetches the user's revision from the database, along with the postings of its question's
words and the usage of the user's memories. If the snapshot has that revision, its contents need not
be read again. A snapshot is thus as fresh as any read: it shows neither more nor less than the
database would, whichever server answers and whatever it has replayed. Revisions grow by random
steps, so that no two states of a user share one, not even those of a lost primary and of the server
that took over.

A snapshot is loaded in the background when a second read finds a revision unchanged. When the user
changes, or something expires, it is loaded anew. One that answered enough reads, the more the
larger it is, is as soon as a read notices that, or the sweep notices a change; one that answered
fewer waits for a second read like a new one, and the sweep drops it. So nobody is loaded again and
again without anything to show for it.

There is no snapshot of users who have ever decided on encryption, or who have too much data. The
most recently used stay within the limit in bytes. Where there is no room, a user is loaded only in
place of others who have been away for longer than the user's last two reads are apart, and only
now and then. If more users ask than there is room for, some of them thus keep their snapshots, and
little time goes into loading, where each would otherwise push out the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from math import inf
from time import monotonic

from hitherto_retrieval.loading import Loading, Snapshot, State
from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.cached_rows import MOST_MEMORIES
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Reads
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.metrics import SNAPSHOT_BYTES, SNAPSHOT_LOADS, SNAPSHOTS
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread
from hitherto_shared.work_record import begin_record

logger = logging.getLogger("hitherto.snapshots")

EARNED = 3
"""The least number of reads that a snapshot must have answered to be loaded anew at once."""
_ROWS_OF_A_READ = 200
"""Memories and messages whose loading costs about as much as a read from a snapshot saves."""
SWEEP_SECONDS = 20.0
_ASKED_AT_ONCE = 500
_CHECK_SECONDS = 5.0
_LOAD_SECONDS = 15.0
_LOADED_AT_ONCE = 2
REPLACING_SECONDS = 0.5
"""How far apart the loads are that push out other snapshots. One takes some 35 ms of CPU, of the
service and Postgres together, and saves a fifth of that at each read."""
_REMEMBERED = 10_000
"""Number of users whose last read revision is remembered."""
_NOT_AGAIN = -(1 << 30)
"""The count of a state that was too large, which is thus never loaded."""
_AFTER_A_FAILURE = -10
"""The count of a state whose loading failed: it is tried again some reads later."""


@dataclass(slots=True)
class _Entry:
    """A snapshot that is cached.

    Attributes:
        snapshot: The snapshot.
        database: Where it was read, and where it is loaded anew from.
        used_at: When it was loaded or last answered a read, by the monotonic clock.
        answered: How many reads were answered from it.
    """

    snapshot: Snapshot
    database: Reads
    used_at: float
    answered: int = 0

    @property
    def earned(self) -> bool:
        """Whether its answers have saved about what loading it anew costs."""
        return self.answered >= max(EARNED, self.snapshot.rows // _ROWS_OF_A_READ)


@dataclass(slots=True)
class _Met:
    """A user who was read.

    Attributes:
        state: The state that was read last.
        times: How many reads found it.
        at: When the last read was, by the monotonic clock.
        apart: How long before that the last but one was.
        size: The size of a snapshot for which there was no room.
    """

    state: State
    times: int
    at: float
    apart: float = inf
    size: int | None = None


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
        self._cached: OrderedDict[Scope, _Entry] = OrderedDict()
        self._bytes = 0
        self._met: OrderedDict[Scope, _Met] = OrderedDict()
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
        tasks = [*self._loading.values(), *([] if self._sweep is None else [self._sweep])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cached.clear()
        self._met.clear()
        self._bytes = 0
        self._show()

    def cached(self, scope: Scope) -> Snapshot | None:
        """The user's snapshot, if there is one; `of` tells whether it is up to date."""
        cached = self._cached.get(scope)
        return None if cached is None else cached.snapshot

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
        cached = self._cached.get(scope)
        if cached is not None:
            until = cached.snapshot.until
            if cached.snapshot.state == state and (until is None or user.at < until):
                self._cached.move_to_end(scope)
                cached.answered += 1
                cached.used_at = monotonic()
                return cached.snapshot
            # A lagging replica does not invalidate what the primary has.
            if cached.snapshot.state[0] > user.revision:
                return None
            if cached.snapshot.state[1] != model:
                self.drop(scope)
        self._meet(scope, state, database)
        return None

    async def loaded(self) -> None:
        """Wait until no snapshot is being loaded."""
        while self._loading:
            await asyncio.gather(*self._loading.values(), return_exceptions=True)

    async def sweep(self) -> None:
        """Load the snapshots of users who have changed anew, or drop them.

        Dropped are those of users who were erased or may not have a snapshot any more, those that
        answered too few reads, and those that cannot be checked or loaded.
        """
        of_tenants: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self._cached:
            of_tenants[scope.tenant_id].append(scope)
        for tenant_id, scopes in of_tenants.items():
            for first in range(0, len(scopes), _ASKED_AT_ONCE):
                await self._check(tenant_id, scopes[first : first + _ASKED_AT_ONCE])

    async def _check(self, tenant_id: str, scopes: list[Scope]) -> None:
        before = {scope: self._cached[scope] for scope in scopes if scope in self._cached}
        asked = people.revisions(tenant_id, [scope.user_id for scope in before])
        true: dict[str, int] = {}
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
        changed: list[Scope] = []
        for scope, cached in before.items():
            revision = true.get(scope.user_id)
            if self._cached.get(scope) is not cached or revision == cached.snapshot.state[0]:
                continue
            if revision is None or not cached.earned:
                self.drop(scope)
            else:
                changed.append(scope)
        for scope in changed:
            cached = before[scope]
            if self._cached.get(scope) is not cached:
                continue
            if scope not in self._loading:
                await self._start(scope, cached.snapshot.state[1], cached.database)
            if self._cached.get(scope) is cached:
                self.drop(scope)

    def _meet(self, scope: Scope, state: State, database: Reads) -> None:
        """Record the revision at which a user was read; load the snapshot of a returning user."""
        now = monotonic()
        met = self._met.pop(scope, None)
        if met is None:
            met = _Met(state, 0, now)
        else:
            met.apart, met.at = now - met.at, now
        met.state, met.times = state, met.times + 1 if met.state == state else 1
        self._met[scope] = met
        if len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        cached = self._cached.get(scope)
        earned = cached is not None and cached.earned
        if (
            (met.times > self._after or (earned and met.times > 0))
            and scope not in self._loading
            and len(self._loading) < _LOADED_AT_ONCE
            and (cached is not None or self._may_load(met))
        ):
            self._start(scope, state[1], database)

    def _may_load(self, met: _Met) -> bool:
        """Whether there is room for a returning user, or others may be pushed out again."""
        size = met.size or self._bytes // max(1, len(self._cached))
        if self._most_bytes - self._bytes >= size:
            return True
        if met.at - self._replaced_at < REPLACING_SECONDS or not self._has_room(size, met.apart):
            return False
        self._replaced_at = met.at
        return True

    def _has_room(self, size: int, apart: float) -> bool:
        """Whether enough bytes are free, or used by those who have been away for longer."""
        free = self._most_bytes - self._bytes
        now = monotonic()
        for cached in self._cached.values():
            if free >= size or now - cached.used_at <= apart:
                break
            free += cached.snapshot.size
        return free >= size

    def _start(self, scope: Scope, model: tuple[str, int], database: Reads) -> asyncio.Task[None]:
        """Load the snapshot of a user in the background."""
        task = asyncio.create_task(self._load(scope, model, database))
        self._loading[scope] = task
        task.add_done_callback(lambda _: self._loading.pop(scope, None))
        return task

    async def _load(self, scope: Scope, model: tuple[str, int], database: Reads) -> None:
        # The call that starts this does not wait for it.
        begin_record()
        loading = Loading(scope, model)
        try:
            with acting_for(scope.tenant_id):
                await database.run(loading.run, timeout=_LOAD_SECONDS, repeatable=True)
            state = loading.state
            if (
                not state.known
                or state.erased
                or state.may_be_sealed
                or state.active_model != model
            ):
                self.drop(scope)
                return
            with acting_for(scope.tenant_id):
                snapshot = await in_thread(loading.snapshot)
        except Exception as error:
            # The next reads go to the database like this one.
            logger.info("cannot load a snapshot: %s", type(error).__name__)
            if (met := self._met.get(scope)) is not None:
                met.times = _AFTER_A_FAILURE
            return
        if snapshot is None:
            self.drop(scope)
            self._met[scope] = _Met((state.revision, model), _NOT_AGAIN, monotonic())
        else:
            SNAPSHOT_LOADS.inc()
            self._keep(scope, _Entry(snapshot, database, monotonic()))

    def _keep(self, scope: Scope, cached: _Entry) -> None:
        met = self._met.get(scope)
        apart = 0.0 if scope in self._cached else inf if met is None else met.apart
        self.drop(scope)
        size = cached.snapshot.size
        if size > self._most_bytes:
            self._met[scope] = _Met(cached.snapshot.state, _NOT_AGAIN, monotonic())
            return
        if not self._has_room(size, apart):
            if met is not None:
                met.size = size
            return
        if met is not None:
            # Whoever is met in the same state again is met after the snapshot's end.
            met.times = 0
        self._cached[scope] = cached
        self._bytes += size
        while self._bytes > self._most_bytes:
            self.drop(next(iter(self._cached)))
        self._show()

    def drop(self, scope: Scope) -> None:
        """Drop the snapshot of a user, if there is one."""
        cached = self._cached.pop(scope, None)
        if cached is not None:
            self._bytes -= cached.snapshot.size
            self._show()

    def _show(self) -> None:
        SNAPSHOTS.set(len(self._cached))
        SNAPSHOT_BYTES.set(self._bytes)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()
