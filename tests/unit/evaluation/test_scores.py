"""What a row scores, and the rules by which wordings are judged."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.extraction.matching import Nearness, violated
from benchmarks.extraction.rows import Existing, Forbidden, MemoryOutcome
from benchmarks.extraction.scores import Verdict, add, as_wanted, judge_row, ratio
from benchmarks.extraction.support import unsupported
from benchmarks.extraction.wording import contains_all, language_of
from tests.unit.evaluation.observations import observed, row, seen

PORTO = {
    "types": ["fact"],
    "contains": ["Porto"],
    "importance_min": 0.5,
    "says": "The user lives in Porto.",
}
CATS = {"types": ["personal"], "contains": ["cats"], "says": "The user has cats.", "optional": True}
HOME = row("I live in Porto with my cats.", expected=[PORTO, CATS])


def counted(verdict: Verdict, score: str) -> list[float]:
    """A score's numerator and denominator."""
    return list(verdict.counts[score])


def test_met_expectations_and_unexpected_memories() -> None:
    verdict = judge_row(observed(HOME, seen("Lives in Porto."), seen("The user owns a boat.")))
    assert counted(verdict, "precision") == [1, 2]
    assert counted(verdict, "recall") == [1, 1]
    assert counted(verdict, "types") == [1, 1]
    assert counted(verdict, "hallucination") == [1, 2]
    assert verdict.unexpected == ["The user owns a boat."]


def test_type_and_importance_are_scored_apart_from_recall() -> None:
    verdict = judge_row(observed(HOME, seen("Lives in Porto.", type="goal", importance=0.4)))
    assert counted(verdict, "recall") == [1, 1]
    assert counted(verdict, "types") == [0, 1]
    assert counted(verdict, "importance") == [0, 1]
    # An importance that went over the wire as a float keeps its floor.
    kept = judge_row(
        observed(HOME, seen("Lives in Porto.", importance=float(np.float32(0.4999999))))
    )
    assert counted(kept, "importance") == [1, 1]


def test_what_counts_for_nothing_or_against() -> None:
    """Optional, quarantined, B7: in another language."""
    cats, hidden = seen("Has cats.", type="personal"), seen("Lives in Porto.", status="quarantined")
    foreign = seen("Người dùng sống ở Porto.")
    for learnt, score, counts in [
        ((cats,), "precision", [1, 1]),
        ((cats,), "recall", [0, 1]),
        ((hidden,), "precision", [0, 0]),
        ((hidden,), "recall", [0, 1]),
        ((foreign, seen("Porto")), "language", [0, 1]),
        ((), "silence", [0, 0]),
    ]:
        assert counted(judge_row(observed(HOME, *learnt)), score) == counts, (learnt, score)


def test_silence_is_scored_where_nothing_may_be_learnt() -> None:
    quiet = row("hello there")
    assert counted(judge_row(observed(quiet)), "silence") == [1, 1]
    assert counted(judge_row(observed(quiet, seen("Says hello."))), "silence") == [0, 1]
    assert counted(judge_row(observed(quiet, error="MODEL_UNUSABLE")), "silence") == [0, 1]


def test_rows_add_up_by_their_counts() -> None:
    total = add([{"precision": (1, 1)}, {"precision": (0, 3)}])
    assert ratio(total, "precision") == 0.25
    assert ratio(total, "recall") is None


def test_a_forbidden_memory_is_never_right_and_the_profile_counts() -> None:
    trap = row(
        "Porto is where my sister lives.",
        expected=[{**PORTO, "optional": True}],
        forbidden=[{"contains": ["Porto"], "unless": ["sister"], "because": "the sister"}],
    )
    learnt = judge_row(observed(trap, seen("The user lives in Porto.")))
    assert counted(learnt, "traps") == [1, 1]
    assert counted(learnt, "precision") == [0, 1]
    profiled = judge_row(observed(trap, profile=["facts.personal.location: Porto"]))
    assert counted(profiled, "traps") == [1, 1]
    assert counted(judge_row(observed(trap)), "traps") == [0, 1]


def known(then: str, **more: Any) -> Existing:
    given = {"type": "fact", "content": "The user lives in Porto.", "then": then, **more}
    return Existing.model_validate({"said_at": "2026-01-01T00:00:00Z", **given})


BEFORE = seen("The user lives in Porto.", id="k")


