"""I6: the extraction half of `make eval`, run through both services."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.command import heard_by
from benchmarks.extraction.report import extraction_result, notes
from benchmarks.extraction.rows import ConversationCase, Observation, choose, load
from benchmarks.extraction.run import EvaluationRun, run
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES, Verdict, add, judge_row, ratio
from benchmarks.report import read_result, show_result, write_result
from benchmarks.serving import BenchmarkDatabase
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory, quoting

CHOSEN = [
    "en-fact-nurse", "en-contradiction-lisbon-berlin", "en-goal-achieved-licence",
    "en-duplicate-vegan", "vi-duplicate-con-trai", "vi-sarcasm-ket-xe", "ja-unrelated-piano",
    "ja-small-talk-tenki",
]  # fmt: skip
AMOUNTS = {"input_tokens", "output_tokens", "usd", "usd_reference"}


@cache
def all_rows() -> dict[str, ConversationCase]:
    """All rows by their ids; read by who runs them, not by who collects this module."""
    return {row.id: row for row in load()}


@pytest.fixture
def place(conninfo: str, tmp_path: Path) -> BenchmarkDatabase:
    """A database and a folder of this test's own."""
    return BenchmarkDatabase(conninfo, tmp_path / "data")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Point the environment at a model, as a person who measures it would."""

    def point(model: ScriptedModel) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("HITHERTO_EMBEDDER", "offline")
        monkeypatch.setenv("HITHERTO_JOB_MAX_RETRIES", "0")

    return point


def judged(ran: EvaluationRun) -> dict[str, tuple[Observation, Verdict]]:
    return {seen.row.id: (seen, judge_row(seen, ran.nearness)) for seen in ran.observations}


def perfect(request: ChatRequest) -> ChatAnswer:
    """The answer that does all that the row asks for and nothing else."""
    (row,) = [
        row
        for row in all_rows().values()
        if row.transcript[0].content == request.messages[0].content
    ]
    return quoting(
        request,
        new_memories=[
            memory(
                item.says,
                [line.local_id for line in request.messages if line.role == "user"],
                type=item.types[0],
                importance=item.importance_min or 0.5,
            )
            for item in row.required
        ],
        updated_memories=[
            {"id": known, "content": f"{content} {' '.join(map(str, terms))}"}
            for known, content, terms in changed(row, request, "updated")
        ],
        contradicted_memories=[
            {"id": known, "by": 0} for known, _, _ in changed(row, request, "contradicted")
        ],
        achieved_goals=[
            {"id": known, "by": None} for known, _, _ in changed(row, request, "achieved")
        ],
    )


def changed(row: ConversationCase, request: ChatRequest, then: str) -> list[tuple[str, str, Any]]:
    """The local id, the text and the words of the memories that must fare so."""
    local = {shown.content: shown.local_id for shown in request.memories}
    return [
        (local[known.content], known.content, known.contains)
        for known in row.existing_memories
        if known.then == then
    ]


async def test_i6_a_perfect_model_scores_one_everywhere(
    place: BenchmarkDatabase, measured: Any
) -> None:
    async with ScriptedModel(perfect) as model:
        measured(model)
        ran = await run([all_rows()[name] for name in CHOSEN], place)
    assert [seen.error for seen in ran.observations] == [""] * len(CHOSEN)
    total = add(verdict.counts for _, verdict in judged(ran).values())
    for score in set(SCORES) - AMOUNTS:
        assert ratio(total, score) == (0.0 if score in LOWER_IS_BETTER else 1.0), score
    assert list(total["fates"]) == [7, 7]
    assert (ran.by.extractor, ran.by.prompt_version[:10]) == ("openai", "extraction")
    # What the model said it used, and what that costs; the scripted one says 100 and 20.
    assert list(total["input_tokens"]) == [100 * len(CHOSEN), len(CHOSEN)]
    assert not any("would cost" in line for line in notes(ran, total))


async def test_i6_a_row_that_fails_counts_as_failed_and_not_as_silent(
    place: BenchmarkDatabase, measured: Any
) -> None:
    async with ScriptedModel() as model:
        model.always(StatusFault(400))
        measured(model)
        ran = await run([all_rows()["en-small-talk-morning"], all_rows()["en-fact-nurse"]], place)
    total = add(verdict.counts for _, verdict in judged(ran).values())
    assert list(total["failed"]) == [2, 2]
    assert ratio(total, "silence") == 0.0
    assert ratio(total, "recall") == 0.0
    assert "2 rows failed, the first: en-small-talk-morning: " in "\n".join(notes(ran, total))


async def test_i6_the_offline_extractor_is_measured_as_it_is(
    place: BenchmarkDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = choose(list(all_rows().values()), categories=["contradiction", "small_talk"], limit=6)
    told: list[tuple[str, int, int]] = []
    with heard_by(lambda *seen: told.append(seen)):
        ran = await run(rows, place)
    assert told[-1] == ("extracting", len(rows), len(rows))
    found = judged(ran)
    assert ran.by.extractor == "offline"
    seen, verdict = found["en-contradiction-lisbon-berlin"]
    assert list(verdict.counts["fates"]) == [2, 2], [fate.after for fate in seen.fates]
    assert list(verdict.counts["recall"]) == [1, 1]
    assert seen.spent.estimated
    assert seen.spent.usd == 0
    # B14: at most 5 dollars for 1,000 conversations.
    assert 0 < seen.spent.usd_reference * 1000 < 5
    assert len(ran.blocks["en"].memories) >= 1
    assert 0 < ran.blocks["en"].prompt_tokens < 500
    verdicts = [verdict for _, verdict in found.values()]
    write_result(tmp_path / "a.json", extraction_result(ran, verdicts))
    result = read_result(tmp_path / "a.json", "extraction")
    assert [row["id"] for row in result.details["rows"]] == [row.id for row in rows]
    assert result.parts[0].figures["overall: silence"] == 1.0
    show_result(result, Console(width=140))
    shown = capsys.readouterr().out
    assert "would cost" in shown
    assert "small_talk" in shown
