"""What a reply changes, decided against what is known (B8, B11–B13; faults.md rows 28, 29, 38, 67).

Contract: "Identity", "Forgotten stays forgotten", "Trust".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.caps import ChangeAllowance
from hitherto_extraction.pipeline.dedupe import Neighbour
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.operations import Situation
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import SourceRef
from tests.unit.pipeline.situations import (
    BERLIN,
    EARLIER,
    LATER,
    LISBON,
    NOON,
    closed,
    known,
    new,
    planned,
    untouched,
    update,
)

# --- new statements ------------------------------------------------------------------------------


def test_a_new_statement_becomes_a_memory_with_its_sources() -> None:
    plan = planned(new=[new(source_ids=("m1", "m2"))])
    (made,) = plan.creations
    assert (made.item.content, made.evidence.origin, made.status) == (BERLIN, "assistant", "active")
    assert made.valid_from == LATER
    assert plan.sources == [
        (made.memory_id, SourceRef("talk", "c1")),
        (made.memory_id, SourceRef("talk", "c2")),
    ]
    assert [memory_id for memory_id, _ in plan.mentions] == [made.memory_id]


@pytest.mark.parametrize(
    ("said", "begins"), [(None, LATER), (EARLIER, EARLIER), (LATER + timedelta(days=9), LATER)]
)
def test_validity_begins_when_it_was_said_or_before(
    said: datetime | None, begins: datetime
) -> None:
    assert planned(new=[new(valid_from=said)]).creations[0].valid_from == begins


@pytest.mark.parametrize(
    ("second", "vectors", "count"),
    [
        ("ana lives in Berlin!", [], 1),  # the same words need no vector
        ("Ana currently lives in Berlin", [[1, 0], [1, 0]], 1),
        ("Ana currently lives in Berlin", [], 2),
        ("Ana currently lives in Berlin", [[1, 0], [0, 1]], 2),
        ("Ana lives in Munich", [[1, 0], [1, 0]], 2),
    ],
)
def test_b11_a_statement_twice_in_one_reply_is_one_memory(
    second: str, vectors: list[list[float]], count: int
) -> None:
    plan = planned(new=[new(0, BERLIN), new(1, second, source_ids=("m2",))], vectors=vectors)
    assert len(plan.creations) == count
    assert {source.message_id for _, source in plan.sources} == {"c1", "c2"}


def test_row_67_in_one_reply_the_users_words_take_over_the_assistants() -> None:
    plan = planned(
        new=[new(0, BERLIN, source_ids=("m2",)), new(1, BERLIN, source_ids=("m1",))],
    )
    (made,) = plan.creations
    assert (made.evidence.origin, made.position) == ("user", 1)
    assert {(m, s.message_id) for m, s in plan.sources} == {
        (made.memory_id, "c1"),
        (made.memory_id, "c2"),
    }


def test_identity_a_repeated_statement_updates_what_is_known() -> None:
    before = known(content="Ana lives in Berlin now", importance=0.4)
    plan = planned(near=[before], new=[new(importance=0.7, tags=("home",))])
    (change,) = plan.rewrites
    assert not plan.creations
    assert change.before == before
    assert (change.after.memory_id, change.after.version) == (before.memory_id, 2)
    assert (change.after.content, change.after.importance) == (BERLIN, 0.7)
    assert (change.action, change.vector_of) == ("merged", ("new", 0))
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


def test_identity_the_same_words_add_a_source_and_no_version() -> None:
    before = known(content=BERLIN)
    plan = planned(near=[before], new=[new()])
    assert (plan.creations, plan.rewrites) == ([], [])
    assert plan.confirmed == {before.memory_id: LATER}
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


def test_row_38_older_words_never_replace_newer_ones() -> None:
    before = known(content="Ana lives in Berlin now")
    plan = planned(near=[before], new=[new(tags=("home",))], said_at=EARLIER)
    (change,) = plan.rewrites
    assert (change.after.content, change.after.said_at) == (before.content, NOON)
    assert change.vector_of is None
    assert plan.sources


def test_row_67_an_assistant_only_adds_its_source_to_what_the_user_said() -> None:
    before = known(content="Ana lives in Berlin now")
    plan = planned(near=[before], new=[new(importance=1.0, source_ids=("m2",))])
    assert (plan.creations, plan.rewrites) == ([], [])
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c2"))]


def test_two_statements_that_both_repeat_one_memory_make_versions_in_a_row() -> None:
    before = known(content=BERLIN)
    near = Neighbour(before.memory_id, "fact", BERLIN, "active", 0.9, NOON)
    plan = make_plan(
        Situation(
            answer=Answer(new=[new(0, BERLIN, tags=("a",)), new(1, BERLIN, tags=("b",))]),
            witnesses=Witnesses("talk", {"m1": StoredMessage(1, "c1", "user", "", "w", LATER)}),
            local_memories={}, known={before.memory_id: before}, neighbours={0: [near], 1: [near]},
            vectors={}, threshold=0.85, room=ChangeAllowance(1),
        )
    )  # fmt: skip
    assert [(c.after.version, c.after.tags) for c in plan.rewrites] == [
        (2, ("a",)),
        (3, ("a", "b")),
    ]


# --- what was forgotten --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said_at", "source"),
    [(EARLIER, "m1"), (NOON, "m1"), (LATER, "m2")],
    ids=["older", "same moment", "assistant"],
)
def test_forgotten_stays_forgotten(said_at: datetime, source: str) -> None:
    gone = known(content=BERLIN, status="forgotten")
    plan = planned(near=[gone], new=[new(source_ids=(source,))], said_at=said_at)
    assert untouched(plan)
    assert plan.creations == []
    assert plan.forgotten_again == 1


def test_what_the_user_says_again_later_returns_under_its_id() -> None:
    gone = known(content="Ana lives in Berlin now", status="forgotten", importance=0.9)
    plan = planned(near=[gone], new=[new()])
    (change,) = plan.rewrites
    assert (change.action, change.after.status) == ("restored", "active")
    assert (change.after.memory_id, change.after.version) == (gone.memory_id, 2)
    assert (change.after.content, change.after.importance) == (BERLIN, 0.5)
    assert plan.creations == []


def test_a_contradiction_by_what_stays_forgotten_is_dropped() -> None:
    gone = known(2, content=BERLIN, status="forgotten")
    plan = planned(known(1), near=[gone], new=[new(source_ids=("m2",))], contradicted=[closed()])
    assert untouched(plan)
    assert plan.dropped == 1


# --- updates -------------------------------------------------------------------------------------


def test_an_update_makes_the_next_version() -> None:
    before = known(tags=["home"])
    plan = planned(
        before,
        updated=[
            update(content="Ana lives in Lisbon, Alfama", tags=("alfama",), source_ids=("m1",))
        ],
        words="Alfama",
    )
    (change,) = plan.rewrites
    assert (change.after.version, change.after.content) == (2, "Ana lives in Lisbon, Alfama")
    assert change.after.tags == ("home", "alfama")
    assert (change.action, change.vector_of) == ("updated", ("updated", 0))
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


def test_row_38_an_update_by_older_evidence_only_adds_sources() -> None:
    before = known()
    plan = planned(
        before,
        updated=[update(content="Ana lives in Alfama, Lisbon", source_ids=("m1",))],
        said_at=EARLIER,
        words="Alfama",
    )
    assert plan.rewrites == []
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


@pytest.mark.parametrize("words", ["first", "hijacked", "Ben is an admin", "用户喜欢茶"])
def test_row_28_an_update_to_another_statement_is_dropped(words: str) -> None:
    plan = planned(known(), updated=[update(content=words, source_ids=("m1",))])
    assert untouched(plan)
    assert plan.dropped == 1


def test_an_update_that_changes_nothing_confirms() -> None:
    plan = planned(known(), updated=[update(content=LISBON, importance=0.5)])
    assert plan.rewrites == []
    assert plan.confirmed == {UUID(int=1): LATER}


@pytest.mark.parametrize(
    ("sources", "origin", "allowed"),
    [
        (None, "user", True),
        (("m1",), "user", True),
        (("m2",), "user", False),
        (("m1", "m2"), "user", False),
        ((), "user", False),
        (("m2",), "assistant", True),
        (("m2",), "operator", False),
    ],
)
@pytest.mark.parametrize("how", ["updated", "contradicted", "achieved"])
def test_row_67_trust_decides_what_may_change(
    how: str, sources: tuple[str, ...] | None, origin: str, allowed: bool
) -> None:
    before = known(type="goal", origin=origin)
    item: Any = (
        update(content="Ana lives in Lisbon, Alfama", source_ids=sources)
        if how == "updated"
        else closed(by=None, source_ids=sources)
    )
    answer: dict[str, Any] = {how: [item]}
    words = "Alfama" if how == "updated" else "I left Lisbon"
    plan = planned(before, words=words, **answer)
    assert bool(plan.rewrites or plan.closures) == allowed
    assert plan.dropped == (not allowed)
