"""A kept block with another fence is the block that would be rendered anew."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hitherto_retrieval.render.block import TEMPLATES, fenced_again, render
from hitherto_retrieval.render.context import Block, PromptContext, RelevantItem
from hitherto_retrieval.render.tokens import CountTokens, counter, estimated_tokens
from hitherto_shared.models import Memory, Message, Summary
from tests.unit.render_samples import full_context, memory, summary

CUSTOM = "{{profile}}\n{{memories}}\n{{relevant}}\n{{conversations}}\n{{entities}}{{memories}}"
TEXTS = ("Tea, please.", "# Heading\nand more", "  [INST] do 東京", "word " * 150, "")
ZONES = (UTC, ZoneInfo("Asia/Tokyo"))
Item = Memory | Message | Summary


def things(chance: random.Random) -> list[Item]:
    made: list[Item] = []
    for number in range(40):
        text, conversation = chance.choice(TEXTS), f"c{number % 4}"
        at = datetime(2026, 1, 1, 20, tzinfo=UTC) + timedelta(days=number)
        if number % 3 == 0:
            fields: Mapping[str, Any] = {
                "status": chance.choice(("active", "achieved")),
                "origin": chance.choice(("user", "tool", "assistant")),
                "valid_from": at,
                "valid_to": chance.choice((None, at)),
            }
            made.append(memory(number + 1, "goal", text, **fields))
        elif number % 3 == 1:
            role = chance.choice(("user", "assistant"))
            name = chance.choice(("", "Bao", "assistant:"))
            made.append(Message(conversation, f"m{number}", role, name, text, at))
        else:
            made.append(summary(f"c{number}", chance.choice(("", "Title", "# x")), text))
    return made


def printed(item: Item, score: float) -> RelevantItem:
    if isinstance(item, Memory):
        return RelevantItem.of_memory(item, score)
    if isinstance(item, Message):
        return RelevantItem.of_message(item, score)
    return RelevantItem.of_summary(item, score)


def context(chance: random.Random, items: Sequence[Item]) -> PromptContext:
    """Some of the items as results, some in the general lists, in any style."""
    shown = chance.sample(items, chance.randrange(len(items)))
    return replace(
        full_context(),
        relevant=[printed(item, chance.random()) for item in shown],
        memories=[each for each in items if isinstance(each, Memory)][: chance.randrange(9)],
        conversations=[each for each in items if isinstance(each, Summary)][: chance.randrange(9)],
        asked=chance.random() < 0.8,
        ongoing=chance.choice((None, "c1")),
        today=chance.choice((None, date(2026, 11, 22))),
        zone=chance.choice(ZONES),
    )


@pytest.mark.parametrize("count", [estimated_tokens, counter("o200k_base")])
def test_a_block_with_another_fence_is_the_block_rendered_anew(count: CountTokens) -> None:
    """Over many sections, budgets, fences and days.

    The ids of fences have more or fewer tokens, so that the last line of a budget fits or not; one
    of them stands in the sections. Some templates begin with what merges with a fence.
    """
    chance = random.Random(3)
    items = things(chance)
    fences = [*(f"{chance.getrandbits(64):016x}" for _ in range(6)), "0" * 16, "Engineer"]
    fences.append("".join(fences)[:64])
    again = set()
    for _ in range(500):
        template, annotate = chance.choice(TEMPLATES), chance.random() < 0.5
        tokens = chance.choice((400, 800, 1_200, 5_000))
        dated = chance.random() < 0.5
        custom = chance.choice(("", "\n\n", "  ", "/ ")) + CUSTOM
        anew = replace(context(chance, items), relevant=(), asked=False, zone=chance.choice(ZONES))

        def block(fence_id: str, day: int) -> Block:
            return render(
                replace(anew, today=date(2026, 11, day) if dated else None),  # noqa: B023
                template,  # noqa: B023 - called at once
                tokens,  # noqa: B023
                annotate=annotate,  # noqa: B023
                fence_id=fence_id,
                custom_template=custom if template == "custom" else "",  # noqa: B023
                count=count,
            )

        first = block(chance.choice(fences), 9)
        fence_id, today = chance.choice(fences), date(2026, 11, 22) if dated else None
        fenced = fenced_again(first, fence_id, today, count)
        if fenced is not None:
            again.add((template, custom if template == "custom" else ""))
            assert fenced == block(fence_id, 22)
    assert len(again) == len(TEMPLATES) + 3
