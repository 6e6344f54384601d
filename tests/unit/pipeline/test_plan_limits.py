"""How much one reply may change: what counts, and what becomes of the rest (faults.md row 29)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hitherto_extraction.pipeline.answer import ClosedItem
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.storage.conversations import StoredMessage
from tests.unit.pipeline.situations import (
    LATER,
    NOON,
    SAID,
    closed,
    forgotten,
    known,
    new,
    planned,
    reasons,
    situation,
    update,
)


def test_row_29_a_reply_that_closes_too_much_closes_nothing() -> None:
    for wanted, active, before, applied in [
        (5, 3, 0, 5),
        (6, 3, 0, 0),
        # The cap is the job's: earlier replies count.
        (2, 3, 4, 0),
        (6, 1000, 15, 0),
    ]:
        memories = [known(n, content=f"fact {n}", type="goal") for n in range(1, wanted + 1)]
        half = wanted // 2
        plan = planned(
            *memories,
            new=[new()],
            contradicted=[closed(n) for n in range(1, half + 1)],
            achieved=[closed(n) for n in range(half + 1, wanted + 1)],
            active_count=active,
            status_changes=before,
        )
        assert len(plan.closures) == applied, (wanted, active, before)
        assert len(plan.refusals) == wanted - applied, (wanted, active, before)
        assert len(plan.creations) == 1, wanted


def test_row_29_only_what_would_be_made_counts() -> None:
    """Endings without evidence, and goals achieved already, take no room from the others."""
    memories = [known(n, f"Ana owns boat {n}", type="goal") for n in range(1, 6)]
    done = [known(n, f"Ana owned boat {n}", type="goal", status="achieved") for n in range(6, 9)]
    lies = [known(n, f"Ana sold boat {n}") for n in range(9, 12)]
    plan = planned(
        *memories,
        *done,
        *lies,
        contradicted=[
            *(closed(n, by=None) for n in range(1, 6)),
            *(closed(n, by=None, quote="no such words") for n in range(9, 12)),
        ],
        achieved=[closed(n, by=None) for n in range(6, 9)],
        active_count=8,
    )
    assert [each.before for each in plan.closures] == memories
    assert reasons(plan) == ["refused_quote"] * 3


def test_row_29_requests_to_forget_count_too() -> None:
    memories = [known(n, f"Ana owns boat {n}") for n in range(1, 7)]
    asked = [forgotten(n) for n in range(1, 7)]
    assert reasons(planned(*memories, forgotten=asked, active_count=6)) == ["refused_over_cap"] * 6
    assert len(planned(*memories, forgotten=asked[:5], active_count=6).rewrites) == 5


def test_row_29_requests_older_than_updates_of_the_same_reply_are_limited_with_these() -> None:
    numbers = range(1, 7)
    given = situation(
        *(known(n, content="Ana has cats") for n in numbers),
        updated=[update(n, "Ana has old cats", source_ids=["m2"]) for n in numbers],
        forgotten=[forgotten(n, source_ids=["m1"]) for n in numbers],
        active_count=20,
    )
    said = {
        name: StoredMessage(n, f"c{n}", "user", "", SAID, at)
        for n, (name, at) in enumerate({"m1": NOON + timedelta(hours=1), "m2": LATER}.items(), 1)
    }
    plan = make_plan(replace(given, witnesses=Witnesses("talk", said)))
    assert (plan.rewrites, plan.closures, reasons(plan)) == ([], [], ["refused_over_cap"] * 12)


def test_row_29_endings_over_the_cap_leave_linked_statements() -> None:
    memories = [known(n, f"Ana owns boat {n}") for n in range(1, 7)]
    plan = planned(
        *memories, new=[new()], contradicted=[closed(n) for n in range(1, 7)], active_count=6
    )
    assert plan.creations[0].may_replace == tuple(each.memory_id for each in memories)
    assert reasons(plan) == ["refused_over_cap"] * 6


def test_row_29_over_the_cap_what_has_words_of_its_own_and_no_successor_ends() -> None:
    """Nothing could be linked for it; a reconciliation has the others."""
    words = "I sold boat 1. My rent is over. I reached port. It rains today"
    boats = [known(n, f"Ana owns boat {n}") for n in range(1, 6)]
    rent, goal = known(6, "Ana pays rent"), known(7, "Ana wants to reach port", type="goal")
    replaced = [closed(n) for n in range(1, 6)]

    def ended(*endings: ClosedItem, achieved: Sequence[ClosedItem] = (), **more: Any) -> set[int]:
        plan = planned(
            *boats, rent, goal, new=[new()], words=words,
            contradicted=[*replaced, *endings], achieved=achieved, active_count=7, **more,
        )  # fmt: skip
        made = {each.before.memory_id.int for each in plan.closures}
        # A goal that is left is linked like the others.
        left = [*boats, goal] if achieved and goal.memory_id.int not in made else boats
        assert plan.creations[0].may_replace == tuple(each.memory_id for each in left)
        return made

    over, reached = closed(6, None, quote="My rent is over"), closed(7, quote="I reached port")
    assert ended(over, achieved=[reached]) == {6, 7}
    # Neither what one sentence ends together, nor what nobody said.
    assert ended(over, achieved=[closed(7, quote="My rent is over")]) == set()
    assert ended(over, achieved=[closed(7, quote="My rent is over. I reached port")]) == {6}
    assert ended(closed(6, None), achieved=[reached]) == {7}
    assert ended(closed(6, None, quote="It pours today"), achieved=[reached]) == {7}
    # Nor more than the limit allows.
    assert ended(over, achieved=[reached], status_changes=4) == set()
    many = [closed(n, None, quote=f"words {n} of its own") for n in range(1, 7)]
    said = " ".join(f"words {n} of its own." for n in range(1, 7))
    plan = planned(*boats, rent, contradicted=many, words=said, active_count=6)
    assert (plan.closures, reasons(plan)) == ([], ["refused_over_cap"] * 6)
