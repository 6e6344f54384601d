"""Reading of a reply what ceases to hold, and nothing else."""

from __future__ import annotations

import json

import pytest

from hitherto_extraction.pipeline.answer import Answer, ClosedItem
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.provider.reply_text import UnusableAnswer


def read(**keys: object) -> Answer:
    return read_answer(json.dumps(keys), messages=["m1"], memories=["e1", "e2"], closing_only=True)


@pytest.mark.parametrize("by", [0, 7, -1, None, "m1", True, 1.5])
def test_whatever_a_reply_says_of_the_successor(by: object) -> None:
    answer = read(contradicted_memories=[{"id": "e1", "by": by, "reason": "moved"}])
    assert answer == Answer(
        new=[],
        updated=[],
        contradicted=[ClosedItem("e1", None, "moved", None)],
        achieved=[],
    )


def test_everything_else_is_passed_over_and_not_counted() -> None:
    answer = read(
        new_memories=[{"type": "fact", "content": "x"}, {"bad": 1}],
        updated_memories=[{"id": "e1", "content": "y"}],
        achieved_goals=[{"id": "e2"}],
        contradicted_memories=[],
        profile={"summary": "z"},
        conversation_summary={"title": "t"},
    )
    assert [item.memory for item in answer.achieved] == ["e2"]
    assert (answer.new, answer.updated, answer.profile, answer.summary) == ([], [], None, None)
    assert answer.dropped == 0


def test_ids_that_were_not_shown_are_dropped() -> None:
    answer = read(contradicted_memories=[{"id": "e9"}, {"id": "e1"}, {"id": "e1"}, "e2"])
    assert [item.memory for item in answer.contradicted] == ["e1"]
    assert answer.dropped == 3


def test_a_reply_without_an_answer_is_none() -> None:
    with pytest.raises(UnusableAnswer):
        read(anything=1)
