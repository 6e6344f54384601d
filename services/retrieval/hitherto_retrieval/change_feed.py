"""Follows the changes of tenants for all who watch them: one poll for each watched tenant.

The poll keeps what it read last for a moment, so that many watchers cost no more statements than
one. A watcher who is further behind, because it has just begun or reads slowly, reads the database
by itself, a page at a time: nothing queues up for it here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from hitherto_retrieval.storage.changes import ReadChanges, after_place
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.changes import ToldChange, told_kind
from hitherto_shared.consistency import Position, current_position
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Reads
from hitherto_shared.database.signals import Signals, Watch
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import TooLate, Unavailable, WrongState

logger = logging.getLogger("hitherto.changes")

_PAGE = 500
_READ_SECONDS = 5.0
_KEPT_SECONDS = 2.0
"""What a poll read is given to watchers for so long: then they must see who was erased since."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which changes a watcher wants: of a user or everybody, of some kinds or all."""

    tenant_id: str
    user_id: str | None
    kinds: frozenset[str]

    def of(self, changes: Sequence[ToldChange], after: int) -> list[ToldChange]:
        """Those of the changes after a place that are wanted."""
        return [
            change
            for change in changes
            if change.position > after
            and self.user_id in (None, change.user_id)
            and (not self.kinds or told_kind(change.action) in self.kinds)
        ]


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes for a watcher, maybe none, and the place up to which it knows all.

    `position` is that of the log which shows them; None if a standby was read, or there are none.
    """

    changes: Sequence[ToldChange]
    upto: int
    position: Position | None


@dataclass(frozen=True, slots=True)
class _Window:
    """All changes of a tenant between two places, read at a moment of the loop's time."""

    after: int
    changes: Sequence[ToldChange]
    upto: int
    position: Position | None
    read_at: float


class _TenantPoll:
    """The poll of one tenant, and those who wait for it."""

    def __init__(self) -> None:
        self.window: _Window | None = None
        self.watches: set[Watch] = set()
        self.task: asyncio.Task[None] | None = None
        self.unreachable = False

    def wake(self) -> None:
        for watch in self.watches:
            watch.wake()


