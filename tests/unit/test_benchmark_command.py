"""The runner that all benchmarks share: exit codes, results, comparison."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from pydantic import ValidationError
from rich.console import Console

from benchmarks import BenchmarkFailed
from benchmarks.command import Benchmark, Skipped, add_counts, counting, run
from benchmarks.comparison import Difference, differences, show_differences
from benchmarks.extraction.report import row_scores
from benchmarks.report import BenchmarkResult, FigureTable, JudgedBar, ResultPart, read_result
from hitherto_client.errors import HithertoCallError
from hitherto_shared.config import SharedSettings


def result(**figures: float) -> BenchmarkResult:
    table = FigureTable("made", ("figure", "measured"), [("p50", f"{figures['p50']} ms"), None])
    bar = JudgedBar.limit("P0", "p50", figures["p50"], 1.0, "ms")
    return BenchmarkResult("made", [ResultPart("made", figures, [table], [bar], ["it was quick"])])


def benchmark(outcome: BenchmarkResult | Exception) -> Benchmark:
    async def measure(given: argparse.Namespace) -> BenchmarkResult:
        assert given.calls == 7
        step = counting("calling", 1)
        step()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Benchmark(
        name="made",
        description="",
        arguments=lambda parser: add_counts(parser, calls=(5, "how many")),
        measure=measure,
    )


def refused_settings() -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        SharedSettings.model_validate({"embedder": "oracle"})
    return raised.value


RESULT = result(p50=2.0, service=4.0)


def test_a_run_is_shown_and_written_and_its_tables_can_be_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    assert run(benchmark(RESULT), ["--calls", "7", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    for text in ("2.0 ms", "≤ 1 ms", "MISSED", "it was quick"):
        assert text in shown
    assert read_result(file, "made").parts[0].figures == {"p50": 2.0, "service": 4.0}
    assert run(benchmark(RESULT), ["tables", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "|  | figure | measured | bar |  |",
        "|---|---|---|---|---|",
        "| P0 | p50 | 2.00 ms | ≤ 1 ms | **missed** |",
        "",
        "| figure | measured |",
        "|---|---|",
        "| p50 | 2.0 ms |",
        "",
    ]


def test_a_run_without_figures_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    for outcome, code, said in [
        (BenchmarkFailed("the service did not come up"), 1, "made: the service did not come up"),
        (
            HithertoCallError(grpc.StatusCode.UNAVAILABLE, "it is gone"),
            1,
            "made: a call failed: UNAVAILABLE: it is gone",
        ),
        (ValueError("no such row"), 2, "made: no such row"),
        (refused_settings(), 2, "HITHERTO_EMBEDDER"),
        (Skipped("set DATA_DIR"), 0, "made: skipped: set DATA_DIR"),
    ]:
        assert run(benchmark(outcome), ["--calls", "7"]) == code
        shown = capsys.readouterr()
        assert said in shown.out + shown.err


# Two results side by side.


def scored(recall: list[tuple[int, int]]) -> BenchmarkResult:
    counts = [{"recall": pair, "traps": (pair[1] - pair[0], 1)} for pair in recall]
    scores = {
        name: score
        for name, score in (row_scores(counts) if counts else {}).items()
        if name in ("recall", "traps")
    }
    rows = [f"r{number}" for number in range(len(recall))]
    return BenchmarkResult("extraction", [ResultPart("m", {}, rows=rows, scores=scores)])


def compared(before: BenchmarkResult, after: BenchmarkResult) -> list[Difference]:
    return list(differences(before.parts[0], after.parts[0]).values())


def test_a_clear_difference_is_called_better_or_worse_by_what_is_good() -> None:
    before, after = scored([(0, 1)] * 40), scored([(1, 1)] * 36 + [(0, 1)] * 4)
    recall, traps = compared(before, after)
    assert (recall.before, recall.after) == (0.0, 0.9)
    assert 0.75 < recall.low <= 0.9 <= recall.high <= 1.0
    assert (recall.verdict, traps.verdict) == ("better", "better")
    assert {item.verdict for item in compared(after, before)} == {"worse"}


def test_one_row_of_many_proves_nothing() -> None:
    before, after = scored([(1, 2)] * 20), scored([(2, 2)] + [(1, 2)] * 19)
    recall = compared(before, after)[0]
    assert recall.delta == pytest.approx(0.025)
    assert recall.verdict == "unclear"


def test_a_run_does_not_differ_from_itself_and_the_interval_is_the_same_every_time() -> None:
    run = scored([(1, 1), (0, 1), (1, 2)])
    assert all(item.verdict == "same" for item in compared(run, run))
    other = scored([(0, 1), (0, 1), (2, 2)])
    assert compared(run, other) == compared(run, other)


def test_only_rows_of_both_runs_count(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = scored([(1, 1)] * 3), scored([(1, 1), (0, 1)])
    assert compared(before, after)[0].before == 1.0
    show_differences(before, after, Console(width=120))
    shown = capsys.readouterr().out
    assert "1 rows stand in one run only" in shown
    assert "1 rows lost: r1" in shown
    with pytest.raises(ValueError, match="none of their rows in common"):
        compared(before, scored([]))


def test_sigterm_ends_what_a_run_started(tmp_path: Path) -> None:
    """As Ctrl-C does: a database would stay behind."""
    program = (
        "import asyncio, pathlib, sys\n"
        "from benchmarks.command import Benchmark, main\n"
        "async def measure(given):\n"
        "    try:\n"
        "        print('begun', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "    finally:\n"
        "        pathlib.Path(sys.argv[-1]).touch()\n"
        "main(Benchmark('made', '', lambda parser: parser.add_argument('left'), measure))\n"
    )
    left = tmp_path / "left"
    command = [sys.executable, "-c", program, str(left)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        assert process.wait(120) == 1
    assert left.exists()
