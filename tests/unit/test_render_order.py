"""What stands in the block for a question, and in which order: relevance decides (D16)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from hitherto_retrieval.render.block import TEMPLATES
from hitherto_retrieval.render.context import RelevantItem
from hitherto_retrieval.render.layouts import NOTHING
from hitherto_shared.models import Preference, Profile
from tests.unit.render_samples import (
    COUNT,
    FENCE_ID,
    SAID,
    entity,
    fact,
    found,
    heard,
    lines,
    memory,
    much,
    of_message,
    rendered,
    summary,
    told,
)


def found_in(text: str) -> set[int]:
    """Which of `much` stand in the block."""
    return {n for n in range(60) if f"statement {n} that" in text or f"ge {n} of" in text}


@pytest.mark.parametrize("template", TEMPLATES)
def test_relevance_decides_and_nothing_else_fills_the_budget(template: str) -> None:
    context = replace(much(), stops=False)
    before: set[int] = set()
    for budget in (300, 500, 1_000, 2_000):
        standing = found_in(rendered(context, template, budget).text)
        # More room only adds lines, but for the last ones that a longer one makes way for.
        assert len(before - standing) <= 2, budget
        assert min(standing) <= 1, budget
        before = standing
    assert len(before) > 40
    # What is most important is told in a few lines, however much room there is.
    assert 0 < rendered(context, template, 20_000).text.count("Important in general") <= 5


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_block_stops_where_relevance_ends(template: str) -> None:
    """D17: however much room there is; a question for many things goes further."""
    few, many, all_of_them = (
        len(found_in(rendered(context, template, 20_000).text))
        for context in (much(), replace(much(), broad=True), replace(much(), stops=False))
    )
    assert 5 < few < many < all_of_them == 60


@pytest.mark.parametrize("template", TEMPLATES)
def test_standing_wishes_are_pinned_and_stand_after_the_answers(template: str) -> None:
    wish = memory(900, "preference", "Wants bullet points.")
    context = replace(much(), memories=[memory(901, "fact", "Has a bike. " * 40), wish])
    text = rendered(context, template, 700).text
    assert wish.content in text
    assert "Has a bike." not in text
    assert template == "custom" or text.index("Found statement 0") < text.index(wish.content)


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_is_most_important_is_left_to_the_answers_only_where_they_say_it(
    template: str,
) -> None:
    """Whether it is a weak answer itself, or learnt from one: it stands once, and never not."""
    allergy = memory(900, "fact", "Is allergic to peanuts.")
    nurse = memory(901, "fact", "Ana is a nurse in Porto.", sources=[of_message(70)])
    weak = [RelevantItem.of_memory(allergy, 0.2), heard(70, "I am a nurse in Porto, you know", 0.2)]
    context = found(*much().relevant, *weak, memories=[allergy, nurse])
    for budget in (1_000, 1_200, 1_600, 20_000):
        text = rendered(context, template, budget).text
        assert (text.count("allergic"), text.count("nurse")) == (1, 1), budget
    assert "Ana is" not in text
    assert "allergic" in rendered(replace(context, memories=[allergy]), template, 500).text
    # It takes no line of those that nothing else says.
    others = [memory(910 + n, "fact", f"Has {n} cats.") for n in range(5)]
    text = rendered(replace(context, memories=[*others, allergy]), template, 1_600).text
    assert text.count("cats") == 5


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_block_without_an_answer_says_so(template: str) -> None:
    context = found(profile=Profile("u1", summary="Thanh is a nurse."), nothing=True)
    text = rendered(context, template).text
    assert text.count("Nothing was found that answers the current message.") == 1
    assert "Thanh is a nurse." in text
    assert "Nothing that is known" not in rendered(much(), template).text


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_nearest_stand_in_a_small_block_without_an_answer(template: str) -> None:
    nearest = [memory(n, "fact", f"Lives in house number {n} on Clyde Street.") for n in range(9)]
    unanswered = found(memories=nearest, nothing=True)
    # Nothing else takes the room that they would have in a larger block.
    text = rendered(unanswered, template, 300).text
    assert text.count("house number") >= 3
    assert NOTHING in text
    assert rendered(found(memories=nearest), template, 300).text.count("house number") <= 1
    # In their order, whoever stated them: the lines say so.
    tool = memory(9, "fact", "Lives in house number 9 on Clyde Street.", origin="tool")
    wish = memory(10, "preference", "Wants a house number 10 of brass.")
    text = rendered(found(memories=[tool, *nearest[:3], wish], nothing=True), template, 500).text
    assert re.findall("house number ([0-9]+)", text) == ["9", "0", "1", "2", "10"]
    assert "(from a tool, " in text
    # That nothing answers is said above all.
    tight = rendered(unanswered, template, 90).text
    assert not tight or NOTHING in tight


def test_what_the_last_answer_rested_on_precedes_all_times() -> None:
    before = replace(fact(1, "Likes coffee.", 0.2), first=True)
    early = fact(2, "Liked tea.", 0.9, valid_from=SAID - timedelta(days=400))
    text = told(early, before, broad=True)
    assert text.index("coffee") < text.index("tea")


CHANGED = fact(
    *(3, "Pays 28 pesos, once 22 pesos, for suadero, pastor and gringa", 0.9),
    sources=[of_message(1), of_message(2)],
    worded_in=2,
    evidence=[(of_message(2), "28 pesos")],
)


def test_what_the_last_answer_rested_on_precedes_what_is_better_or_newer() -> None:
    before = replace(fact(1, "Likes coffee.", 0.2), first=True)
    text = told(fact(2, "Likes tea.", 0.9), before)
    assert text.index("coffee") < text.index("tea")
    then, now = heard(1, "It costs 22 pesos.", 0.2), heard(2, "It costs 28 pesos.", 0.8)
    text = told(CHANGED, replace(then, first=True), now)
    assert text.index("costs 22") < text.index("costs 28")


def test_of_the_messages_of_a_memory_the_newest_comes_first_beside_a_pair_too() -> None:
    pair = (
        fact(1, "A melonpan costs 4 dollars", 0.7),
        fact(2, "It is six", 0.6, may_replace=[UUID(int=1)]),
    )
    then, now = heard(1, "It costs 22 pesos.", 0.8), heard(2, "It costs 28 pesos.", 0.5)
    text = told(CHANGED, then, now, *pair)
    assert text.index("is six") < text.index("4 dollars")
    assert text.index("costs 28") < text.index("costs 22")


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ({}, "room band chairs"),
        ({"broad": True}, "band room"),
        ({"broad": True, "addressed": True}, "band chairs room"),
    ],
    ids=["one thing", "many", "many, of the assistant"],
)
def test_many_things_are_told_in_the_order_of_time_and_by_the_user(
    asked: dict[str, bool], order: str
) -> None:
    text = told(
        heard(3, "I booked the room.", 0.9, name=""),
        heard(1, "I asked the band.", 0.8, name=""),
        heard(2, "A stage is needed, and some chairs.", 0.7, "assistant", ""),
        stops=True,
        **asked,
    )
    assert re.findall("room|band|chairs", text) == order.split()


def test_what_may_replace_a_line_comes_before_it_whatever_it_is_worth() -> None:
    older = fact(1, "A melonpan costs 4 dollars", 0.9)
    later = fact(2, "Since August it is six", 0.1, may_replace=[UUID(int=1)])
    text = told(older, later, stops=True)
    assert 0 < text.find("August") < text.index("4 dollars")
    assert "August" not in told(older, fact(2, "Since August it is six", 0.1), stops=True)


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
        text = rendered(replace(context, terms=terms), template, 20_000).text
        answer = text.index("Found statement 0 ")
        assert text.index("Thanh") < answer
        assert (text.index("message style") < answer) == style_first, text
        assert (text.index("sailing") < answer) == first, text
    # One list tells stated topics and inferred ones.
    stated = Profile("u1", facts={"preferences": {"topics": ["chess"]}})
    text = rendered(replace(context, profile=stated), template, 20_000).text
    assert text.index("sailing") < text.index("Found statement 0 ")
    # An answer is worth more than a guess.
    little = rendered(replace(context, terms={}), template, 500).text
    assert ("message style" in little) == first
    many = [Preference("interaction", f"habit_{n}", "brief", 0.9, 9, SAID) for n in range(60)]
    crowd = rendered(replace(context, preferences=many), template, 20_000).text
    assert first or 5 < crowd.count("habit ") < 30, crowd


@pytest.mark.parametrize(
    ("of_long", "of_short", "shown"), [(0.50, 0.49, "Lives in Porto."), (0.9, 0.2, "Once upon")]
)
def test_a_long_line_is_no_better_for_its_length(
    of_long: float, of_short: float, shown: str
) -> None:
    items = heard(1, "Once upon a time " * 25, of_long), heard(2, "Lives in Porto.", of_short)
    assert shown in rendered(found(*items), max_tokens=130).text


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_budget_is_used_and_never_exceeded(template: str) -> None:
    context = replace(much(), stops=False)
    whole = set(rendered(context, template, 20_000).text.splitlines()[1:-1])
    for budget in [*range(0, 400, 7), 500, 1_000, 1_500]:
        printed = rendered(context, template, budget)
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


@pytest.mark.parametrize("template", TEMPLATES)
def test_who_the_user_is_what_is_named_and_what_goes_on_have_a_floor(template: str) -> None:
    named = {"personal": {"name": "Thanh", "location": "Hà Nội"}}
    strangers = [entity(10 + n, f"Stranger {n}", "person") for n in range(9)]
    context = replace(
        much(),
        profile=Profile("u1", summary="A long story. " * 40, facts=named),
        entities=[entity(1, "Sarah Johnson", "person", "sarah@company.com"), *strangers],
        conversations=[summary("c1", "Visa", "Waits for the visa."), summary("c2", "Tea", "No.")],
    )
    text = rendered(context, template, 500).text
    for words in ("Thanh", "Hà Nội", "sarah@company.com", "Waits for the visa"):
        assert words in text
    # What is too little for anything that was found may go to a short line.
    assert text.count("Stranger") <= 1
    assert "A long story" not in text
