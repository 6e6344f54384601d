"""The judge's answer is untrusted; the question shows what is to be judged and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_extraction.config import ExtractionSettings
from tests.lazily import Lazily
from tests.scripted_model import ChatAnswer, ScriptedModel, StatusFault
from tests.unit.evaluation.observations import observed, row, seen

if TYPE_CHECKING:
    from benchmarks.extraction import judge
else:
    judge = Lazily("benchmarks.extraction.judge")

HOME = row(
    "I live in Porto.",
    expected=[{"types": ["fact"], "contains": ["Porto"], "says": "The user lives in Porto."}],
)
SEEN = observed(HOME, seen("Resides in Porto."), seen("Owns a boat."))


def reply(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}}]}


def test_an_answer() -> None:
    answer = {"matches": [["e0", "m0"], ["e9", "m0"], ["e0", "m7"]], "unsupported": ["m1", "m8"]}
    opinion = judge.read_opinion(reply(json.dumps(answer)), 1, 2)
    assert opinion is not None
    assert opinion.matches == {(0, 0)}
    assert opinion.supported == {0: True, 1: False}


@pytest.mark.parametrize(
    "body",
    [
        {},
        reply(None),
        reply("yes"),
        reply("[]"),
        reply('{"matches": [["e0"]]}'),
        reply('{"unsupported": 3}'),
    ],
)
def test_no_answer(body: dict[str, Any]) -> None:
    assert judge.read_opinion(body, 1, 1) is None


async def test_a_judge_is_asked_once_a_row_and_an_outage_leaves_the_rules_alone() -> None:
    answer = ChatAnswer.of(matches=[["e0", "m0"]], unsupported=["m1"])
    async with ScriptedModel(lambda _: answer) as model:
        settings = ExtractionSettings(openai_base_url=model.base_url)
        async with judge.judging("referee", settings) as ask:
            opinion, empty = await ask(SEEN), await ask(observed(HOME))
            assert opinion is not None
            assert opinion.supported == {0: True, 1: False}
            assert empty is not None
            assert model.calls["chat"] == 1
            assert model.chat_requests[0].model == "referee"
            assert "Resides in Porto." in model.chat_requests[0].user
            model.always(StatusFault(500))
            assert await ask(SEEN) is None


async def test_without_a_server_there_is_no_judge() -> None:
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        async with judge.judging("referee", ExtractionSettings()):
            pass


def test_the_question() -> None:
    asked = json.loads(judge.question(SEEN))
    assert asked["expected"] == {"e0": "The user lives in Porto."}
    assert asked["learnt"] == {"m0": "Resides in Porto.", "m1": "Owns a boat."}
