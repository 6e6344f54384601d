"""The budget: never exceeded, spent on the most useful, whole lines only (D2, contract)."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from hitherto_retrieval.render.block import TEMPLATES, render
from hitherto_retrieval.render.context import Block, PromptContext
from hitherto_retrieval.render.tokens import counter
from hitherto_shared.models import Profile
from tests.unit.render_samples import (
    FENCE_ID,
    SAID,
    entity,
    full_context,
    memory,
    nine_line_context,
    summary,
)

COUNT = counter("o200k_base")
CUSTOM_TEXT = "You know:\n{{profile}}\n{{memories}}\n{{relevant}}\n{{conversations}}\n{{entities}}"
HEADING = re.compile(
    r"## .*:|--- .* ---|\[ABOUT THE USER\]|Things to remember:|Related to .*:|Known entities:"
    r"|Recent conversations:"
)


def printed(context: PromptContext, template: str, max_tokens: int) -> Block:
    text = CUSTOM_TEXT if template == "custom" else ""
    return render(
        context, template, max_tokens, fence_id=FENCE_ID, custom_template=text, count=COUNT
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_budget_is_kept_and_every_fence_closed(template: str) -> None:
    context = full_context()
    whole = set(printed(context, template, 4000).text.splitlines()[1:-1])
    sizes: list[int] = []
    for budget in range(601):
        block = printed(context, template, budget)
        assert block.tokens == COUNT(block.text) <= budget
        sizes.append(block.tokens)
        if not block.text:
            assert block == Block()
            continue
        lines = block.text.splitlines()
        assert lines[0].startswith(f"<<<hitherto:memory {FENCE_ID}: ")
        assert lines[-1] == f"<<<end hitherto:memory {FENCE_ID}>>>"
        assert block.text.count("<<<") == block.text.count(">>>") == 2
        assert block.text.count(FENCE_ID) == 2
        assert set(lines[1:-1]) <= whole | {""}
        for heading, after in pairwise(lines):
            if HEADING.fullmatch(heading) and heading != "[ABOUT THE USER]":
                assert after
                assert HEADING.fullmatch(after) is None
                assert after != lines[-1]
        assert ("[ABOUT THE USER]" in lines) == ("[END ABOUT THE USER]" in lines)
    assert sizes[0] == 0
    assert sizes[-1] == printed(context, template, 4000).tokens > 300


def test_twenty_memories_cost_at_most_500_tokens() -> None:
    """B14, with memories of document 002's length."""
    texts = [one.content for one in nine_line_context().memories] * 3
    context = PromptContext(memories=[memory(n, "fact", texts[n]) for n in range(20)])
    block = printed(context, "about_the_user", 500)
    assert len(block.memory_ids) == 20
    assert block.tokens <= 500


def test_a_huge_profile_leaves_room_for_the_rest() -> None:
    facts = {f"key {n}": "value " * 10 for n in range(500)}
    context = PromptContext(
        profile=Profile("u1", summary="Who they are.", facts=facts),
        memories=[memory(n, "fact", f"Memory {n}.") for n in range(20)],
        conversations=[summary("c1", "Title", "Text.")],
        entities=[entity(1, "Sarah", "person")],
    )
    block = printed(context, "about_the_user", 1000)
    assert (len(block.memory_ids), block.conversation_ids) == (20, ("c1",))
    assert block.entity_ids
    assert "Summary: Who they are." in block.text
    assert block.tokens > 950


def test_one_over_long_memory_is_shortened_and_does_not_take_everything() -> None:
    long_text = "Đoạn rất dài. " * 600
    others = [memory(n, "fact", f"Memory {n}.") for n in range(2, 12)]
    block = printed(
        PromptContext(memories=[memory(1, "fact", long_text), *others]), "what_you_know", 1000
    )
    assert len(block.memory_ids) == 11
    first = next(line for line in block.text.splitlines() if "Đoạn" in line)
    assert first.endswith("…")
    assert 500 < len(first.encode()) <= 800
    assert [line for line in block.text.splitlines() if line.endswith("…")] == [first]


def test_ordinary_lines_are_never_cut() -> None:
    context = PromptContext(memories=[memory(n, "fact", "word " * 36) for n in range(9)])
    for budget in range(50, 400, 7):
        assert "…" not in printed(context, "about_the_user", budget).text, budget
    block = printed(PromptContext(memories=[memory(1, "fact", "word " * 400)]), "markdown", 150)
    assert "…" in block.text
    assert 100 < block.tokens <= 150


def test_no_line_tells_only_what_stands_around_a_memory() -> None:
    doubt = {"since": SAID.isoformat(), "reason": "she may have moved away since then " * 5}
    known = [memory(1, "fact", "word " * 400, origin="assistant", doubt=doubt, valid_to=SAID)]
    context = PromptContext(memories=known, today=SAID.date())
    for template in TEMPLATES:
        for budget in range(60, 240):
            block = printed(context, template, budget)
            assert ("word" in block.text) == bool(block.memory_ids)


def test_instructions_go_when_there_is_no_room_and_the_first_line_tells() -> None:
    context = nine_line_context()
    large = printed(context, "markdown", 4000).text
    assert large.count("## Instructions:\n") == 1
    assert "instructions only under" in large.splitlines()[0]
    small = printed(context, "markdown", 100).text
    assert "1. [preference]" in small
    assert "## Instructions:" not in small
