"""What a reply changes, decided against what is known (B8, B11–B13; faults.md rows 28, 29, 38, 67).

Contract: "Identity", "Forgotten stays forgotten", "Trust".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.pipeline.plan import make_plan
from hitherto_shared.models import SourceRef
from tests.unit.pipeline.situations import (
    BERLIN,
    EARLIER,
    LATER,
    LISBON,
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


def test_validity_begins_when_it_was_said_or_before() -> None:
    for said, begins in [(None, LATER), (EARLIER, EARLIER), (LATER + timedelta(days=9), LATER)]:
        assert planned(new=[new(valid_from=said)]).creations[0].valid_from == begins


def test_b11_equal_words_in_one_reply_are_one_memory() -> None:
    for second, kind, count in [
        ("ana lives in Berlin!", "fact", 1),
        (BERLIN, "context", 1),
        (BERLIN, "personal", 2),
        ("Ana currently lives in Berlin", "fact", 2),
        ("Ana lives in Munich", "fact", 2),
    ]:
        other = new(1, second, type=kind, source_ids=("m2",))
        plan = planned(new=[new(0, BERLIN), other], vectors=[[1, 0], [1, 0]])
        assert (len(plan.creations), plan.repeated) == (count, 2 - count), (second, kind)
        assert {source.message_id for _, source in plan.sources} == {"c1", "c2"}, second


def test_row_67_in_one_reply_the_users_words_take_over_the_assistants() -> None:
    plan = planned(new=[new(0, BERLIN, source_ids=("m2",)), new(1, BERLIN, source_ids=("m1",))])
    (made,) = plan.creations
    assert (made.evidence.origin, made.position) == ("user", 1)
    assert {(m, s.message_id) for m, s in plan.sources} == {
        (made.memory_id, "c1"),
        (made.memory_id, "c2"),
    }


def test_identity_a_repetition_confirms_and_never_rewords() -> None:
    before = known(content=f"{BERLIN}.", importance=0.4)
    plan = planned(near=[before], new=[new(importance=0.7, tags=("home",))])
    (change,) = plan.rewrites
    assert not plan.creations
    assert (change.after.memory_id, change.after.version) == (before.memory_id, 2)
    assert (change.after.content, change.after.importance) == (f"{BERLIN}.", 0.7)
    assert (change.action, change.vector_of) == ("merged", None)
    assert plan.confirmed == {before.memory_id: LATER}
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


def test_a_text_with_diacritics_wins_over_one_without() -> None:
    plain, marked = "Linh bi di ung tom", "Linh bị dị ứng tôm"
    (change,) = planned(near=[known(content=plain)], new=[new(content=marked)]).rewrites
    assert (change.after.content, change.vector_of) == (marked, ("new", 0))
    assert planned(near=[known(content=marked)], new=[new(content=plain)]).rewrites == []


def test_row_75_the_model_may_say_that_it_is_the_same() -> None:
    before = known(content="Ana is allergic to aubergine")
    said = new(content="Ana cannot eat eggplant", same_as="e1")
    plan = planned(before, near=[before], new=[said])
    assert (plan.creations, plan.rewrites, plan.confirmed) == ([], [], {before.memory_id: LATER})
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]
    # Roll-back of the first source leaves the words of this one.
    (stated,) = plan.said
    assert (stated.said["content"], stated.said["repeats"]) == (said.content, True)


def test_the_same_as_what_is_not_current_is_a_memory_of_its_own() -> None:
    for status in ["forgotten", "contradicted"]:
        plan = planned(known(status=status), new=[new(content="Ana has a cat", same_as="e1")])
        assert [made.item.content for made in plan.creations] == ["Ana has a cat"], status


def test_identity_the_same_words_add_a_source_and_no_version() -> None:
    before = known(content=BERLIN)
    plan = planned(near=[before], new=[new()])
    assert (plan.creations, plan.rewrites, plan.confirmed) == ([], [], {before.memory_id: LATER})
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c1"))]


def test_row_67_an_assistant_only_adds_its_source_to_what_the_user_said() -> None:
    before = known(content=BERLIN)
    plan = planned(near=[before], new=[new(importance=1.0, source_ids=("m2",))])
    assert (plan.creations, plan.rewrites, plan.confirmed) == ([], [], {})
    assert plan.sources == [(before.memory_id, SourceRef("talk", "c2"))]


# --- what was forgotten --------------------------------------------------------------------------


def test_forgotten_stays_forgotten() -> None:
    for said_at, source in [(EARLIER, "m1"), (NOON, "m1"), (LATER, "m2")]:
        gone = known(content=BERLIN, status="forgotten")
        plan = planned(near=[gone], new=[new(source_ids=(source,))], said_at=said_at)
        assert (plan.creations, plan.rewrites, plan.confirmed) == ([], [], {}), said_at
        assert reasons(plan).count("kept_forgotten") == 1, said_at
        # It hides the message.
        assert [memory_id for memory_id, _ in plan.sources] == [gone.memory_id], said_at


def test_row_34_the_same_in_other_words_stays_forgotten_too() -> None:
    for said_at, source, cosine, kept in [
        (EARLIER, "m1", 0.95, True),
        (LATER, "m2", 0.95, True),
        (LATER, "m1", 0.95, False),
        (EARLIER, "m1", 0.5, False),
    ]:
        gone = known(content="Ana has her home in Berlin", status="forgotten")
        said = new(source_ids=(source,))
        plan = planned(near=[gone], new=[said], said_at=said_at, cosine=cosine)
        case = (said_at, source, cosine)
        assert (reasons(plan).count("kept_forgotten"), len(plan.creations)) == (kept, not kept), (
            case
        )
        assert reasons(plan) == ["kept_forgotten"] * kept, case


def test_what_the_user_says_again_later_returns_under_its_id() -> None:
    gone = known(content="ana lives in berlin.", status="forgotten", importance=0.9)
    plan = planned(near=[gone], new=[new()])
    (change,) = plan.rewrites
    assert (change.action, change.after.status) == ("restored", "active")
    assert (change.after.memory_id, change.after.version) == (gone.memory_id, 2)
    assert (change.after.content, change.after.importance) == (BERLIN, 0.5)
    assert plan.creations == []


def test_what_stays_forgotten_replaces_nothing() -> None:
    gone = known(2, content=BERLIN, status="forgotten")
    plan = planned(known(1), near=[gone], new=[new(source_ids=("m2",))], contradicted=[closed()])
    (closure,) = plan.closures
    assert (closure.before.content, closure.superseded_by) == (LISBON, None)
    assert (plan.creations, reasons(plan).count("kept_forgotten")) == ([], 1)


# --- updates -------------------------------------------------------------------------------------

ALFAMA = "Ana lives in Lisbon, in the Alfama quarter"


def test_an_update_is_the_next_version() -> None:
    before = known(tags=["home"])
    wanted = update(content=ALFAMA, tags=("alfama",), source_ids=("m1",))
    plan = planned(before, updated=[wanted])
    (change,) = plan.rewrites
    assert (change.after.version, change.after.content) == (2, ALFAMA)
    assert change.after.tags == ("home", "alfama")
    assert (change.action, change.vector_of) == ("updated", ("updated", 0))
    said = SourceRef("talk", "c1")
    assert set(plan.sources) == {(before.memory_id, said)}
    assert plan.quotes == {(before.memory_id, said): SAID}


def test_an_update_that_changes_nothing_confirms() -> None:
    plan = planned(known(), updated=[update(content=f"{LISBON}.", importance=0.5)])
    assert (plan.rewrites, plan.refusals, plan.confirmed) == ([], [], {UUID(int=1): LATER})


def test_row_38_an_update_by_older_evidence_only_adds_sources() -> None:
    before = known()
    plan = planned(before, updated=[update(content=ALFAMA)], said_at=EARLIER)
    assert plan.rewrites == []
    assert {memory_id for memory_id, _ in plan.sources} == {before.memory_id}
    assert planned(before, updated=[update(content=ALFAMA)], said_at=NOON).rewrites


_END = datetime(2026, 3, 6, tzinfo=UTC)
_DAYS = timedelta(days=10)
_LATER_DAY = datetime.combine(LATER.date(), time(), UTC)


@pytest.mark.parametrize(
    ("expires_at", "day", "moved"),
    [
        pytest.param(_END, "2026-03-15", _END + _DAYS, id="put off"),
        pytest.param(_END, "2026-03-04", _END - timedelta(days=1), id="earlier"),
        pytest.param(_END, str(LATER.date()), _LATER_DAY + timedelta(days=1), id="today"),
        pytest.param(
            _END + timedelta(hours=8), "2026-03-15", _END + timedelta(hours=8) + _DAYS, id="away"
        ),
        pytest.param(_END, "2026-02-15", _END, id="over before it was said"),
        pytest.param(_END, "9999-12-31", None, id="the last day of all"),
        pytest.param(LATER, "2026-03-15", None, id="over when it was said"),
        pytest.param(_END + _DAYS, "2026-09-30", _END + _DAYS, id="another day"),
        pytest.param(
            _END + timedelta(minutes=7), "2026-03-15", _END + timedelta(minutes=7), id="an hour"
        ),
    ],
)
def test_only_what_passes_with_the_day_of_its_words_expires_with_that_of_new_ones(
    expires_at: datetime, day: str, moved: datetime | None
) -> None:
    exam = known(content="Ana has an exam on 2026-03-05", expires_at=expires_at)
    plan = planned(exam, updated=[update(content=f"Ana has an exam on {day}")], words=day)
    (rewrite,) = plan.rewrites
    assert (day in rewrite.after.content, rewrite.after.expires_at) == (True, moved)


def test_the_day_may_stand_where_the_words_of_a_memory_were_cut() -> None:
    short, then, later = "Ana has an exam…", "Ana has an exam on 2026-03-05", "2026-03-15"
    exam = known(content=short, detail=then, expires_at=_END)
    new = update(content="Ana has her exam…", detail=f"Ana has her exam on {later}")
    (rewrite,) = planned(exam, updated=[new], words=later).rewrites
    assert rewrite.after.expires_at == _END + _DAYS


def test_row_71_without_a_genuine_quote_both_wordings_stand() -> None:
    for quote, sources, why in [
        ("", ("m1",), "refused_without_quote"),
        ("I never said this", ("m1",), "refused_quote"),
        ("I", ("m1",), "refused_quote"),
        (SAID, (), "refused_without_source"),
    ]:
        before = known()
        plan = planned(before, updated=[update(content=ALFAMA, source_ids=sources, quote=quote)])
        assert (plan.rewrites, plan.closures, reasons(plan)) == ([], [], [why])
        (refusal,) = plan.refusals
        assert (refusal.item, refusal.memory_id) == ("updated_memories[0]", before.memory_id), quote
        assert ALFAMA not in refusal.subject, quote


def test_row_71_the_words_of_a_refused_update_stand_beside_what_they_may_replace() -> None:
    before = known(tags=["home"])
    plan = planned(before, updated=[update(content=ALFAMA, source_ids=("m1",), quote="no such")])
    (made,) = plan.creations
    assert (made.item.content, made.item.type, made.item.tags) == (ALFAMA, "fact", ("home",))
    assert (made.status, made.item.confidence) == ("active", "low")
    assert (made.may_replace, made.challenges) == ((before.memory_id,), ())
    # What is sealed, or was marked as sensitive by hand, stays the only copy.
    for hidden in (known(sealed=True), known(sensitive=True)):
        plan = planned(hidden, updated=[update(content=ALFAMA, quote="no such")])
        assert (plan.creations, len(plan.refusals)) == ([], 1)
    # Not again: a memory has these words, whatever became of it.
    told = situation(before, updated=[update(content=ALFAMA, quote="no such")])
    assert make_plan(replace(told, reviewed={0})).creations == []


def test_what_stands_beside_expires_as_if_it_had_replaced() -> None:
    """Or it would be told for ever, as a model gives an expiry with a new memory only."""
    end, day = datetime(2026, 9, 1, tzinfo=UTC), timedelta(days=1)
    before = known(content="Rehab at 10:15 until 2026-08-31", expires_at=end)
    for content, expires_at in [
        ("Rehab at 23:59 until 2026-09-30", end + 30 * day),
        ("Rehab at 23:59 until 2026-08-31", end),
        ("Rehab at 23:59 for good", None),
        ("Rehab at 23:59 until 2025-08-31", end),
    ]:
        plan = planned(before, updated=[update(content=content, quote="no such words")])
        assert [made.item.expires_at for made in plan.creations] == [expires_at], content
    passed = planned(
        replace(before, expires_at=EARLIER),
        updated=[update(content="Rehab at 23:59 until 2026-09-30", quote="no such words")],
    )
    assert [made.item.expires_at for made in passed.creations] == [None]


def test_row_71_a_number_that_nobody_said_makes_no_version() -> None:
    plan = planned(known(), updated=[update(content=f"{LISBON}, at number 87")])
    assert (plan.rewrites, reasons(plan)) == ([], ["refused_digits"])
    assert [made.may_replace for made in plan.creations] == [(UUID(int=1),)]


def test_row_71_importance_moves_by_steps() -> None:
    for before, wanted, becomes in [
        (0.5, 1.0, 0.7), (0.5, 0.6, 0.6), (0.5, 0.0, 0.3), (0.5, 0.4, 0.4), (0.1, 0.0, 0.1)
    ]:  # fmt: skip
        wish = update(importance=wanted, tags=("home",))
        (change,) = planned(known(importance=before), updated=[wish]).rewrites
        assert change.after.importance == pytest.approx(becomes)


def test_updates_over_the_cap_stand_beside() -> None:
    memories = [known(n, f"Ana owns boat {n}") for n in range(1, 7)]
    changes = [update(n, f"Ana owns the fast boat {n}") for n in range(1, 7)]
    plan = planned(*memories, updated=changes, active_count=6)
    assert (plan.rewrites, reasons(plan)) == ([], ["refused_over_cap"] * 6)
    assert [made.may_replace for made in plan.creations] == [(m.memory_id,) for m in memories]


def test_row_67_trust_decides_what_may_change() -> None:
    cases: list[tuple[tuple[str, ...] | None, str, bool]] = [
        (None, "user", True),
        (("m1",), "user", True),
        (("m2",), "user", False),
        # Of two messages with the words, the user's counts.
        (("m1", "m2"), "user", True),
        ((), "user", False),
        (("m2",), "assistant", True),
        (("m2",), "operator", False),
    ]
    for sources, origin, may in cases:
        items: dict[str, Any] = {
            "updated": update(content=ALFAMA, source_ids=sources),
            "contradicted": closed(by=None, source_ids=sources),
            "achieved": closed(by=None, source_ids=sources),
            "forgotten": forgotten(source_ids=sources),
        }
        for how, item in items.items():
            # Only a user asks to forget, even what the assistant said.
            allowed = may and (how != "forgotten" or sources != ("m2",))
            plan = planned(known(type="goal", origin=origin), **{how: [item]})
            assert bool(plan.rewrites or plan.closures) == allowed, (how, sources, origin)
            assert len(plan.refusals) == (not allowed), (how, sources, origin)
