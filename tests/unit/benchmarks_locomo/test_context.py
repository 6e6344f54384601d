"""How much of the evidence stands in a block, and what naive lists of the same size hold."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.locomo.blocks import GoldEvidence
from benchmarks.locomo.data import BenchmarkQuestion


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
