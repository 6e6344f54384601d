"""Shares of what is scarce: of each tenant, and within it of each person.

A person is the owner of a credential. A service's own credential speaks for its whole tenant, and
only the share of the tenant limits it. `Shares` counts what is held, `FairQueue` orders those who
wait, `Turns` is both for a few places at which nobody is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Generic, Literal, NamedTuple, TypeVar

from hitherto_shared.database.tenancy import tenant_at_work

Item = TypeVar("Item")

_person: ContextVar[str | None] = ContextVar("hitherto_person", default=None)


class Owner(NamedTuple):
    """Who holds or wants something.

    The person is None for a service's own credential, and for work of the services.
    """

    tenant_id: str
    user_id: str | None = None


def work_for(user_id: str | None) -> None:
    """Set the person from here to the end of this task, beside its tenant (`act_for`)."""
    _person.set(user_id)


def owner_at_work() -> Owner:
    """Whose call or job this task is."""
    return Owner(tenant_at_work(), _person.get())


class Shares:
    """Counts units that are held, such as places or bytes.

    Everybody may hold `least` units whatever the shares, if they are free.
    """

    def __init__(self, most: int, of_tenant: float, of_person: float, *, least: int = 1) -> None:
        self.most = max(most, least)
        self.most_of_tenant = max(int(most * of_tenant), least)
        self.most_of_person = max(int(self.most_of_tenant * of_person), least)
        self._held = 0
        self._of: dict[str | Owner, int] = {}

    def lacking(self, owner: Owner, units: int = 1) -> Literal["", "person", "tenant", "all"]:
        """Whose share has no room for so many units more; empty: there is room."""
        if self._held + units > self.most:
            return "all"
        if self._of.get(owner.tenant_id, 0) + units > self.most_of_tenant:
            return "tenant"
        if owner.user_id is not None and self._of.get(owner, 0) + units > self.most_of_person:
            return "person"
        return ""

    def take(self, owner: Owner, units: int = 1) -> None:
        """Count units as held; whether there is room is the caller's question."""
        self._held += units
        for name in (owner.tenant_id, owner):
            held = self._of.pop(name, 0) + units
            if held:
                self._of[name] = held

    def give_back(self, owner: Owner, units: int = 1) -> None:
        """Count units as free again."""
        self.take(owner, -units)


class FairQueue(Generic[Item]):
    """Those who wait: tenant after tenant in rounds, in each person after person."""

    def __init__(self) -> None:
        self._tenants: dict[str, dict[Owner, deque[Item]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def waiting(self, tenant_id: str) -> int:
        """How many of one tenant wait."""
        return sum(map(len, self._tenants.get(tenant_id, {}).values()))

    def put(self, owner: Owner, item: Item) -> None:
        """Add one; a newcomer's first round begins after those of the others."""
        self._tenants.setdefault(owner.tenant_id, {}).setdefault(owner, deque()).append(item)
        self._count += 1

    def drop(self, owner: Owner, item: Item) -> None:
        """Remove one, if it still waits."""
        people = self._tenants.get(owner.tenant_id, {})
        if item in people.get(owner, ()):
            people[owner].remove(item)
            self._close_round(owner, people)

    def pop(self, fits: Callable[[Owner], bool] = lambda _: True) -> tuple[Owner, Item] | None:
        """The next one whose owner fits, who then waits for the next round; None: there is none."""
        for people in self._tenants.values():
            for owner, items in people.items():
                if fits(owner):
                    item = items.popleft()
                    self._close_round(owner, people)
                    return owner, item
        return None

    def _close_round(self, owner: Owner, people: dict[Owner, deque[Item]]) -> None:
        self._count -= 1
        if items := people.pop(owner):
            people[owner] = items
        del self._tenants[owner.tenant_id]
        if people:
            self._tenants[owner.tenant_id] = people


class Turns:
    """Places at which work waits for its turn, without an end to the number that wait."""

    def __init__(self, shares: Shares, units: int = 1) -> None:
        """Places of so many units each."""
        self._shares = shares
        self._units = units
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    def taken_at_once(self, owner: Owner) -> bool:
        """Take a place if nobody has to wait for one; whether that was so."""
        free = not self._waiting and self._fits(owner)
        if free:
            self._shares.take(owner, self._units)
        return free

    async def take(self, owner: Owner) -> None:
        """Wait for a place, which the caller gives back."""
        if self.taken_at_once(owner):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, turn)
        self._call_up()
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.give_back(owner)
            raise
        finally:
            self._waiting.drop(owner, turn)

    def give_back(self, owner: Owner, units: int | None = None) -> None:
        """Let the next ones have the place, or so many units of it."""
        self._shares.give_back(owner, self._units if units is None else units)
        self._call_up()

    @asynccontextmanager
    async def turn(self, owner: Owner) -> AsyncIterator[None]:
        """A place for the block."""
        await self.take(owner)
        try:
            yield
        finally:
            self.give_back(owner)

    def lacking(self, owner: Owner) -> Literal["", "person", "tenant", "all"]:
        """Whose share has no room for a place; empty: there is room."""
        return self._shares.lacking(owner, self._units)

    def _fits(self, owner: Owner) -> bool:
        return not self.lacking(owner)

    def _call_up(self) -> None:
        while (called := self._waiting.pop(self._fits)) is not None:
            owner, turn = called
            if not turn.done():
                self._shares.take(owner, self._units)
                turn.set_result(None)
