"""What a person should look at: what waits for a decision, and what is uncertain and why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.responses import Response

from hitherto_client.console.visits import PAGE_SIZE, Visit, look
from hitherto_client.results import Memory

_MOST_READ = 2_000
"""Memories that are looked through for uncertain ones: no call lists these alone."""
_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A memory of which it is not sure whether it holds, or what it ends."""

    memory: Memory
    others: tuple[Memory, ...]
    """What makes it doubtful, or what it may replace."""


async def _review(visit: Visit) -> Response:
    waiting, conversations, (doubtful, replacing, read_all) = await asyncio.gather(
        visit.client.memories(visit.user, statuses=["quarantined"], page_size=PAGE_SIZE).page(
            visit.address.text("page")
        ),
        visit.client.conversations(visit.user, page_size=PAGE_SIZE).page(),
        _uncertain(visit),
    )
    return visit.page(
        "review.html",
        waiting=waiting,
        doubtful=doubtful,
        replacing=replacing,
        read_all=read_all,
        unread=[one for one in conversations.items if one.pending_messages],
    )


async def _uncertain(visit: Visit) -> tuple[list[Uncertain], list[Uncertain], bool]:
    """What is in doubt, what may replace something, and whether all memories were looked at."""
    doubtful: list[Memory] = []
    replacing: list[Memory] = []
    count = 0
    async for memory in visit.client.memories(visit.user, page_size=_MOST_READ // 2):
        count += 1
        if memory.doubt:
            doubtful.append(memory)
        if memory.may_replace:
            replacing.append(memory)
        if count >= _MOST_READ:
            break
    causes = await _with(visit, doubtful, {one.id: _cause(one) for one in doubtful})
    ends = await _with(visit, replacing, {one.id: one.may_replace for one in replacing})
    return causes, ends, count < _MOST_READ


def _cause(memory: Memory) -> tuple[str, ...]:
    because = memory.doubt.because_memory_id if memory.doubt else ""
    return (because,) if because else ()


async def _with(
    visit: Visit, memories: list[Memory], named: dict[str, tuple[str, ...]]
) -> list[Uncertain]:
    """The first of these memories, each with those that are named for it."""
    shown = memories[:_MOST_SHOWN]
    ids = list(dict.fromkeys(one for memory in shown for one in named[memory.id]))[:_MOST_SHOWN]
    found = await asyncio.gather(*(visit.client.get_memory(visit.user, one) for one in ids))
    known = {memory.id: memory for memory in found if memory}
    return [
        Uncertain(memory, tuple(known[one] for one in named[memory.id] if one in known))
        for memory in shown
    ]


ROUTES = (look("/review", _review),)
