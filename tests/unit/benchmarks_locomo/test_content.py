"""What a text says of the answers: words decide, and a message counts only by its own line."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.locomo.content import AnsweringParts
from benchmarks.locomo.data import BenchmarkQuestion

LONG = (
    "Thank you for all the helpful advice about planning. The first sprint of the weather project "
    "ends on March 29, and then we have a review. Could you help me with the agenda?"
)


def session(*said: str) -> dict[str, Any]:
    return {
        "user_id": "ann",
        "messages": [{"id": f"m{n}", "content": text} for n, text in enumerate(said)],
        "facts": [{"content": "Ann's cat is called Mochi.", "evidence": ["m1"]}],
    }


def asked(gold: str, text: str, answer: str = "") -> BenchmarkQuestion:
    return BenchmarkQuestion("q", "ann", text, "any", frozenset([gold]), answer)


PARTS = AnsweringParts([session(LONG, "My cat Mochi loves the old radiator.", "Fine weather.")])
SPRINT = asked("m0", "When does the first sprint end?", "It ends on March 29.")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("- User works on a project with two-week sprints. (2024-03-01)", 0.0),
        ("- The first sprint of the weather project ends on March 29. (2024-03-01)", 1.0),
        ("In “Weather”, 2024-03-01:\n- user: …The first sprint of the weather project ends on "
         "March 29, and then we have a review.", 1.0),
        # Printed from the message, but another part of it.
        ("In “Weather”, 2024-03-01:\n- user: Thank you for all the helpful advice", 0.0),
        ("", 0.0),
    ],
)  # fmt: skip
def test_the_answering_part_is_told_or_not(text: str, share: float) -> None:
    assert PARTS.told(SPRINT, text) == share


def test_the_line_of_another_message_tells_nothing() -> None:
    same = "The first sprint of the weather project ends on March 29, and then we have a review."
    parts = AnsweringParts([session(LONG, "Mochi.", f"Quoting you: {same}")])
    assert parts.told(SPRINT, f"In “It”, 2024-03-01:\n- user: Quoting you: {same}") == 0.0
    assert parts.told(SPRINT, f"- {same} (2024-03-01)") == 1.0
