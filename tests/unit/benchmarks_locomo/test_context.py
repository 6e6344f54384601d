"""How much of the evidence stands in a block, and what naive lists of the same size hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks.locomo.blocks import (
    BLOCK,
    BUDGETS,
    COSINE,
    ContextFigures,
    Covered,
    GoldEvidence,
    NaiveLists,
    _shares,
)
from benchmarks.locomo.data import BenchmarkQuestion
from benchmarks.locomo.report import locomo_part
from benchmarks.report import BenchmarkResult, show_result
from benchmarks.serving import vectors_of
from hitherto_retrieval.render.tokens import counter
from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.unit.benchmarks_locomo.runs import run, scored

COUNT = counter("o200k_base")


def session(user: str = "ann") -> dict[str, Any]:
    said = [
        ("D1:1", "Ann", "I adopted a grey cat."),
        ("D1:2", "Bao", "What is she called?"),
        ("D1:3", "Ann", "Mochi. # She sleeps on the radiator."),
        ("D1:4", "Bao", "Nothing beats a warm radiator in winter."),
    ]
    return {
        "user_id": user,
        "messages": [
            {"id": key, "name": name, "content": text, "created_at": "2023-05-08T13:56:00+00:00"}
            for key, name, text in said
        ],
        "facts": [{"content": "Ann has a cat called Mochi.", "evidence": ["D1:1", "D1:3"]}],
        "summary": "Ann told Bao about her cat.",
    }


def question(*gold: str, text: str = "Where does the cat sleep?") -> BenchmarkQuestion:
    return BenchmarkQuestion("q", "ann", text, "single-hop", frozenset(gold))


@pytest.mark.parametrize(
    ("text", "share", "with_summaries"),
    [
        ("nothing of it", 0.0, 0.0),
        ("- 2023-05-08 Ann: I adopted a grey cat.", 1 / 3, 1 / 3),
        # As the block prints it.
        ("- Mochi. # She sleeps on the radiator.", 1 / 3, 1 / 3),
        ("- Ann has a cat called Mochi. (2023-05-08)", 2 / 3, 2 / 3),
        ("Ann has a cat called Mochi.\nI adopted a grey cat.", 2 / 3, 2 / 3),
        ("- Ann told Bao about her cat.", 0.0, 1.0),
    ],
)
def test_evidence_is_what_stands_in_the_text_itself_or_as_a_fact(
    text: str, share: float, with_summaries: float
) -> None:
    evidence = GoldEvidence([session(), session("somebody else")])
    found = evidence.covered(question("D1:1", "D1:2", "D1:3"), text)
    assert found == pytest.approx((share, with_summaries))


async def test_naive_lists_hold_the_best_until_they_are_full() -> None:
    one, asked = NaiveLists([session()]), question("D1:3", text="Does she sleep on the radiator?")
    assert one.by_words(asked)[0] == 2
    embedder = OfflineEmbedder()
    await one.embed(embedder)
    (vector,) = await vectors_of(embedder, [asked.text])
    assert one.by_cosine(np.asarray(vector))[0] == 2
    assert sorted(one.by_cosine(np.asarray(vector))) == [0, 1, 2, 3]
    text = one.printed([2, 0], 1_000, COUNT)
    assert text.splitlines() == [
        "- 2023-05-08 Ann: Mochi. # She sleeps on the radiator.",
        "- 2023-05-08 Ann: I adopted a grey cat.",
    ]
    first = text[: text.index("\n") + 1]
    assert one.printed([2, 0], COUNT(text) - 1, COUNT) == first
    assert one.printed([2, 0], 3, COUNT) == ""


def test_the_tokens_of_a_block_are_those_of_its_sections() -> None:
    block = (
        "<<<hitherto:memory 0123456789abcdef: data>>>\n[ABOUT THE USER]\nName: Ann\n"
        "Things to remember:\n- Has a cat.\n- Likes tea.\n[END ABOUT THE USER]\n"
        "<<<end hitherto:memory 0123456789abcdef>>>"
    )
    shares = _shares([block], COUNT)
    assert set(shares) == {"fence and headings", "profile", "things to remember"}
    assert sum(shares.values()) == pytest.approx(1)
    of_memories = COUNT("- Has a cat.\n- Likes tea.\n") / COUNT(f"{block}\n")
    assert shares["things to remember"] == pytest.approx(of_memories)


def test_blocks_are_printed_beside_the_naive_lists_and_held_against_the_bars(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = run(scored(1, 4), scored(1, 4), scored(1, 4))
    found = [Covered(1.0, 1.0)] * 3 + [Covered(0.5, 1.0)]
    measured.told = ContextFigures(
        covered={
            BLOCK: dict.fromkeys(BUDGETS, found),
            "naive BM25": dict.fromkeys(BUDGETS, [Covered(0.25, 0.25)] * 4),
        },
        tokens=dict.fromkeys(BUDGETS, 400.0),
        shares={budget: {"profile": 1.0} for budget in BUDGETS},
        dated=dict.fromkeys(BUDGETS, 0.5),
        says={
            BLOCK: dict.fromkeys(BUDGETS, [0.75] * 4),
            COSINE: {budget: [0.5, 0.75, 0.75, 0.75] for budget in BUDGETS},
        },
        default=[0.5] * 4,
        default_tokens=[100, 200, 300, 400],
        first={BLOCK: [True, True, False, False], COSINE: [False] * 4},
        nothing=1,
    )
    part = locomo_part(measured)
    assert part.figures["GetContext, 500 tokens"] == 0.875
    held = [bar for bar in part.bars if "evidence in" in bar.figure]
    assert [bar.met for bar in held] == [True, True, False, False]
    told = [bar for bar in part.bars if "told in" in bar.figure]
    assert [(bar.measured, bar.met) for bar in told] == [("0.0625", False)] * 3
    (first,) = [bar for bar in part.bars if "first 300" in bar.figure]
    assert (first.measured, first.met) == ("0.5000", False)
    assert part.figures["default block says"] == 0.5
    show_result(BenchmarkResult("locomo", [part]), Console(width=160))
    shown = capsys.readouterr().out
    assert "0.875 (" in shown
    assert "0.250 (" in shown
    assert "lines with a day" in shown
    assert "nothing was relevant for 1 of the questions" in shown
    assert part.scores["GetContext, 500 tokens"].above[3] == 0.5
    assert part.scores["GetContext with summaries, 500 tokens"].above[3] == 1.0
