"""The runner that all benchmarks share: exit codes, results, comparison."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import BenchmarkFailed
from benchmarks.command import Benchmark, Progress, Skipped, add_counts, counting, run
from benchmarks.comparison import by_name
from benchmarks.throughput.__main__ import BENCHMARK as THROUGHPUT


def named(found: Mapping[str, Any]) -> dict[str, float]:
    return {"p50 ms": found["p50"], **{f"of {name}": cost for name, cost in found["cpu"].items()}}


def benchmark(outcome: Mapping[str, Any] | Exception) -> Benchmark[Mapping[str, Any]]:
    async def measure(given: argparse.Namespace, progress: Progress) -> Mapping[str, Any]:
        assert given.calls == 7
        step = counting(progress, "calling", 1)
        step()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def show(found: Mapping[str, Any], console: Console) -> None:
        console.print(f"p50 is {found['p50']}")

    return Benchmark(
        name="made",
        description="",
        arguments=lambda parser: add_counts(
            parser, argparse.Namespace(calls=5), {"calls": "how many"}
        ),
        measure=measure,
        show=show,
        figures=dict,
        compare=by_name(named),
    )


RESULT = {"p50": 2.0, "cpu": {"service": 4.0}}


def test_a_run_is_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert run(benchmark(RESULT), ["--calls", "7", "--json", str(file)]) == 0
    assert "p50 is 2.0" in capsys.readouterr().out
    assert json.loads(file.read_text("utf-8")) == RESULT


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (BenchmarkFailed("the service did not come up"), 1, "made: the service did not come up"),
        (ValueError("no such row"), 2, "made: no such row"),
        (Skipped("set DATA_DIR"), 0, "made: skipped: set DATA_DIR"),
    ],
)
def test_a_run_without_figures_says_why(
    outcome: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(benchmark(outcome), ["--calls", "7"]) == code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err


def test_an_amount_is_at_least_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run(benchmark(RESULT), ["--calls", "0"])
    assert raised.value.code == 2
    assert "at least 1" in capsys.readouterr().err


def test_results_without_rows_are_compared_by_what_both_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, other = (str(tmp_path / name) for name in ("a", "b", "other"))
    Path(a).write_text(json.dumps(RESULT), "utf-8")
    Path(b).write_text(json.dumps({"p50": 3.0, "cpu": {"database": 1.0}}), "utf-8")
    Path(other).write_text("[1]", "utf-8")
    assert run(benchmark(RESULT), ["compare", a, b]) == 0
    shown = capsys.readouterr().out
    assert "1.50" in shown
    assert "2 figures stand in one result only" in shown
    for command in (benchmark(RESULT), THROUGHPUT):
        assert run(command, ["compare", a, other]) == 2
        assert "no result of this version" in capsys.readouterr().err