def test_what_became_of_a_memory_from_before() -> None:
    for wanted, after, right in [
        (known("untouched"), BEFORE, True),
        (known("untouched"), seen(BEFORE.content, version=2), False),
        (known("contradicted"), seen(BEFORE.content, status="contradicted"), True),
        (known("contradicted"), BEFORE, False),
        (known("achieved", type="goal"), seen(BEFORE.content, status="achieved"), True),
        (known("achieved", type="goal"), seen(BEFORE.content, status="contradicted"), False),
        (known("kept", contains=["Porto"]), seen("Lives in Porto.", version=2), True),
        (known("kept", contains=["Porto"]), seen("Lives in Faro.", version=2), False),
        (known("updated", contains=["Baixa"]), seen("Lives in Porto, Baixa.", version=2), True),
        (known("updated", contains=["Baixa"]), BEFORE, False),
    ]:
        assert as_wanted(MemoryOutcome(wanted, BEFORE, after)) is right


def test_b11_duplicates_by_the_services_own_rule() -> None:
    one, near, again = (
        seen("The user lives in Porto."),
        seen("The user is living in Porto."),
        seen("the user lives in porto", type="personal", id="again"),
    )
    assert counted(judge_row(observed(HOME, one, near)), "duplicates") == [0, 2]
    # Only the same words are the same, whatever the type.
    assert counted(judge_row(observed(HOME, one, again)), "duplicates") == [1, 2]


def test_an_expectation_may_be_met_by_rewording_a_known_memory() -> None:
    fate = MemoryOutcome(
        known("kept", contains=["live"]), seen("Lives by the sea."), seen("Lives in Porto.")
    )
    verdict = judge_row(observed(HOME, fates=[fate]))
    assert counted(verdict, "recall") == [1, 1]
    assert counted(verdict, "precision") == [0, 0]


def test_a_reworded_copy_of_a_known_memory_is_a_duplicate_while_that_holds() -> None:
    vegan = known("kept", content="The user is vegan.", contains=["vegan"])
    silent = row("I'm vegan, remember.", existing_memories=[vegan.model_dump()])
    said, copy = "The user is vegan.", "Eats vegan food only."
    for status, repeats in (("active", {copy: said}), ("contradicted", {})):
        fate = MemoryOutcome(vegan, seen(said), seen(said, status=status))
        assert judge_row(observed(silent, seen(copy), fates=[fate])).repeats == repeats


# The rules by which words are compared, languages told and inventions found.


def test_contained_terms() -> None:
    for text, terms, found in [
        ("The user prefers TEA", ("prefer", "tea"), True),
        ("The user steams milk", ("tea",), False), ("Người dùng sống ở Hà Nội", ("ha noi",), True),
        ("ユーザーはiDeCoとNISAを使う", ("NISA",), True), ("It costs 1200 euros", ("200",), False),
        ("It costs 1,200 euros", ("200",), False), ("It costs 20 euros", ("2",), False),
        ("It costs 20 euros", (("twenty", "20"),), True), ("ユーザーは１２歳", ("12歳",), True),
        ("Mary’s dog", ("mary's",), True),
    ]:  # fmt: skip
        assert contains_all(text, terms) is found


def test_b7_the_language_of_a_statement() -> None:
    for text, language in [
        ("The user works at Công ty Hòa Phát in Đà Nẵng.", "en"),
        ("Team của người dùng đang migrate sang microservices.", "vi"),
        ("ユーザーのcodeはGoで書かれている。", "ja"),
        ("Thích phở", "vi"),
        ("Kubernetes", None),
        ("", None),
    ]:
        assert language_of(text) == language


def test_what_the_conversation_does_not_carry() -> None:
    for text, finding in [
        ("The user has lived in Porto with two cats since 2026-03-01.", ""),
        ("The user has 2 cats.", ""),
        ("The user has 3 cats.", "number 3"),
        ("The user has lived in Porto since 1987.", "number 1987"),
        ("The user lives in Porto and calls it “the best of towns”.", "quote the best of towns"),
        ("The user collects antique typewriters and stamps.", "words 0 of 4"),
    ]:
        findings = unsupported(text, row("I live in Porto with my two cats."))
        assert findings == ([finding] if finding else [])


def test_forbidden_words_patterns_and_what_excuses_them() -> None:
    rules = [
        Forbidden(contains=("vegan",), unless=("Mai", "sister"), because="it is the sister"),
        Forbidden(pattern=r"\byesterday\b", because="relative"),
    ]
    assert violated("The user is vegan.", rules) == [0]
    assert violated("The user's sister is vegan.", rules) == []
    assert violated("Yesterday the user's sister left.", rules) == [1]


def test_nearness_stands_in_for_words_but_not_for_numbers() -> None:
    said = "I live in Porto with my two cats."
    vector = np.array([1.0, 0.0], dtype=np.float32)
    other, wrong = "The user shares a home by the sea", "The user shares a home with 7 felines"
    near = Nearness({said: vector, other: vector, wrong: vector}, 0.85)
    assert unsupported(other, row(said)) != []
    assert unsupported(other, row(said), near) == []
    assert unsupported(wrong, row(said), near) == ["number 7"]
