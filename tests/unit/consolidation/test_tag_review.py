"""The snapshot of a consolidation: what is grouped, counted and marked."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from hitherto_extraction.consolidation.tag_review import TagReview
from hitherto_extraction.storage.consolidation import ConsolidationMark, CrowdedTag, Member

AT = datetime(2026, 5, 1, tzinfo=UTC)


def member(number: int, *tags: str, content: str = "The user likes tea") -> Member:
    return Member(UUID(int=number), 1, "fact", content, "user", tags, AT, AT)


def review(*members: Member) -> TagReview:
    tags = sorted({tag for each in members for tag in each.tags})
    return TagReview([CrowdedTag(tag, None, None) for tag in tags], members, None)


def test_a_merge_leaves_every_tag_of_its_originals() -> None:
    originals = member(1, "x", "y"), member(2, "x")
    board = review(*originals, member(3, "y"))
    merged = member(9, "x", "y", "not crowded")
    board.replace(originals, merged)
    for tag in ("x", "y"):
        board.settle(tag)
    assert [(mark.tag, mark.members) for mark in board.marks()] == [("x", 1), ("y", 2)]
    # Whoever was made by the run is not merged again by it.
    assert board.groups("y") == []


def test_a_group_that_was_answered_counts_no_more_until_it_changes() -> None:
    board = review(member(1, "x"), member(2, "x"))
    assert not board.unchanged(board.tags[0])
    (group,) = board.groups("x")
    board.answer("x", group)
    (mark,) = marks_of(board, "x")
    again = TagReview([CrowdedTag("x", b"other", None, mark.answered)], group, 0.5)
    assert again.counts(again=False)["groups"] == 0
    changed = [*group, member(3, "x")]
    grown = TagReview([CrowdedTag("x", b"other", None, mark.answered)], changed, 0.5)
    assert grown.counts(again=False)["groups"] == 1


def marks_of(board: TagReview, tag: str) -> list[ConsolidationMark]:
    board.settle(tag)
    return board.marks()
