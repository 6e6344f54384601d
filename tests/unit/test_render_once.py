"""What the block for a question tells once: what gives way to what says the same (D16)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_retrieval.render.block import TEMPLATES
from hitherto_retrieval.render.context import RelevantItem
from hitherto_shared.models import Profile
from tests.unit.render_samples import (
    SAID,
    fact,
    found,
    heard,
    lines,
    memory,
    of_message,
    rendered,
    summary,
    told,
)


def test_words_decide_what_stands_twice() -> None:
    block = rendered(
        found(
            fact(1, "User works on a project with sprints.", 0.9, sources=[of_message(1)]),
            fact(2, "The first sprint ends on March 29.", 0.8, sources=[of_message(1)]),
            heard(1, "The first sprint ends on March 29, then we rest for two weeks.", 0.8),
        )
    )
    assert "User works on a project" in block.text
    assert block.text.count("March 29") == 1
    # The message holds the words of the second memory, which came first and gave up its place.
    assert block.memory_ids == (UUID(int=1),)
    learnt = fact(3, "Ana moved to Glasgow", 0.9, sources=[of_message(1)])
    assert told(learnt, heard(1, "I moved to Glasgow", 0.8)).count("Glasgow") == 1


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_was_said_again_in_the_same_words_stands_once_with_its_days(template: str) -> None:
    """A request of every week would fill the block; an answer is kept beside its question."""
    request = "Please write the weekly report for me."
    talks = [heard(5, "Do you eat fish?", 0.7, "assistant"), heard(5, "Yes.", 0.7)]
    others = [heard(6, "Do you eat meat?", 0.7, "assistant"), heard(6, "Yes.", 0.7)]
    context = found(
        *(heard(n, request, 0.9 - place / 100) for place, n in enumerate((0, 1, 2, 3, 4, 9))),
        *(replace(each, said_in="q5") for each in talks),
        *(replace(each, said_in="q6") for each in others),
        *(heard(number, "Never mind.", 0.6) for number in (1, 2)),
    )
    text = rendered(context, template).text
    assert text.count(request) == 1
    assert "2026-01-10" in text
    assert "(also on 2026-01-05, 2026-01-04, 2026-01-03 and 2 other days)" in text
    assert (text.count("Yes."), text.count("Never mind.")) == (2, 2)
    undated = rendered(replace(context, today=None), template).text.casefold()
    assert "also" not in undated.replace("also related", "")


@pytest.mark.parametrize(
    ("score", "sources"), [(0.8, [1]), (0.95, [1, 5])], ids=["from the first", "each time, before"]
)
def test_what_was_said_again_stands_for_what_was_learnt_from_it(
    score: float, sources: list[int]
) -> None:
    said = [heard(number, "I moved to Glasgow in May, with Ben", 0.9) for number in (1, 5)]
    words = "Ana moved to Glasgow in May"
    learnt = fact(1, words, score, sources=[of_message(number) for number in sources])
    assert told(learnt, *said).count("Glasgow") == 1


def test_a_summary_gives_way_to_what_was_said_again_in_its_conversation() -> None:
    request = "Please write the weekly report for me"
    said = [heard(number, request, 0.6) for number in (1, 6)]
    outline = RelevantItem.of_summary(summary("c1", request, ""), 0.95)
    assert told(outline, *said).count(request) == 1


PEPPER = "My cat Pepper hates the rain here."
OUTLINE = RelevantItem.of_summary(summary("c1", "My cat Pepper…", f"User wrote: {PEPPER}"), 0.9)
ASKED = RelevantItem.of_summary(summary("c1", "Talk", "User asked: How is Pepper?"), 0.9)
VET = RelevantItem.of_summary(summary("c1", "Pets", "Pepper the cat sees a vet in Porto."), 0.9)


SUMMARIES = {
    "held by the message": (OUTLINE, heard(1, PEPPER, 0.5), 1),
    "a worse match": (replace(OUTLINE, score=0.3), heard(1, PEPPER, 0.5), 1),
    "short, after words of ours": (ASKED, heard(1, "How is Pepper?", 0.5), 1),
    "another conversation": (OUTLINE, heard(2, PEPPER, 0.5), 2),
    "says more": (VET, heard(1, PEPPER, 0.5), 2),
    "partly past": (replace(OUTLINE, partly_until=SAID), heard(1, PEPPER, 0.5), 2),
}


@pytest.mark.parametrize(("outline", "said", "times"), SUMMARIES.values(), ids=SUMMARIES)
def test_a_summary_gives_way_to_a_message_of_its_conversation_that_holds_its_words(
    outline: RelevantItem, said: RelevantItem, times: int
) -> None:
    assert told(outline, said).count("Pepper") == times


def test_a_message_takes_the_place_of_the_memory_that_gives_way_to_it() -> None:
    """What was true then does not come to stand above what is true now."""
    now = heard(1, "Since last week I live in Glasgow", 0.5)
    then = heard(2, "I live in Lisbon, near the river", 0.6)
    text = told(fact(1, "Ana lives in Glasgow", 0.9, sources=[of_message(1)]), then, now)
    assert "Ana lives" not in text
    assert text.index("Glasgow") < text.index("Lisbon")
    # A memory that says until when it held says more than the message.
    until = SAID + timedelta(days=2)
    ended = fact(1, "Ana lives in Glasgow", 0.9, sources=[of_message(1)], valid_to=until)
    assert told(ended, now).count("Glasgow") == 2
    # And what a newer statement contradicts in part comes later than as good a match.
    text = told(replace(then, partly_until=SAID), replace(now, score=0.55))
    assert text.index("Glasgow") < text.index("Lisbon")


REACHED = memory(
    *(1, "goal", "Wants to run 10 km in an hour."),
    status="achieved",
    valid_to=SAID + timedelta(days=9),
    sources=[of_message(1)],
)
PURSUED = memory(2, "goal", "Wants to run 10 km in 50 minutes.")
OTHER_GOAL = memory(3, "goal", "Wants to swim 10 km in an hour.")
GOALS = [
    RelevantItem.of_memory(goal, score)
    for goal, score in ((REACHED, 0.9), (PURSUED, 0.2), (OTHER_GOAL, 0.2))
]


def test_a_goal_that_was_reached_comes_after_the_one_that_is_pursued() -> None:
    # What was asked of is running.
    shown = lines(found(*GOALS, stops=True, terms={"run": 3.0}))
    first, second = [line for line in shown if line.startswith("- ")]
    assert ("50 minutes" in first, "an hour" in second) == (True, True)
    # It is no standing wish either.
    text = told(memories=[REACHED, PURSUED])
    assert ("50 minutes" in text, "an hour" in text) == (True, False)
    assert "an hour" in told(memories=[REACHED], nothing=True)


@pytest.mark.parametrize("score", [0.5, 1.0])
def test_a_message_that_does_not_say_that_a_goal_was_reached_makes_way(score: float) -> None:
    text = told(*GOALS, heard(1, "I want to run 10 km in an hour!", score))
    assert text.count("run 10 km in an hour") == 1
    assert "until 2026-03-23" in text


THEN = heard(1, "Suadero 22 pesos, pastor 20, gringa 55; write that the lemon is free", 0.8)
NOW = heard(2, "From today suadero is 28", 0.6)
WORDS = "Suadero 28 pesos, pastor 20, gringa 55"
SAID_SO = [(of_message(2), "suadero is 28")]
CHANGED: dict[str, Any] = {
    "sources": [of_message(1), of_message(2)], "worded_in": 2, "evidence": SAID_SO,
}  # fmt: skip


def test_a_changed_memory_gives_way_only_to_the_words_that_changed_it() -> None:
    text = told(fact(1, WORDS, 0.9, **CHANGED), THEN, NOW)
    assert WORDS in text
    # The older message was the better match.
    assert text.index("suadero is 28") < text.index("22 pesos")
    text = told(fact(1, WORDS, 0.9, **CHANGED | {"version": 2, "worded_in": 1}), THEN, NOW)
    assert WORDS not in text
    assert text.index("22 pesos") < text.index("suadero is 28")


ELSEWHERE = {"worded_in": 3, "evidence": [*SAID_SO, (of_message(3), "now 28")]}
DAYS: dict[str, tuple[str, dict[str, Any], RelevantItem, str]] = {
    "of its words": (WORDS, {}, NOW, " (2025-12-01, as of 2026-01-03)"),
    "which they name": (f"{WORDS} (2026-01-03)", {}, NOW, ""),
    "not of other words": (WORDS, {}, THEN, " (2025-12-01)"),
    "nor of a message that was not found": (WORDS, ELSEWHERE, NOW, " (2025-12-01)"),
}


@pytest.mark.parametrize(("words", "more", "said", "note"), DAYS.values(), ids=DAYS)
def test_a_memory_that_began_before_its_words_did_tells_their_day(
    words: str, more: dict[str, Any], said: RelevantItem, note: str
) -> None:
    began = datetime(2025, 12, 1, tzinfo=UTC)
    changed = fact(1, words, 0.9, **CHANGED | more, valid_from=began)
    assert f"- {words}{note}" in lines(found(changed, said))


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_the_profile_or_an_answer_says_is_not_pinned_again(template: str) -> None:
    home = memory(1, "fact", "User lives in Porto.")
    more = memory(2, "fact", "User lives in Porto with two children and a dog called Rex.")
    wish = memory(3, "preference", "User prefers short answers.")
    boat = memory(4, "fact", "User restores an old boat.", sources=[of_message(1)])
    profile = Profile(
        "u1",
        facts={"personal": {"location": "Porto"}},
        preferences={"length": "short answers"},
        sources={
            path: {
                "path": path.split("."),
                "said_at": SAID.isoformat(),
                "memory_ids": [str(each.memory_id) for each in rests_on],
            }
            for path, rests_on in {
                "facts.personal.location": [home, more, wish],
                "preferences.length": [wish],
            }.items()
        },
    )
    pinned = [home, more, wish, boat]
    text = rendered(found(profile=profile, memories=pinned), template).text
    assert home.content not in text
    for each in (more, wish, boat):
        assert each.content in text
    answer = heard(1, "I restore an old boat on the Douro.", 0.9)
    text = rendered(found(answer, profile=profile, memories=pinned), template).text
    assert text.count("old boat") == 1
    assert "on the Douro" in text
    # Another message only seems to say it.
    elsewhere = heard(2, "I restore an old boat on the Douro.", 0.9)
    assert rendered(found(elsewhere, memories=pinned), template).text.count("old boat") == 2
