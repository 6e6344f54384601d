"""How the comparison with other memory stores measures, compares and tells what it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import SEARCH, SEMANTIC, Measured, PeerUnavailable, bars, run_peer
from benchmarks.peers.stores import Task

TASK = Task(
    conninfo="",
    base_url="",
    model="m",
    dimensions=8,
    memories={"a": [f"text {n}" for n in range(150)], "b": ["one"]},
    asked={"200": [("a", "first?"), ("b", "second?")]},
    limit=2,
    seconds=0.05,
    callers=[1, 4],
)


def measured(name: str, callers: int, p50: float, per_second: float) -> Measured:
    return Measured(name, 200, callers, p50, 2 * p50, per_second, 20.0)


def test_we_are_compared_with_the_fastest_peer_at_each_figure() -> None:
    ours = [
        measured(SEARCH, 1, 1.5, 500),
        measured(SEARCH, 32, 30.0, 600),
        measured(SEMANTIC, 1, 2.0, 500),
    ]
    peers = [
        measured("slow start", 1, 10.0, 90),
        measured("slow start", 32, 300.0, 100),
        measured("quick start", 1, 6.0, 160),
        measured("quick start", 32, 900.0, 50),
    ]
    found = [(each.name, each.figure, each.measured, each.met) for each in bars(ours, peers)]
    assert found == [
        (SEARCH, "p50, 200 memories a user, by quick start", "4.0 times as fast", True),
        (SEARCH, "requests/s, 200 memories a user, by slow start", "6.0 times as fast", True),
    ]
    assert not list(bars(ours, []))


async def test_a_peer_that_ends_without_figures_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match=r"failed: .*KeyError: 'nothing'"):
        await run_peer("nothing", [sys.executable], tmp_path, TASK)
