"""The benchmark of retrieval quality, whole, on two small conversations (I6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.locomo.answers import ABLATIONS
from benchmarks.locomo.data import BenchmarkQuestion, Data
from benchmarks.locomo.measure import measure
from benchmarks.locomo.report import locomo_part
from benchmarks.serving import BenchmarkDatabase

_SAID = {
    "c1": (
        ("m1", "USER", "Linh", "I adopted a grey cat named Mochi last week."),
        ("m2", "ASSISTANT", "Bao", "Congratulations! How does she like the flat?"),
        ("m3", "USER", "Linh", "She sleeps on the radiator all day."),
    ),
    "c2": (
        ("m4", "USER", "Linh", "My brother Khoa opened a bakery in Huế."),
        ("m5", "ASSISTANT", "Bao", "What does he bake?"),
        ("m6", "USER", "Linh", "Mostly sourdough bread."),
    ),
}
_FACTS = {
    "c1": [{"content": "Linh adopted a grey cat named Mochi.", "evidence": ["m1"]}],
    "c2": [{"content": "Linh's brother Khoa opened a bakery in Huế.", "evidence": ["m4"]}],
}


def _session(name: str) -> dict[str, Any]:
    return {
        "user_id": "linh",
        "conversation_id": name,
        "messages": [
            {
                "id": message_id,
                "role": role,
                "name": speaker,
                "content": content,
                "created_at": f"2023-05-08T13:5{place}:00+00:00",
            }
            for place, (message_id, role, speaker, content) in enumerate(_SAID[name])
        ],
        "facts": _FACTS[name],
        "summary": "A talk between friends.",
    }


def _question(name: str, text: str, gold: str) -> BenchmarkQuestion:
    return BenchmarkQuestion(name, "linh", text, "single-hop", frozenset({gold}))


async def test_facts_and_messages_are_found_and_the_ranking_is_taken_apart(
    conninfo: str, tmp_path: Path
) -> None:
    data = Data(
        [_session("c1"), _session("c2")],
        [
            _question("q1", "What is the name of Linh's cat?", "m1"),
            _question("q2", "Who opened a bakery?", "m4"),
            _question("q3", "Where does the cat sleep, on the radiator?", "m3"),
        ],
    )
    async with asyncio.timeout(180):
        place = BenchmarkDatabase(conninfo, tmp_path)
        run = await measure(data, "offline", place)
    assert run.held == {
        "sessions": 2,
        "succeeded": 2,
        "summaries": 2,
        "messages": 6,
        "memories": 2,
        "with_sources": 2,
    }
    assert run.degraded == 0
    # Nothing learnt says where the cat sleeps; the message does.
    assert [score.recall_10 for score in run.scores["facts"]["balanced"]] == [1.0, 1.0, 0.0]
    assert run.scores["messages"]["balanced"][2].ndcg_10 == 1.0
    assert [score.recall_10 for score in run.scores["both"]["balanced"]] == [1.0, 1.0, 1.0]
    for corpus in ("facts", "messages"):
        asked = set(run.scores[corpus])
        assert asked >= {"balanced", "cosine alone", "keyword alone", "weighted"}
        assert asked >= {variant.name for variant in ABLATIONS}
    assert locomo_part(run).title == f"LoCoMo with {run.embedder}"
    # Everything that was said fits into 500 tokens.
    assert run.told is not None
    assert set(run.told.covered) == {"GetContext", "naive BM25", "naive cosine"}
    for of_list in run.told.covered.values():
        assert of_list[500] == [1.0, 1.0, 1.0]
    assert run.told.tokens[500] <= 500
