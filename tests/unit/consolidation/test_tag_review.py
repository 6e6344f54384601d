"""The snapshot of a consolidation: what is grouped, counted and marked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from hitherto_extraction.consolidation.tag_review import TagReview
from hitherto_extraction.storage.consolidation import CrowdedTag, Member

AT = datetime(2026, 5, 1, tzinfo=UTC)


def member(number: int, *tags: str, content: str = "The user likes tea") -> Member:
    return Member(UUID(int=number), 1, "fact", content, "user", tags, AT, AT)


def review(*members: Member) -> TagReview:
    tags = sorted({tag for each in members for tag in each.tags})
    return TagReview([CrowdedTag(tag, None, None) for tag in tags], members, [])


async def test_a_merge_leaves_every_tag_of_its_originals() -> None:
    originals = member(1, "x", "y"), member(2, "x")
    board = review(*originals, member(3, "y"))
    merged = member(9, "x", "y", "not crowded")
    board.replace(originals, merged)
    for tag in ("x", "y"):
        board.settle(tag)
    assert [(mark.tag, mark.members) for mark in board.marks()] == [("x", 1), ("y", 2)]
    # Whoever was made by the run is not merged again by it.
    assert await board.groups("y") == []


async def test_only_what_changed_is_marked_again() -> None:
    """Otherwise each of a thousand tags would be marked as often as there are tags."""
    board = review(member(1, "x", "y"), member(2, "y"), member(3, "z"))
    for tag in ("x", "y", "z"):
        board.settle(tag)
    board.marked()
    assert board.marks() == []
    board.replace([member(2, "y")], member(9, "y", "other"))
    assert [mark.tag for mark in board.marks()] == ["y"]


async def test_the_loop_runs_while_a_crowd_is_grouped() -> None:
    members = [
        member(n, f"tag{n % 50}", content=f"Ana {n} tells about the colour of tram number {n}")
        for n in range(1, 4_001)
    ]
    board = review(*members)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(0)
            longest = max(longest, clock() - before)

    watching = asyncio.create_task(watch())
    counts = await board.counts(again=False)
    watching.cancel()
    assert counts["groups"] > 0
    assert longest < 0.25
