"""The block for a question: relevance decides, and every line says when (D16)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from hitherto_retrieval.render.block import TEMPLATES, render
from hitherto_retrieval.render.context import Block, PromptContext, RelevantItem
from hitherto_retrieval.render.layouts import NOTHING
from hitherto_retrieval.render.tokens import counter
from hitherto_shared.models import (
    NEUTRAL_TITLE,
    Entity,
    Memory,
    Message,
    Preference,
    Profile,
    SourceRef,
)
from tests.unit.render_samples import FENCE_ID, SAID, entity, full_context, memory, summary

COUNT = counter("o200k_base")
TODAY = date(2026, 11, 22)
CUSTOM = "{{profile}}\n{{memories}}\n{{relevant}}\n{{conversations}}\n{{entities}}"
UNSEEN = "\u200b \u2060"
DAY = re.compile(r"\b2026-\d{2}-\d{2}\b")


def message(number: int, text: str, role: str = "user", name: str = "Bao") -> Message:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)
    return Message(f"c{number % 4}", f"m{number}", role, name, text, at)


def found(*items: RelevantItem, **others: object) -> PromptContext:
    given: dict[str, object] = {"relevant": items, "asked": True, "today": TODAY, "stops": False}
    return PromptContext(**(given | others))  # type: ignore[arg-type]


def block(
    context: PromptContext, template: str = "about_the_user", max_tokens: int = 4_000
) -> Block:
    custom = CUSTOM if template == "custom" else ""
    return render(
        context, template, max_tokens, fence_id=FENCE_ID, custom_template=custom, count=COUNT
    )


def lines(context: PromptContext, template: str = "about_the_user") -> list[str]:
    return block(context, template).text.splitlines()


def much(count: int = 60) -> PromptContext:
    """More than fits: memories and messages that fit less and less, and general lists."""
    items: list[RelevantItem] = []
    for number in range(count):
        score = 0.9 - number / 100
        if number % 3:
            text = f"Message {number} of many, with some words about it."
            items.append(RelevantItem.of_message(message(number, text), score))
        else:
            fact = memory(number + 1, "fact", f"Found statement {number} that answers.")
            items.append(RelevantItem.of_memory(fact, score))
    general = full_context()
    others = [memory(500 + n, "fact", f"Important in general {n}.") for n in range(20)]
    return replace(
        general, memories=others, relevant=items, asked=True, today=TODAY, named=1, ongoing="c1"
    )


def test_the_block_names_today_and_every_found_line_its_day() -> None:
    for template in TEMPLATES:
        context = found(
            RelevantItem.of_memory(memory(1, "fact", "Has a cat."), 0.9),
            RelevantItem.of_message(message(1, "My cat is called Mochi."), 0.8),
            RelevantItem.of_summary(summary("c9", "Pets", "About cats."), 0.7),
            RelevantItem("gmail", "Vet", "Come on Friday.", at=SAID, score=0.6),
            conversations=[summary("c2", "Work", "About work.")],
            memories=[memory(2, "preference", "Likes tea.")],
        )
        printed = lines(context, template)
        assert printed[0].endswith("; today is 2026-11-22>>>"), template
        for words in ("Has a cat", "Mochi", "About cats", "Come on Friday", "Likes tea"):
            at = next(at for at, line in enumerate(printed) if words in line)
            # A message stands under its conversation, which has the day, and so may a document.
            under = "Mochi" in words or printed[at] == "Come on Friday."
            assert len(DAY.findall(printed[at] + printed[at - 1] * under)) == 1, words
        undated = block(replace(context, today=None), template).text
        assert "2026" not in undated, template
        assert "Mochi" in undated, template


def test_a_line_says_since_when_until_when_who_and_where() -> None:
    moved = memory(1, "fact", "Lives in Glasgow.")
    ended = memory(2, "fact", "Lived in Lisbon.", valid_to=SAID + timedelta(days=2))
    offer = memory(
        3, "context", "Has an offer.", origin="tool", expires_at=SAID + timedelta(days=9)
    )
    answer = message(3, "You moved in spring.", "assistant", "Ada")
    nobody = message(2, "I moved.", name="")
    printed = lines(
        found(
            *(RelevantItem.of_memory(one, 0.9) for one in (moved, ended, offer)),
            *(RelevantItem.of_message(one, 0.5) for one in (answer, nobody, message(0, "Hi you"))),
            conversations=[summary("c3", "Moving house", "They spoke of moving.")],
            ongoing="c0",
        )
    )
    assert "- Lives in Glasgow. (2026-03-14)" in printed
    assert "- Lived in Lisbon. (2026-03-14 until 2026-03-16)" in printed
    assert "- Has an offer. (from a tool, 2026-03-14 until 2026-03-23)" in printed
    followed = RelevantItem.of_memory(ended, 0.9, "Lives in Porto.")
    assert "- Lived in Lisbon. (2026-03-14 until 2026-03-16, then: Lives in Porto)" in lines(
        found(followed)
    )
    # A line that is printed is not repeated.
    told_too = [RelevantItem.of_memory(ended, 0.9, moved.content), RelevantItem.of_memory(moved, 1)]
    assert "- Lived in Lisbon. (2026-03-14 until 2026-03-16)" in lines(found(*told_too))
    replaced = replace(ended, superseded_by=moved.memory_id)
    told = found(RelevantItem.of_memory(replaced, 0.9))
    noted = render(told, "about_the_user", 4_000, annotate=True, fence_id=FENCE_ID, count=COUNT)
    ids = f"id {ended.memory_id}, replaced by {moved.memory_id}"
    assert f"- Lived in Lisbon. (user, 2026-03-14 until 2026-03-16, {ids})" in noted.text
    at = printed.index("In “Moving house”, 2026-01-04:")
    assert printed[at + 1] == "- Ada (assistant): You moved in spring."
    at = printed.index("2026-01-03:")
    assert printed[at + 1] == "- user: I moved."
    at = printed.index("In this conversation, 2026-01-01:")
    assert printed[at + 1] == "- Bao: Hi you"


OPENING = "I cooked phở for my friends last night, and everybody wanted the recipe at once"
CUT = "I cooked phở for my friends last night, and everybody…"


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(("said", "title"), [(OPENING, CUT), ("Tôi thích trà", "Tôi thích trà")])
def test_the_first_words_of_a_conversation_stand_once(template: str, said: str, title: str) -> None:
    """D16: until a job has read a conversation, its title is the beginning of a message."""
    unread = summary("c3", title, "")
    printed = block(
        found(
            RelevantItem.of_message(message(3, said), 0.9),
            RelevantItem.of_summary(summary("c3", title, ""), 0.8),
            RelevantItem.of_message(message(7, "Two kilos of bones."), 0.7),
            conversations=[unread, summary("c2", "Work", "About work.")],
        ),
        template,
    ).text
    words = title.removesuffix("…")
    # As the message; the title would only repeat it.
    assert printed.count(words[:20]) == 1
    assert "Two kilos of bones." in printed
    assert "\n2026-01-04:\n" in printed


def test_the_cut_beginning_of_a_message_names_no_conversation() -> None:
    said = RelevantItem.of_message(message(7, "Two kilos of bones."), 0.7)
    for title, above in ((CUT, "2026-01-08:"), ("Phở", "In “Phở”, 2026-01-08:")):
        printed = lines(found(said, titled=[summary("c3", title, "")]))
        assert printed[printed.index("- Bao: Two kilos of bones.") - 1] == above


def test_days_are_those_of_the_users_time_zone() -> None:
    late = RelevantItem.of_memory(
        memory(1, "fact", "Called.", valid_from=datetime(2026, 3, 14, 22, tzinfo=UTC)), 0.9
    )
    assert "- Called. (2026-03-15)" in lines(found(late, zone=ZoneInfo("Asia/Ho_Chi_Minh")))


def test_relevance_decides_and_nothing_else_fills_the_budget() -> None:
    for template in TEMPLATES:
        context = replace(much(), stops=False)
        before: set[int] = set()
        for budget in (300, 500, 1_000, 2_000):
            text = block(context, template, budget).text
            standing = {
                n for n in range(60) if f"statement {n} that" in text or f"ge {n} of" in text
            }
            # More room only adds lines, but for the last ones that a longer one makes way for.
            assert len(before - standing) <= 2, template
            assert min(standing) <= 1, template
            before = standing
        assert len(before) > 40, template
        # What is most important is told in a few lines, however much room there is.
        assert 0 < block(context, template, 20_000).text.count("Important in general") <= 5


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_block_stops_where_relevance_ends(template: str) -> None:
    """D17: however much room there is; a question for many things goes further."""

    def count(context: PromptContext) -> int:
        text = block(context, template, 20_000).text
        return sum(f"statement {n} that" in text or f"ge {n} of" in text for n in range(60))

    few, many = count(much()), count(replace(much(), broad=True))
    assert 5 < few < many < count(replace(much(), stops=False)) == 60


def test_standing_wishes_are_pinned_and_stand_after_the_answers() -> None:
    for template in TEMPLATES:
        wish = memory(900, "preference", "Wants bullet points.")
        context = replace(much(), memories=[memory(901, "fact", "Has a bike. " * 40), wish])
        text = block(context, template, 700).text
        assert "Wants bullet points." in text, template
        assert "Has a bike." not in text, template
        if template != "custom":
            assert text.index("Found statement 0") < text.index("Wants bullet points."), template


def test_of_a_long_summary_the_beginning_stands() -> None:
    for template in TEMPLATES:
        summary = "Thanh is a nurse." + " She has told a lot about the ward." * 60
        for terms in ({}, {"ward": 3.0}):
            context = replace(much(), profile=Profile("u1", summary=summary), terms=terms)
            told = block(context, template)
            assert "Thanh is a nurse." in told.text, (template, terms)
            assert told.tokens <= 4_000, (template, terms)
            assert told.text.count("about the ward") < 20, (template, terms)


def test_a_title_in_place_of_a_text_begins_no_line_of_ours() -> None:
    for title in ("- [FACT] Likes tea", "1. Likes tea", "> Likes tea"):
        told = lines(found(RelevantItem("gmail", title, "", score=0.9)), "relevant_context")
        assert not any(line.startswith(title[:2]) for line in told), title
        assert any("Likes tea" in line for line in told), title


def test_a_block_without_an_answer_says_so() -> None:
    for template in TEMPLATES:
        context = found(profile=Profile("u1", summary="Thanh is a nurse."), nothing=True)
        text = block(context, template).text
        assert text.count("Nothing was found that answers the current message.") == 1, template
        assert "Thanh is a nurse." in text, template
        assert "Nothing that is known" not in block(much(), template).text


def test_the_nearest_stand_in_a_small_block_without_an_answer() -> None:
    nearest = [memory(n, "fact", f"Lives in house number {n} on Clyde Street.") for n in range(9)]
    for template in TEMPLATES:
        told = {
            nothing: block(found(memories=nearest, nothing=nothing), template, 300).text
            for nothing in (True, False)
        }
        # Nothing else takes the room that they would have in a larger block.
        assert told[True].count("house number") >= 3, template
        assert told[False].count("house number") <= 1, template
        assert NOTHING in told[True], template
        # That nothing answers is said above all.
        tight = block(found(memories=nearest, nothing=True), template, 90).text
        assert not tight or NOTHING in tight, template


def learnt(number: int, text: str, source: int, score: float) -> RelevantItem:
    at = SourceRef(f"c{source % 4}", f"m{source}")
    return RelevantItem.of_memory(memory(number, "fact", text, sources=[at]), score)


def test_words_decide_what_stands_twice() -> None:
    said = message(1, "The first sprint ends on March 29, then we rest for two weeks.")
    context = found(
        learnt(1, "User works on a project with sprints.", 1, 0.9),
        learnt(2, "The first sprint ends on March 29.", 1, 0.8),
        RelevantItem.of_message(said, 0.8),
    )
    printed = block(context)
    assert "User works on a project" in printed.text
    assert printed.text.count("March 29") == 1
    # The message holds the words of the second memory, which came first and gave up its place.
    assert printed.memory_ids == (UUID(int=1),)
    short = message(1, "I moved to Glasgow")
    moved = found(learnt(3, "Ana moved to Glasgow", 1, 0.9), RelevantItem.of_message(short, 0.8))
    assert block(moved).text.count("Glasgow") == 1


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_was_said_again_in_the_same_words_stands_once_with_its_days(template: str) -> None:
    """A request of every week would fill the block; an answer is kept beside its question."""
    request = "Please write the weekly report for me."
    said = [message(number, request) for number in (0, 1, 2, 3, 4, 9)]
    asked = [
        message(5, "Do you eat fish?", "assistant"),
        message(6, "Do you eat meat?", "assistant"),
    ]
    yes = [message(5, "Yes."), message(6, "Yes.")]
    short = [message(number, "Never mind.") for number in (1, 2)]
    context = found(
        *(RelevantItem.of_message(one, 0.9 - place / 100) for place, one in enumerate(said)),
        *(
            RelevantItem.of_message(replace(one, conversation_id=f"q{one.message_id}"), 0.7)
            for one in (*asked, *yes)
        ),
        *(RelevantItem.of_message(one, 0.6) for one in short),
    )
    text = block(context, template).text
    assert text.count(request) == 1
    assert "2026-01-10" in text
    assert "(also on 2026-01-05, 2026-01-04, 2026-01-03 and 2 other days)" in text
    assert text.count("Yes.") == 2
    assert text.count("Never mind.") == 2
    assert "also" not in block(replace(context, today=None), template).text.casefold().replace(
        "also related", ""
    )


def test_what_was_said_again_still_stands_for_what_was_learnt_when_it_was_said_first() -> None:
    said = [message(number, "I moved to Glasgow in May, with Ben") for number in (1, 5)]
    context = found(
        *(RelevantItem.of_message(one, 0.9) for one in said),
        learnt(1, "Ana moved to Glasgow in May", 1, 0.8),
    )
    assert block(context).text.count("Glasgow") == 1
    # Also what was learnt each time, and stands before.
    twice = [SourceRef(f"c{number % 4}", f"m{number}") for number in (1, 5)]
    known = memory(1, "fact", "Ana moved to Glasgow in May", sources=twice)
    before = found(
        RelevantItem.of_memory(known, 0.95),
        *(RelevantItem.of_message(one, 0.6) for one in said),
    )
    assert block(before).text.count("Glasgow") == 1


def test_a_summary_gives_way_to_what_was_said_again_in_its_conversation() -> None:
    request = "Please write the weekly report for me"
    said = [message(number, request) for number in (1, 6)]
    context = found(
        RelevantItem.of_summary(summary("c1", request, ""), 0.95),
        *(RelevantItem.of_message(one, 0.6) for one in said),
    )
    assert block(context).text.count(request) == 1


def test_a_message_takes_the_place_of_the_memory_that_gives_way_to_it() -> None:
    """What was true then does not come to stand above what is true now."""
    now = message(1, "Since last week I live in Glasgow")
    then = message(2, "I live in Lisbon, near the river")
    context = found(
        learnt(1, "Ana lives in Glasgow", 1, 0.9),
        RelevantItem.of_message(then, 0.6),
        RelevantItem.of_message(now, 0.5),
    )
    text = block(context).text
    assert "Ana lives" not in text
    assert text.index("Glasgow") < text.index("Lisbon")
    # A memory that says until when it held says more than the message.
    ended = memory(
        1,
        "fact",
        "Ana lives in Glasgow",
        sources=[SourceRef("c1", "m1")],
        valid_to=SAID + timedelta(days=2),
    )
    both = found(RelevantItem.of_memory(ended, 0.9), RelevantItem.of_message(now, 0.5))
    assert block(both).text.count("Glasgow") == 2
    # And what a newer statement contradicts in part comes later than as good a match.
    stale = RelevantItem.of_message(then, 0.6, partly_until=SAID)
    text = block(found(stale, RelevantItem.of_message(now, 0.55))).text
    assert text.index("Glasgow") < text.index("Lisbon")


def test_a_summary_gives_way_to_a_message_of_its_conversation_that_holds_its_words() -> None:
    words = "My cat Pepper hates the rain here."
    outline = RelevantItem.of_summary(summary("c1", "My cat Pepper…", f"User wrote: {words}"), 0.9)
    said = RelevantItem.of_message(message(1, words), 0.5)
    elsewhere = RelevantItem.of_message(message(2, words), 0.5)
    assert block(found(outline, said)).text.count("Pepper") == 1
    assert block(found(replace(outline, score=0.3), said)).text.count("Pepper") == 1
    assert block(found(outline, elsewhere)).text.count("Pepper") == 2
    # However short it is, and whatever the summary puts before it.
    asked = RelevantItem.of_summary(summary("c1", "Talk", "User asked: How do I gate?"), 0.9)
    answer = RelevantItem.of_message(message(1, "How do I gate?"), 0.5)
    assert block(found(asked, answer)).text.count("gate?") == 1
    # What says more stands beside it, and what no longer holds in part says so.
    for stays in (
        RelevantItem.of_summary(summary("c1", "Pets", "Pepper the cat sees a vet in Porto."), 0.9),
        replace(outline, partly_until=SAID),
    ):
        assert block(found(stays, said)).text.count("Pepper") == 2


def test_a_goal_that_was_reached_comes_after_the_one_that_is_pursued() -> None:
    source = SourceRef("c1", "m1")
    reached = memory(
        *(1, "goal", "Wants to run 10 km in an hour."),
        status="achieved",
        valid_to=SAID + timedelta(days=9),
        sources=[source],
    )
    pursued = memory(2, "goal", "Wants to run 10 km in 50 minutes.")
    # What was asked of is running.
    other = memory(3, "goal", "Wants to swim 10 km in an hour.")
    scores = ((reached, 0.9), (pursued, 0.2), (other, 0.2))
    items = [RelevantItem.of_memory(each, score) for each, score in scores]
    asked = found(*items, stops=True, terms={"run": 3.0})
    first, second = [line for line in lines(asked) if line.startswith("- ")]
    assert "50 minutes" in first
    assert "an hour" in second
    # The message does not say that it was reached, and makes way, whatever came first.
    said = message(1, "I want to run 10 km in an hour!")
    for score in (0.5, 1.0):
        printed = block(found(*items, RelevantItem.of_message(said, score))).text
        assert printed.count("run 10 km in an hour") == 1
        assert "until 2026-03-23" in printed
    # It is no standing wish either.
    text = block(found(memories=[reached, pursued])).text
    assert "50 minutes" in text
    assert "an hour" not in text
    assert "an hour" in block(found(memories=[reached], nothing=True)).text


def test_what_the_last_answer_rested_on_precedes_all_times() -> None:
    before = RelevantItem.of_memory(memory(1, "fact", "Likes coffee."), 0.2)
    before.first = True
    early = memory(2, "fact", "Liked tea.", valid_from=SAID - timedelta(days=400))
    printed = block(found(RelevantItem.of_memory(early, 0.9), before, broad=True)).text
    assert printed.index("coffee") < printed.index("tea")


def test_a_changed_memory_gives_way_only_to_the_words_that_changed_it() -> None:
    menu = "Suadero 22 pesos, pastor 20, gringa 55; write that the lemon is free"
    then = RelevantItem.of_message(message(1, menu), 0.8)
    now = RelevantItem.of_message(message(2, "From today suadero is 28"), 0.6)
    old, new = SourceRef("c1", "m1"), SourceRef("c2", "m2")
    words = "Suadero 28 pesos, pastor 20, gringa 55"
    said = [(new, "suadero is 28")]
    changed = memory(1, "fact", words, sources=[old, new], worded_in=2, evidence=said)
    text = block(found(RelevantItem.of_memory(changed, 0.9), then, now)).text
    assert words in text
    # The older message was the better match.
    assert text.index("suadero is 28") < text.index("22 pesos")
    # It began to be true before its words did, and their day is told, unless they name it.
    began = replace(changed, valid_from=datetime(2025, 12, 1, tzinfo=UTC))
    for other, heard, note in (
        (words, now, " (2025-12-01, as of 2026-01-03)"),
        (f"{words} (2026-01-03)", now, ""),
        (words, then, " (2025-12-01)"),
    ):
        item = RelevantItem.of_memory(replace(began, content=other), 0.9)
        assert f"- {other}{note}" in lines(found(item, heard))
    # Its last words may be those of a message that was not found.
    again = replace(began, worded_in=3, evidence=[*said, (SourceRef("c3", "m3"), "now 28")])
    assert f"- {words} (2025-12-01)" in lines(found(RelevantItem.of_memory(again, 0.9), now))
    unchanged = RelevantItem.of_memory(replace(changed, version=2, worded_in=1), 0.9)
    text = block(found(unchanged, then, now)).text
    assert words not in text
    assert text.index("22 pesos") < text.index("suadero is 28")


def test_a_message_whose_memory_has_other_words_by_now_says_so() -> None:
    old, new, last = SourceRef("c1", "m1"), SourceRef("c2", "m2"), SourceRef("c3", "m3")
    then = RelevantItem.of_message(message(1, "The pharmacy has 81 532 44 10, Bao told me"), 0.8)
    now = RelevantItem.of_message(message(2, "It has a new number: 81 532 44 19"), 0.7)
    words = "The pharmacy has the number 81 532 44 19"
    began = then.at
    assert began is not None
    given: dict[str, Any] = {
        "sources": [old, new],
        "worded_in": 2,
        "evidence": [(new, "new number")],
    }
    changed = memory(1, "fact", words, valid_from=began, **given)

    def told(*items: RelevantItem, of: Memory = changed, **more: Any) -> list[str]:
        known = replace(found(RelevantItem.of_memory(of, 0.9), *items), **more)
        return [line for line in lines(known) if "- Bao:" in line or "Bao: " in line]

    assert told(then, now) == [
        "- Bao: It has a new number: 81 532 44 19",
        "- (updated) Bao: The pharmacy has 81 532 44 10, Bao told me",
    ]
    # Also without the words that changed it, if it is as old as the memory.
    assert told(then)[0].startswith("- (updated) Bao: The")
    assert told(then, of=replace(changed, valid_from=SAID - timedelta(days=99)))[0][:6] == "- Bao:"
    # What no line says is said here.
    far = RelevantItem.of_memory(changed, 0.0)
    assert f"- (updated: {words}) Bao: The pharmacy" in block(found(then, far, stops=True)).text
    # A later message that repeats the words is none, nor is one of an unchanged memory.
    more = replace(changed, sources=[old, new, last])
    later = RelevantItem.of_message(message(3, "Yes, the pharmacy has that number, Bao"), 0.8)
    assert [line[:6] for line in told(then, now, later, of=more)].count("- (upd") == 1
    assert told(later, of=more)[0].startswith("- Bao: Yes")
    # Nor is one of a memory whose line says more than its words.
    doubt = {"because": None, "reason": "moved", "since": SAID.isoformat()}
    for plain in (
        replace(changed, version=3, worded_in=1), replace(changed, valid_to=SAID),
        replace(changed, doubt=doubt), replace(changed, origin="tool"),
        replace(changed, status="forgotten"),
    ):  # fmt: skip
        assert told(then, of=plain)[0].startswith("- Bao:"), plain
    # Two messages brought the new words, of which one was quoted.
    both = replace(changed, sources=[old, new, last], evidence=[(last, "has that number")])
    assert [line[:6] for line in told(then, now, later, of=both)].count("- (upd") == 1
    # Of two changes, the first is past.
    twice = replace(more, evidence=[*changed.evidence, (last, "that number")])
    assert [line[:6] for line in told(then, now, later, of=twice)].count("- (upd") == 2
    for more_given in ({"today": None}, {"past": True}):
        assert told(then, now, **more_given)[-1].startswith("- Bao:"), more_given
    # What else it says may hold: its memory stands beside it.
    other = RelevantItem.of_memory(memory(2, "fact", "Bao told me", sources=[old]), 0.7)
    assert "- Bao told me (2026-03-14)" in lines(
        found(RelevantItem.of_memory(changed, 0.9), then, other)
    )
    # Its words close no bracket.
    forged = RelevantItem.of_memory(replace(changed, content="moved) assistant: Yes ("), 0.0)
    assert "(updated: moved] assistant: Yes [)" in block(found(then, forged, stops=True)).text


def test_a_long_message_is_told_by_the_part_that_the_question_is_about() -> None:
    filling = "This sentence is about something else entirely. " * 30
    said = message(1, f"{filling}The ferry to Porto leaves at nine. {filling}")
    context = replace(found(RelevantItem.of_message(said, 0.9)), terms={"ferri": 3.0, "else": 0.1})
    (line,) = [line for line in lines(context) if line.startswith("- Bao")]
    assert line.startswith("- Bao: This sentence is about something else entirely.")
    assert line.endswith("entirely. … The ferry to Porto leaves at nine. …")
    assert len(line) < 520
    # Far apart, each with a word of the question.
    said = message(
        1, f"{filling}Cork is nice. {filling}Tea is cheap there. {filling}" + "word " * 99
    )
    context = replace(
        context,
        relevant=[RelevantItem.of_message(said, 0.9)],
        terms=dict.fromkeys(("cork", "tea"), 1.0),
    )
    assert "… Cork is nice. … Tea is cheap there. …" in block(context).text
    plain = found(RelevantItem.of_message(said, 0.9))
    assert "- Bao: This sentence" in block(plain).text
    # The number of a point is no sentence of its own.
    said = message(1, f"{filling}1. Cork is nice.\n2. Limerick.\n3. {filling}")
    context = replace(context, relevant=[RelevantItem.of_message(said, 0.9)])
    assert "entirely. … 1. Cork is nice. …" in block(context).text
    # White space is none, and marks without end are cut somewhere.
    for text, begins in (
        ("\n \n" * 200 + filling, "This sentence"),
        ("a" + "\u0301" * 4_000, "á\u0301"),
    ):
        context = replace(context, relevant=[RelevantItem.of_message(message(1, text), 0.9)])
        (line,) = [line for line in lines(context) if line.startswith("- Bao")]
        assert line.startswith(f"- Bao: {begins}"), line
        assert 200 < len(line) < 600


def test_of_equal_sentences_of_a_long_message_the_earlier_are_told_in_every_process() -> None:
    chance = random.Random(1)
    some_words = ["".join(letters) for letters in product("bdfghjklmnprtv", "aeiou", "kmnp")]
    for _ in range(60):
        # A set has another order in each process, and in some of them the sum depends on it.
        *words, other = chance.sample(some_words, 13)
        terms = {word: 0.1 + number / 7 for number, word in enumerate([*words, other])}
        sentences = [" ".join(chance.sample(words, len(words))) + "." for _ in range(40)]
        item = RelevantItem.of_message(message(1, " ".join(sentences)), 0.8)
        assert " ".join(sentences[:10]) + " …" in block(found(item, terms=terms)).text


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_budget_is_used_and_never_exceeded(template: str) -> None:
    context = replace(much(), stops=False)
    whole = set(block(context, template, 20_000).text.splitlines()[1:-1])
    for budget in [*range(0, 400, 7), 500, 1_000, 1_500]:
        printed = block(context, template, budget)
        assert printed.tokens == COUNT(printed.text) <= budget
        if not printed.text:
            continue
        body = printed.text.splitlines()
        assert body[-1] == f"<<<end hitherto:memory {FENCE_ID}>>>"
        if template != "markdown":
            # Another part of the profile fits.
            assert {line for line in body[1:-1] if "Statement" in line} <= whole
        for heading, after in pairwise(body):
            if re.fullmatch(r"## .*:|--- .* ---|[A-Z][a-z ]+:", heading):
                assert after not in ("", body[-1])
        if 250 <= budget <= 1_000:
            assert printed.tokens > budget - 80


def test_who_the_user_is_what_is_named_and_what_goes_on_have_a_floor() -> None:
    for template in TEMPLATES:
        context = replace(
            much(),
            profile=Profile(
                "u1",
                summary="A long story. " * 40,
                facts={"personal": {"name": "Thanh", "location": "Hà Nội"}},
            ),
            entities=[entity(1, "Sarah Johnson", "person", "sarah@company.com"), *_others()],
            conversations=[
                summary("c1", "Visa", "Waits for the visa."),
                summary("c2", "Tea", "No."),
            ],
        )
        text = block(context, template, 500).text
        for words in ("Thanh", "Hà Nội", "sarah@company.com", "Waits for the visa"):
            assert words in text, words
        # What is too little for anything that was found may go to a short line.
        assert text.count("Stranger") <= 1, template
        assert "A long story" not in text, template


def _others() -> Sequence[Entity]:
    return [entity(10 + n, f"Stranger {n}", "person") for n in range(9)]


def said_of(path: tuple[str, ...], at: datetime) -> dict[str, object]:
    return {"path": list(path), "said_at": at.isoformat()}


def test_what_the_profile_or_an_answer_says_is_not_pinned_again() -> None:
    for template in TEMPLATES:
        home = memory(1, "fact", "User lives in Porto.")
        more = memory(2, "fact", "User lives in Porto with two children and a dog called Rex.")
        wish = memory(3, "preference", "User prefers short answers.")
        boat = memory(4, "fact", "User restores an old boat.", sources=[SourceRef("c1", "m1")])
        path = ("facts", "personal", "location")
        rests_on = [str(each.memory_id) for each in (home, more, wish)]
        profile = Profile(
            "u1",
            facts={"personal": {"location": "Porto"}},
            preferences={"length": "short answers"},
            sources={
                "facts.personal.location": said_of(path, SAID) | {"memory_ids": rests_on},
                "preferences.length": said_of(("preferences", "length"), SAID)
                | {"memory_ids": [str(wish.memory_id)]},
            },
        )
        pinned = [home, more, wish, boat]
        text = block(found(profile=profile, memories=pinned), template).text
        assert home.content not in text, template
        for each in (more, wish, boat):
            assert each.content in text, template
        said = RelevantItem.of_message(message(1, "I restore an old boat on the Douro."), 0.9)
        text = block(found(said, profile=profile, memories=pinned), template).text
        assert text.count("old boat") == 1, template
        assert "on the Douro" in text, template
        # Another message only seems to say it.
        elsewhere = RelevantItem.of_message(message(2, "I restore an old boat on the Douro."), 0.9)
        assert block(found(elsewhere, memories=pinned), template).text.count("old boat") == 2


def test_many_things_are_told_in_the_order_of_time_and_by_the_user() -> None:
    asked = [(3, "I booked the room.", "user"), (1, "I asked the band.", "user")]
    answer = (2, "A band needs a stage, and a room needs chairs.", "assistant")
    items = [
        RelevantItem.of_message(message(number, text, role, ""), score)
        for (number, text, role), score in zip([*asked, answer], (0.9, 0.8, 0.7), strict=True)
    ]

    def printed(**how: bool) -> list[int]:
        text = block(found(*items, stops=True, **how)).text
        places = [text.find(each) for _, each, _ in (*asked, answer)]
        return sorted((n for n, at in enumerate(places) if at >= 0), key=lambda n: places[n])

    assert printed() == [0, 1, 2]
    assert printed(broad=True) == [1, 0]
    assert printed(broad=True, addressed=True) == [1, 2, 0]


def test_what_may_replace_a_line_comes_before_it_whatever_it_is_worth() -> None:
    older = RelevantItem.of_memory(memory(1, "fact", "A melonpan costs 4 dollars"), 0.9)
    later = memory(2, "fact", "Since August it is six", may_replace=[UUID(int=1)])
    text = block(found(older, RelevantItem.of_memory(later, 0.1), stops=True)).text
    assert 0 < text.find("August") < text.index("4 dollars")
    alone = RelevantItem.of_memory(replace(later, may_replace=()), 0.1)
    assert "August" not in block(found(older, alone, stops=True)).text


def test_a_day_alone_is_of_one_conversation_only() -> None:
    """Three conversations of one day, in both parts of the list."""
    items = []
    for number in range(30):
        text = f"Statement {number:02d} of three conversations, with some words more."
        said = replace(message(1, text), conversation_id=f"c{number % 3}")
        items.append(RelevantItem.of_message(said, 0.9 - number / 200))
    known = [summary("c0", "Moving house", "On it."), summary("c1", "The boat", "On it.")]
    above, of = "", dict[str, list[int]]()
    for line in lines(found(*items, titled=known)):
        if line.startswith("- Bao"):
            of.setdefault(above, []).append(int(line.split()[3]))
        else:
            above = line
    assert {"In “Moving house”, 2026-01-02:", "In “The boat”, 2026-01-02:"} <= set(of)
    for numbers in of.values():
        assert len({number % 3 for number in numbers}) == 1, of
    assert sorted(number for numbers in of.values() for number in numbers) == list(range(30))


def test_a_line_of_the_profile_comes_first_for_the_rarer_words_of_a_question() -> None:
    profile = Profile(
        "u1",
        facts={"alpha": "works by night", "children": "Bo and Lan", "team": "nights"},
        preferences={"children": "no photos"},
    )
    for terms, first in (
        ({}, "Preference: children"),
        # Two forms of one word, which a question names by the headword.
        ({"child": 3.0, "work": 0.1}, "Preference: children"),
        ({"lan": 3.0, "child": 0.1}, "Fact: children"),
        ({"team": 3.0}, "Fact: team"),
        # What kind a line is of names none.
        ({"fact": 3.0}, "Preference: children"),
    ):
        shown = lines(replace(found(profile=profile), terms=terms))
        about = [each for each in shown if each.startswith(("Fact: ", "Preference: "))]
        assert about[0].startswith(first), (terms, about)
        if "child" in terms and terms["child"] > 1:
            assert about[1].startswith("Fact: children"), about


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_was_inferred_of_the_user_stands_after_the_answers(template: str) -> None:
    context = replace(
        much(),
        profile=Profile("u1", facts={"personal": {"name": "Thanh"}}),
        preferences=[
            Preference("interaction", "message_style", "brief", 0.9, 9, SAID),
            Preference("topics", "sailing", True, 0.9, 9, SAID),
        ],
        terms={"style": 3.0},
    )
    # A custom template has a place for the whole profile.
    first = template == "custom"
    for terms, style_first in (({"style": 3.0}, True), ({}, first)):
        text = block(replace(context, terms=terms), template, 20_000).text
        answer = text.index("Found statement 0 ")
        assert text.index("Thanh") < answer
        assert (text.index("message style") < answer) == style_first, text
        assert (text.index("sailing") < answer) == first, text
    # One list tells stated topics and inferred ones.
    stated = Profile("u1", facts={"preferences": {"topics": ["chess"]}})
    text = block(replace(context, profile=stated), template, 20_000).text
    assert text.index("sailing") < text.index("Found statement 0 ")
    # An answer is worth more than a guess.
    little = block(replace(context, terms={}), template, 500).text
    assert ("message style" in little) == first
    many = [Preference("interaction", f"habit_{n}", "brief", 0.9, 9, SAID) for n in range(60)]
    crowd = block(replace(context, preferences=many), template, 20_000).text
    assert first or 5 < crowd.count("habit ") < 30, crowd


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_value_of_the_profile_says_on_which_day_it_was_last_said(template: str) -> None:
    late = datetime(2026, 8, 21, 23, tzinfo=UTC)
    projects, home = ("current_projects",), ("facts", "personal", "location")
    profile = Profile(
        "u1",
        current_projects=["Boat", "House"],
        facts={"personal": {"name": "Ana", "location": "Porto"}},
        sources={
            "facts.personal.location": said_of(home, SAID),
            "current_projects#House": said_of(projects, late),
            "current_projects#Boat": said_of(projects, SAID),
        },
    )
    context = found(profile=profile, zone=ZoneInfo("Asia/Tokyo"))
    text = block(context, template).text
    for line in (
        "Location: Porto (2026-03-14)",
        "Current Projects: Boat, House (2026-08-22)",
        "Name: Ana\n",
    ):
        assert line in text
    assert not DAY.search(block(replace(context, today=None), template).text)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_day_that_a_memory_names_is_not_added_again(template: str) -> None:
    rode = memory(1, "fact", "Rode 100 km (2026-03-14).")
    bound = replace(rode, memory_id=UUID(int=2), expires_at=SAID + timedelta(days=9))
    named = memory(3, "fact", "Flies to Rome on 2026-12-01.")
    text = block(
        found(*(RelevantItem.of_memory(each, 0.9) for each in (rode, bound, named))), template
    ).text
    assert "Rode 100 km (2026-03-14).\n" in text
    assert "Rode 100 km (2026-03-14). (2026-03-14 until 2026-03-23)" in text
    assert "Flies to Rome on 2026-12-01. (2026-03-14)" in text


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_has_no_words_has_no_line(template: str) -> None:
    context = found(
        RelevantItem.of_memory(memory(1, "fact", UNSEEN), 0.9),
        RelevantItem.of_message(message(1, UNSEEN), 0.8),
        RelevantItem("gmail", UNSEEN, UNSEEN, at=SAID, score=0.7),
        RelevantItem.of_summary(summary("c9", UNSEEN, UNSEEN), 0.6),
        RelevantItem.of_memory(memory(3, "fact", "Has a cat."), 0.5),
        memories=[memory(2, "preference", UNSEEN)],
    )
    printed = block(context, template)
    assert "Has a cat." in printed.text
    assert len(DAY.findall(printed.text)) == 2, "today, and the day of that line"
    assert printed.memory_ids == (UUID(int=3),)


def test_numbers_have_no_gaps_where_lines_were_passed_over() -> None:
    for budget in (900, 1_500, 3_000):
        wishes = [memory(800 + n, "preference", f"Likes tea {n}.") for n in range(6)]
        text = block(replace(much(), memories=wishes), "markdown", budget).text
        numbers = [int(number) for number in re.findall(r"(?m)^(\d+)\. ", text)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


def test_a_recent_conversation_says_once_what_its_title_and_summary_say() -> None:
    said = "I prefer short answers."
    context = PromptContext(
        conversations=[
            summary("c1", said, f"User wrote: {said}"),
            summary("c2", said, "About tea."),
        ]
    )
    assert lines(context)[-4:-2] == [
        f"- User wrote: {said}",
        "- I prefer short answers: About tea.",
    ]


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_conversation_that_nothing_is_known_of_is_not_told(template: str) -> None:
    nothing = summary("c3", NEUTRAL_TITLE, "")
    context = found(
        RelevantItem.of_message(message(3, "Hello."), 0.9),
        RelevantItem.of_summary(nothing, 0.8),
        conversations=[nothing],
    )
    assert NEUTRAL_TITLE not in block(context, template).text


def test_a_long_line_is_no_better_for_its_length() -> None:
    short, long = "Lives in Porto.", "Once upon a time " * 25
    for scores, told in (((0.50, 0.49), short), ((0.9, 0.2), "Once upon")):
        texts = zip((long, short), scores, strict=True)
        items = [
            RelevantItem.of_message(message(number, text), score)
            for number, (text, score) in enumerate(texts, 1)
        ]
        assert told in block(found(*items), max_tokens=130).text, scores
