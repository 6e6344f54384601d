"""What a reply may close and what it never touches (B12, B13).

faults.md rows 28, 38, 39, 67, 71.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.pipeline.operations import Occasion
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.pipeline.write import events_of
from tests.unit.pipeline.situations import (
    BERLIN,
    EARLIER,
    LATER,
    LISBON,
    NOON,
    closed,
    forgotten,
    known,
    new,
    planned,
    reasons,
    situation,
    untouched,
    update,
)

# --- contradictions ------------------------------------------------------------------------------


def test_b12_the_newer_statement_closes_the_older_one() -> None:
    before = known()
    plan = planned(before, new=[new()], contradicted=[closed(reason="she moved")])
    (made,), (closure,) = plan.creations, plan.closures
    assert closure.before == before
    assert (closure.after.status, closure.reason) == ("contradicted", "she moved")
    assert closure.superseded_by == made.memory_id
    assert closure.after.valid_to == made.valid_from == LATER


def test_b12_what_is_contradicted_ends_when_the_newer_begins_and_never_before_it_began() -> None:
    soon = NOON + timedelta(hours=1)
    for by, begins, ends in [(0, soon, soon), (0, EARLIER, NOON), (None, None, LATER)]:
        made = [] if by is None else [new(valid_from=begins)]
        (closure,) = planned(known(), new=made, contradicted=[closed(by=by)]).closures
        assert closure.after.valid_to == ends, (by, begins)
        assert (closure.superseded_by is None) == (by is None), (by, begins)


def test_b12_what_is_known_already_can_be_the_successor() -> None:
    for sealed, reason in ((False, "she moved"), (True, "contradicted")):
        there = known(2, content=BERLIN, sealed=sealed)
        ends = closed(reason="she moved")
        plan = planned(known(1), near=[there], new=[new()], contradicted=[ends])
        assert (plan.closures[0].superseded_by, plan.creations) == (there.memory_id, [])
        # The history does not quote what is sealed.
        assert events_of(plan, Occasion(None, "talk", LATER), quoted=True)[-1].reason == reason


def test_row_38_late_evidence_closes_itself() -> None:
    before = known(content=BERLIN)
    plan = planned(before, new=[new(content=LISBON)], contradicted=[closed()], said_at=EARLIER)
    (made,) = plan.creations
    assert plan.closures == []
    assert (made.status, made.superseded_by) == ("contradicted", before.memory_id)
    assert (made.valid_from, made.valid_to) == (EARLIER, NOON)


def test_row_38_a_late_statement_names_every_statement_that_contradicts_it() -> None:
    """It ended when the first of them began, and when the other did if that one is rolled back."""
    moved, soon = NOON + timedelta(days=2), NOON + timedelta(days=1)
    plan = planned(
        known(content=BERLIN, valid_from=moved),
        known(2, content="Ana works in Berlin", valid_from=soon),
        new=[new(content="Ana lives and works in Porto")],
        contradicted=[closed(), closed(2)],
        said_at=EARLIER,
    )
    (made,) = plan.creations
    assert made.ended_by == ((UUID(int=1), moved), (UUID(int=2), soon))
    assert (made.valid_to, made.superseded_by) == (soon, UUID(int=2))
    assert not plan.refusals
    since = known(content=BERLIN, valid_from=EARLIER - timedelta(days=9))
    plan = planned(since, new=[new(content=LISBON)], contradicted=[closed()], said_at=EARLIER)
    assert (plan.creations[0].valid_from, plan.creations[0].valid_to) == (EARLIER, EARLIER)


def test_row_38_late_evidence_without_a_statement_closes_nothing() -> None:
    plan = planned(known(), contradicted=[closed(by=None)], said_at=EARLIER)
    assert untouched(plan)
    assert len(plan.refusals) == 1


def test_row_38_what_a_late_request_does_not_forget_ends_late_all_the_same() -> None:
    """A request that comes too late is refused; it takes no other change of the memory with it."""
    plan = planned(
        known(content=BERLIN),
        new=[new(content=LISBON)],
        contradicted=[closed()],
        forgotten=[forgotten()],
        said_at=EARLIER,
    )
    assert [(made.status, made.superseded_by) for made in plan.creations] == [
        ("contradicted", UUID(int=1))
    ]
    assert reasons(plan) == ["refused_late"]
    both = {"contradicted": [closed(by=None)], "forgotten": [forgotten()]}
    plan = planned(known(), said_at=NOON, **both)
    assert ([each.action for each in plan.rewrites], reasons(plan)) == (["forgotten"], [])


def test_what_a_memory_contradicts_that_is_to_be_forgotten_ends_without_a_successor() -> None:
    there = known(2, content=BERLIN)
    plan = planned(
        known(1), there, near=[there], new=[new()],
        contradicted=[closed(reason="she is in Berlin")], forgotten=[forgotten(2)],
    )  # fmt: skip
    (closure,) = plan.closures
    assert (closure.after.status, closure.superseded_by) == ("contradicted", None)
    assert "Berlin" not in closure.reason
    assert plan.after[there.memory_id][0] == "forgotten"


def test_a_statement_to_be_forgotten_hides_the_messages_that_name_nothing_but_its_matter() -> None:
    asked = replace(forgotten(), memory="", new=0)
    for other, hidden in ((LISBON, {"c1", "c2"}), ("Ana works in Berlin", {"c1"})):
        told = situation(new=[new(), new(1, other)], forgotten=[asked])
        plan = make_plan(replace(told, own_names=["Berlin"]))
        gone, kept = plan.creations
        assert (gone.status, kept.status) == ("forgotten", "active")
        assert [memory_id for memory_id, _ in plan.mentions] == [kept.memory_id]
        of_gone = [each for memory_id, each in plan.sources if memory_id == gone.memory_id]
        assert {each.message_id for each in of_gone} == hidden, other


def test_row_67_a_newer_word_of_the_assistant_does_not_close_the_users_late_one() -> None:
    before = known(origin="assistant")
    plan = planned(before, new=[new()], contradicted=[closed()], said_at=EARLIER)
    assert [made.status for made in plan.creations] == ["active"]
    assert (plan.rewrites, plan.closures, reasons(plan)) == ([], [], ["refused_by_trust"])


def test_a_statement_does_not_contradict_itself() -> None:
    before = known(1, content=BERLIN)
    plan = planned(before, near=[before], new=[new()], contradicted=[closed()])
    assert (plan.closures, len(plan.refusals)) == ([], 1)


def test_row_39_two_memories_never_replace_each_other() -> None:
    one, two = known(1, content=LISBON), known(2, content=BERLIN)
    told = situation(
        one,
        two,
        near=[one, two],
        new=[new(0, LISBON), new(1, BERLIN)],
        contradicted=[closed(1, by=1), closed(2, by=0)],
    )
    plan = make_plan(replace(told, neighbours=dict.fromkeys((0, 1), told.neighbours[0])))
    assert [closure.before.memory_id for closure in plan.closures] == [one.memory_id]
    assert len(plan.refusals) == 1


def test_a_statement_that_was_dropped_ends_nothing_by_itself() -> None:
    """The quote bears the ending; without one it falls with its statement."""
    (closure,) = planned(known(), new=[new(3)], contradicted=[closed(by=0)]).closures
    assert closure.superseded_by is None
    plan = planned(known(), new=[new(3)], contradicted=[closed(by=0, quote="gone")])
    assert (plan.closures, reasons(plan)) == ([], ["refused_quote"])


def test_row_71_without_evidence_both_stand_linked() -> None:
    cases: list[Any] = [
        ({"quote": ""}, "refused_without_quote"),
        ({"quote": "Ana left for good"}, "refused_quote"),
        ({"source_ids": ()}, "refused_without_source"),
    ]
    for given_evidence, why in cases:
        evidence: dict[str, Any] = {"source_ids": ("m1",), **given_evidence}
        plan = planned(known(), new=[new()], contradicted=[closed(**evidence)])
        assert (plan.closures, plan.rewrites, reasons(plan)) == ([], [], [why])
        (made,) = plan.creations
        assert (made.status, made.may_replace) == ("active", (UUID(int=1),)), evidence
        there = known(2, content=BERLIN)
        plan = planned(known(), near=[there], new=[new()], contradicted=[closed(**evidence)])
        assert plan.may_replace == [(there.memory_id, UUID(int=1))], evidence


def test_what_is_not_current_is_not_changed() -> None:
    for status in ["forgotten", "contradicted", "superseded", "archived"]:
        for how in ["updated", "contradicted", "achieved"]:
            item: Any = update(content=f"{LISBON} now") if how == "updated" else closed(by=None)
            answer: dict[str, Any] = {how: [item]}
            plan = planned(known(status=status, type="goal"), **answer)
            assert untouched(plan), (status, how)
            assert len(plan.refusals) == 1, (status, how)


def test_a_memory_is_closed_once() -> None:
    goal = known(type="goal")
    plan = planned(goal, contradicted=[closed(by=None)], achieved=[closed(by=None)])
    assert [closure.after.status for closure in plan.closures] == ["contradicted"]
    assert len(plan.refusals) == 1


RUN = "Ana wants to run ten kilometres"

# --- goals ---------------------------------------------------------------------------------------


def test_b13_an_achieved_goal_keeps_half_its_importance() -> None:
    goal = known(type="goal", content="Ana wants to run a marathon", importance=0.8)
    made = new(content="Ana ran a marathon")
    plan = planned(goal, new=[made], achieved=[closed()])
    (closure,) = plan.closures
    assert (closure.after.status, closure.after.importance) == ("achieved", 0.4)
    assert (closure.superseded_by, closure.after.valid_to) == (plan.creations[0].memory_id, LATER)


def test_b13_only_goals_are_achieved_and_those_that_were_are_no_mistake() -> None:
    plan = planned(
        known(1, type="goal", status="achieved"),
        known(2, type="fact"),
        achieved=[closed(1, by=None), closed(2, by=None)],
    )
    assert (plan.closures, reasons(plan)) == ([], ["refused_no_goal"])


def test_row_38_a_goal_stated_again_later_is_not_achieved_by_older_words() -> None:
    plan = planned(known(type="goal"), achieved=[closed(by=None)], said_at=EARLIER)
    assert (plan.closures, len(plan.refusals)) == ([], 1)


def test_a_goal_that_the_user_sets_again_after_it_was_reached_is_open() -> None:
    cases: list[Any] = [
        (LATER, "user", {}, True),
        (NOON, "user", {}, False),
        (LATER, "assistant", {}, False),
        # The model recognises the goal, and was shown that it is reached.
        (LATER, "user", {"content": "Ana will run", "same_as": "e1"}, False),
    ]
    for said_at, role, more, anew in cases:
        reached = known(type="goal", content=RUN, status="achieved", valid_to=NOON)
        item = new(type="goal", **({"content": RUN} | more))
        near = [] if "same_as" in more else [reached]
        plan = planned(reached, near=near, new=[item], roles=[role], said_at=said_at)
        created = [made.item.content for made in plan.creations]
        assert created == [RUN] * anew, (said_at, role, more)
        assert not plan.rewrites, said_at


# --- what is not named ---------------------------------------------------------------------------

_LOCAL = st.integers(0, 8)
_SOURCES = st.none() | st.lists(st.sampled_from(["m1", "m2", "m3"]), max_size=2).map(tuple)
_BY = st.none() | st.integers(0, 3)
_CITIES = ["Lisbon", "Berlin", "Munich", "Porto", "Hà Nội", "Huế", "Kyoto", "Rome", "Oslo"]


@given(
    contents=st.lists(st.sampled_from([*_CITIES, "Paris"]), max_size=4),
    updates=st.lists(st.tuples(_LOCAL, st.sampled_from(_CITIES), _SOURCES), max_size=4),
    contradictions=st.lists(st.tuples(_LOCAL, _BY, _SOURCES), max_size=4),
    goals=st.lists(st.tuples(_LOCAL, _BY, _SOURCES), max_size=4),
    said_at=st.sampled_from([EARLIER, NOON, LATER]),
    roles=st.lists(
        st.sampled_from(["user", "assistant", "tool", "system"]), min_size=1, max_size=3
    ),
    origins=st.lists(st.sampled_from(["user", "assistant"]), min_size=9, max_size=9),
    statuses=st.lists(
        st.sampled_from(["active", "achieved", "forgotten", "contradicted"]), min_size=9, max_size=9
    ),
)
def test_b12_memories_that_nobody_names_never_change(
    contents: list[str],
    updates: list[tuple[int, str, tuple[str, ...] | None]],
    contradictions: list[tuple[int, int | None, tuple[str, ...] | None]],
    goals: list[tuple[int, int | None, tuple[str, ...] | None]],
    said_at: datetime,
    roles: list[str],
    origins: list[str],
    statuses: list[str],
) -> None:
    memories = [
        known(n + 1, f"Ana was in {city}", type="goal" if n % 2 else "fact", origin=origins[n],
              status=statuses[n])
        for n, city in enumerate(_CITIES)
    ]  # fmt: skip
    plan = planned(
        *memories,
        said_at=said_at,
        roles=roles,
        new=[new(i, f"Ana is in {city}") for i, city in enumerate(contents)],
        updated=[update(n + 1, f"Ana stayed in {city}", source_ids=s) for n, city, s in updates],
        contradicted=[closed(n + 1, by, source_ids=s) for n, by, s in contradictions],
        achieved=[closed(n + 1, by, source_ids=s) for n, by, s in goals],
    )
    named = {UUID(int=n + 1) for n, *_ in [*updates, *contradictions, *goals]}
    made = {creation.memory_id for creation in plan.creations}
    changed = {c.before.memory_id for c in plan.rewrites}
    changed |= {c.before.memory_id for c in plan.closures}
    assert changed | set(plan.confirmed) <= named
    assert {memory_id for memory_id, _ in plan.sources} <= named | made
    # Nothing is lost from sight: what is closed has a status that says so, once.
    assert len({c.before.memory_id for c in plan.closures}) == len(plan.closures)
    successors = {c.before.memory_id: c.superseded_by for c in plan.closures}
    successors |= {c.memory_id: c.superseded_by for c in plan.creations}
    for start in successors:
        seen, at = set(), start
        while (following := successors.get(at)) is not None:
            assert following not in seen
            seen.add(following)
            at = following
