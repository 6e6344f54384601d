"""How the P5 benchmark makes figures of what it saw."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from benchmarks.model_server import ModelEndpoint
from benchmarks.report import LOAD_BEFORE
from benchmarks.throughput.driver import MESSAGES, request
from benchmarks.throughput.report import (
    FloorFigures,
    LatencyPercentiles,
    ResidentMemory,
    ThroughputReport,
)
from benchmarks.throughput.report import show as print_tables
from benchmarks.watching import Sample
from benchmarks.words import vector
from hitherto_extraction.pipeline.answer_parsing import read_answer

MIB = 2**20

REPORT = ThroughputReport(
    transcripts=20_000,
    users=5_000,
    services=1,
    in_flight=32,
    per_second=70.0,
    cpu_ms={"service": 10.0, "postgres": 7.0, "model": 1.0, "driver": 1.0},
    calls={"chat": 20_000, "embeddings": 20_000},
    latency_ms=LatencyPercentiles(500.0, 700.0),
    idle_start_ms=LatencyPercentiles(2.0, 3.0),
    idle_end_ms=LatencyPercentiles(30.0, 40.0),
    memory_mib=ResidentMemory(start=100.0, warm=110.0, end=111.0, per_1000=0.05),
    floor=FloorFigures(calls=1_000, per_second=900.0, cpu_ms=0.5),
    machine={"python": "3.11"},
)


def printed(report: ThroughputReport) -> str:
    out = io.StringIO()
    print_tables(report, Console(file=out, width=120))
    return out.getvalue()


@pytest.mark.parametrize(("load", "judged"), [(1.0, True), (1.01, False), (8.0, False)])
def test_a_busy_machine_is_held_to_no_bar_and_says_so(load: float, *, judged: bool) -> None:
    slow = replace(REPORT, per_second=1.0, machine={"cores": 2, LOAD_BEFORE: load})
    told = printed(slow)
    assert ("MISSED" in told, " met " in told) == (judged, judged)
    assert ("no bars: the load average" in told) is not judged
    assert "≥ 70" in told


def test_a_run_within_the_bars_misses_none() -> None:
    assert REPORT.times_the_floor == 20.0
    assert "MISSED" not in printed(REPORT)
    assert printed(REPORT).count(" met ") == 7


@pytest.mark.parametrize(
    "worse",
    [
        replace(REPORT, cpu_ms={**REPORT.cpu_ms, "service": 12.1}),
        replace(REPORT, cpu_ms={**REPORT.cpu_ms, "postgres": 7.1}),
        replace(REPORT, per_second=69.9),
        replace(REPORT, calls={"chat": 20_001, "embeddings": 20_000}),
        replace(REPORT, calls={"chat": 20_000, "embeddings": 19_999}),
        replace(REPORT, idle_start_ms=LatencyPercentiles(50.1, 60.0)),
        replace(
            REPORT, memory_mib=ResidentMemory(start=100.0, warm=110.0, end=130.0, per_1000=1.0)
        ),
    ],
)
def test_a_run_beyond_a_bar_says_so(worse: ThroughputReport) -> None:
    assert printed(worse).count("MISSED") == 1


def test_a_short_run_is_not_judged_by_its_memory() -> None:
    short = replace(REPORT, transcripts=100, calls={"chat": 100, "embeddings": 100})
    grown = replace(
        short, memory_mib=ResidentMemory(start=10.0, warm=20.0, end=90.0, per_1000=700.0)
    )
    assert "MISSED" not in printed(grown)


def test_memory_is_compared_from_a_tenth_of_the_load_on() -> None:
    samples = [
        Sample(0, 50 * MIB),
        Sample(99, 60 * MIB),
        Sample(100, 80 * MIB),
        Sample(600, 82 * MIB),
        Sample(1_000, 84 * MIB),
    ]
    memory = ResidentMemory.of(samples, 1_000)
    assert (memory.start, memory.warm, memory.end) == (50.0, 80.0, 84.0)
    assert memory.growth_percent == pytest.approx(5.0)
    assert memory.per_1000 == pytest.approx(4 / 0.9, abs=0.01)


def test_the_spread_of_times() -> None:
    assert LatencyPercentiles.of([float(n) for n in range(1, 101)]) == LatencyPercentiles(
        50.5, 95.0
    )
    assert LatencyPercentiles.of([7.0]) == LatencyPercentiles(7.0, 7.0)


def test_every_answer_of_the_model_is_whole_and_new() -> None:
    model = ModelEndpoint()
    seen = set()
    for _ in range(20):
        status, reply = model.answer("/v1/chat/completions", b'{"model": "m"}')
        assert status == 200
        text = _content(reply)
        ids = [f"m{i}" for i in range(1, MESSAGES + 1)]
        answer = read_answer(text, messages=ids, memories=[])
        assert answer.dropped == 0
        assert len(answer.new) == 3
        assert answer.summary is not None
        seen |= {item.content for item in answer.new}
    assert len(seen) == 60
    assert model.calls == {"chat": 20, "embeddings": 0, "texts": 0}


def test_vectors_are_of_length_one_and_apart() -> None:
    one, other = vector("one", 1536), vector("other", 1536)
    assert np.linalg.norm(one) == pytest.approx(1.0, abs=1e-5)
    assert abs(float(one @ other)) < 0.2
    assert (vector("one", 1536) == one).all()


def test_transcripts_are_the_same_in_every_run_and_spread_over_users() -> None:
    assert request("load", 7, 5) == request("load", 7, 5)
    sent = [request("load", number, 5).transcripts[0] for number in range(10)]
    assert len({transcript.user_id for transcript in sent}) == 5
    assert len({transcript.conversation_id for transcript in sent}) == 10
    assert all(len(transcript.messages) == MESSAGES for transcript in sent)


def _content(reply: bytes) -> str:
    return str(json.loads(reply)["choices"][0]["message"]["content"])
