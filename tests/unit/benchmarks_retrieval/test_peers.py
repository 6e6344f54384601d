"""How the comparison with other memory stores measures, compares and tells what it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks.peers import stores
from benchmarks.peers.__main__ import (
    LEFT_OUT,
    PEERS,
    SEARCH,
    SEMANTIC,
    Measured,
    PeerUnavailable,
    bars,
    run_peer,
)
from benchmarks.peers.stores import FOUND, LOADED, STORES, Task

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


async def test_every_memory_is_stored_once_and_the_first_one_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored: list[tuple[str, str]] = []

    async def store(user: str, text: str) -> object:
        stored.append((user, text))
        return None

    await stores.load(TASK, store)
    assert sorted(stored) == sorted((u, t) for u, held in TASK.memories.items() for t in held)
    assert stored[0] == ("a", "text 0")
    assert capsys.readouterr().out == f"{LOADED}100\n"


async def test_searches_are_timed_by_size_and_number_of_callers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def search(user: str, query: str) -> int:
        assert (user, query) in TASK.asked["200"]
        await asyncio.sleep(0)
        return 2

    await stores.measure("a peer 1", TASK, search)
    line = capsys.readouterr().out.strip()
    found = json.loads(line.removeprefix(FOUND))
    assert {each["name"] for each in found} == {"a peer 1"}
    assert [(each["size"], each["callers"]) for each in found] == [(200, 1), (200, 4)]
    assert all(each["results"] == 2 and each["ms"] for each in found)
    assert all(each["seconds"] >= TASK.seconds for each in found)


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


def test_every_peer_is_measured_or_left_out_for_a_reason() -> None:
    assert set(PEERS) == set(STORES)
    assert not set(PEERS) & set(LEFT_OUT)
    assert all(LEFT_OUT.values())


async def test_a_peer_that_ends_without_figures_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match=r"failed: .*KeyError: 'nothing'"):
        await run_peer("nothing", [sys.executable], tmp_path, TASK)