class ChangeFeed:
    """Watches while the service runs.

    Args:
        database: The primary while it is reachable.
        signals: Those of changes.
        memory_enabled: Whether memory is on for users who did not choose.
    """

    def __init__(self, database: Reads, signals: Signals, *, memory_enabled: bool) -> None:
        self._database = database
        self._signals = signals
        self._memory_enabled = memory_enabled
        self._polls: dict[str, _TenantPoll] = {}

    def end(self) -> None:
        """Let all watchers leave: the process is stopping."""
        self._signals.end()
        for poll in self._polls.values():
            poll.wake()

    async def follow(
        self, selection: Selection, after: int | None, *, heartbeat: float, seconds: float
    ) -> AsyncIterator[ChangePage]:
        """Pages of wanted changes after a place, the first at once; empty ones as heartbeats.

        Args:
            selection: What is wanted.
            after: The place; None: the present one.
            heartbeat: Seconds after which an empty page follows.
            seconds: Seconds after which the watcher must come back.

        Raises:
            WrongState: Changes after the place are no longer kept.
            Unavailable: The process is stopping, or the database cannot be reached.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        with self._watching(selection.tenant_id) as (poll, news):
            page, more = await self._read(selection, after)
            yield page
            said_at = clock()
            while clock() < ends:
                window = poll.window
                if more or window is None or page.upto < window.after:
                    page, more = await self._read(selection, page.upto)
                elif page.upto < window.upto:
                    wanted = selection.of(window.changes, page.upto)
                    page = ChangePage(wanted, window.upto, window.position)
                else:
                    page = ChangePage((), page.upto, None)
                if page.changes or clock() >= said_at + heartbeat:
                    yield page
                    said_at = clock()
                if self._signals.ending:
                    raise Unavailable(
                        "the service is shutting down; watch at another instance, with the last "
                        "token",
                        reason="SHUTTING_DOWN",
                        retry_after=1.0,
                    )
                if poll.unreachable:
                    # A heartbeat would say that there is nothing new.
                    raise Unavailable(
                        "the database does not answer; watch again with the last token",
                        reason="DATABASE_UNAVAILABLE",
                        retry_after=1.0,
                    )
                if not more and (poll.window or window) is window:
                    await news.change(max(0.0, min(said_at + heartbeat, ends) - clock()))

    @contextmanager
    def _watching(self, tenant_id: str) -> Iterator[tuple[_TenantPoll, Watch]]:
        """The poll of a tenant, which runs while somebody watches."""
        poll = self._polls.setdefault(tenant_id, _TenantPoll())
        watch = Watch()
        poll.watches.add(watch)
        if poll.task is None or poll.task.done():
            poll.unreachable = False
            poll.task = asyncio.create_task(self._poll(tenant_id, poll), name="change-poll")
        try:
            yield poll, watch
        finally:
            poll.watches.discard(watch)
            if not poll.watches:
                poll.task.cancel()
                self._polls.pop(tenant_id, None)

    async def _poll(self, tenant_id: str, poll: _TenantPoll) -> None:
        everybody = Selection(tenant_id, None, frozenset())
        clock = asyncio.get_running_loop().time
        with self._signals.watching() as news, suppress(asyncio.CancelledError):
            while True:
                with faults.Tolerated(logger, "changes are told later"):
                    known = poll.window
                    try:
                        page, more = await self._read(everybody, known.upto if known else None)
                    except WrongState:
                        # As after a restoration: watchers read by themselves, and are told so.
                        poll.window = None
                        poll.wake()
                        raise
                    except Exception as error:
                        # A defect ends the poll; whoever watches again begins it anew.
                        if isinstance(error, Unavailable | TooLate) or not faults.translate(error):
                            poll.unreachable = True
                            poll.wake()
                        raise
                    poll.unreachable = False
                    if known is None or page.changes:
                        after = page.upto if known is None else known.upto
                        poll.window = _Window(
                            after, page.changes, page.upto, page.position, clock()
                        )
                        poll.wake()
                    elif known.read_at + _KEPT_SECONDS < clock():
                        poll.window = _Window(known.upto, (), page.upto, None, clock())
                        if page.upto > known.upto:
                            poll.wake()
                    if more:
                        continue
                await news.change()

    async def _read(self, selection: Selection, after: int | None) -> tuple[ChangePage, bool]:
        """A page of wanted changes after a place, and whether there is more already."""
        statement = after_place(
            selection.tenant_id,
            selection.user_id,
            after,
            memory_enabled=self._memory_enabled,
            limit=_PAGE,
        )

        async def read(connection: Connection) -> Position | None:
            await ask(connection, statement)
            found = statement.answer
            if found.standby or not found.changes:
                return None
            return await current_position(connection)

        with acting_for(selection.tenant_id):
            position = await self._database.run(read, timeout=_READ_SECONDS, repeatable=True)
        found = statement.answer
        upto = _checked(found, after)
        return ChangePage(selection.of(found.changes, after or 0), upto, position), found.more


def _checked(found: ReadChanges, after: int | None) -> int:
    """The place up to which a watcher who was at `after` knows all.

    Raises:
        WrongState: Changes after that place are gone.
    """
    if after is None:
        return found.upto
    if after < found.deleted:
        raise WrongState(
            "changes after this token are no longer kept (HITHERTO_CHANGE_DAYS): read the memories "
            "anew, and watch without a token",
            reason="CHANGES_EXPIRED",
        )
    if after > found.upto and not found.standby:
        raise WrongState(
            "the database was restored from a backup that is older than this token: read the "
            "memories anew, and watch without a token",
            reason="CHANGES_EXPIRED",
        )
    return max(after, found.upto)
