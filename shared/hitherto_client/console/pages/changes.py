"""What a day changed: the memories and the profile before it, and after."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, get_args

from starlette.responses import Response

from hitherto_client.console.rendering import now
from hitherto_client.console.visits import Visit, look
from hitherto_client.days import first_moment, last_moment, local
from hitherto_client.results import HistoryEvent, Memory
from hitherto_client.words import MemoryStatus

_FIRST_DAY = date(1970, 1, 1)
_MOST_MEMORIES = 2_000
_MOST_EVENTS = 200
_WAYS = {"known": "was known", "true": "was true"}
_SHOWN = ("content", "detail", "type", "confidence", "importance", "valid_from", "valid_to")
"""What is compared of a memory besides its status."""


@dataclass(frozen=True, slots=True)
class DayChange:
    """A memory before a day and after it; one of both may be missing."""

    before: Memory | None
    after: Memory | None

    @property
    def memory(self) -> Memory:
        """What it is now, or was."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values before and after that a reader can tell apart."""
        return _values(self.before), _values(self.after)


async def _changes(visit: Visit) -> Response:
    way = visit.address.word("by", _WAYS) or "known"
    asked = visit.address.day("day")
    day = local(asked).date() if asked else await _latest_day(visit)
    day = min(max(day, _FIRST_DAY), local(now()).date())
    begins, ends = first_moment(day), min(last_moment(day), now())
    # What ended at midnight was true until then.
    eve = begins - timedelta(microseconds=1)
    before, after = await asyncio.gather(_at(visit, eve, way), _at(visit, ends, way))
    forgotten, profile = list[Memory](), list[HistoryEvent]()
    if way == "known":
        forgotten = await _forgotten(visit, begins, ends)
        profile = await _profile_events(visit, begins, ends)
    return visit.page(
        "changes.html",
        day=begins,
        way=way,
        ways=_WAYS,
        earlier=day - timedelta(days=1),
        later=day + timedelta(days=1) if last_moment(day) < now() else None,
        new=[DayChange(None, after[one]) for one in after if one not in before],
        altered=_differences(before, after),
        gone=[DayChange(before[one], None) for one in before if one not in after],
        forgotten=forgotten,
        profile=profile,
        whole=max(len(before), len(after)) < _MOST_MEMORIES,
    )


async def _latest_day(visit: Visit) -> date:
    """The day on which something was last learnt; today if nothing was."""
    newest = (await visit.client.memories(visit.user, page_size=1).page()).items
    return local((newest[0].created_at if newest else None) or now()).date()


async def _at(visit: Visit, moment: datetime, way: str) -> dict[str, Memory]:
    """The memories as they were known, or what was true, at a moment."""
    when: dict[str, Any] = {"known_at": moment} if way == "known" else {"as_of": moment}
    statuses: tuple[MemoryStatus, ...] = get_args(MemoryStatus) if way == "known" else ()
    found: dict[str, Memory] = {}
    async for memory in visit.client.memories(
        visit.user, statuses=statuses, page_size=_MOST_MEMORIES // 2, **when
    ):
        found[memory.id] = memory
        if len(found) >= _MOST_MEMORIES:
            break
    return found


def _differences(before: Mapping[str, Memory], after: Mapping[str, Memory]) -> list[DayChange]:
    """What is there at both moments and says something else."""
    both = (DayChange(before[one], after[one]) for one in after if one in before)
    return [change for change in both if change.values[0] != change.values[1]]


def _values(memory: Memory | None) -> dict[str, Any]:
    if memory is None:
        return {}
    doubt = memory.doubt.reason or "yes" if memory.doubt else ""
    return {
        **{name: getattr(memory, name) for name in _SHOWN},
        "status": memory.status,
        "uncertain": doubt,
    }


async def _forgotten(visit: Visit, begins: datetime, ends: datetime) -> list[Memory]:
    """What was forgotten between two moments: reads of the past do not show it."""
    found = await visit.client.memories(visit.user, statuses=["forgotten"]).page()
    return [one for one in found.items if one.updated_at and begins <= one.updated_at <= ends]


async def _profile_events(visit: Visit, begins: datetime, ends: datetime) -> list[HistoryEvent]:
    """What happened to the profile between two moments, newest first."""
    found: list[HistoryEvent] = []
    async for event in visit.client.profile_history(visit.user):
        if not event.created_at or event.created_at < begins or len(found) >= _MOST_EVENTS:
            break
        if event.created_at <= ends:
            found.append(event)
    return found


ROUTES = (look("/changes", _changes),)
