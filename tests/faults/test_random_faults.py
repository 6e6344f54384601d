"""Faults at random, one or two at a time, under load; the run ends with the table of promises."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.chaos.load import Load
from tests.faults.chaos.promises import TABLES
from tests.faults.chaos.run import MINUTES, endure, seed_of_this_run, settle
from tests.faults.chaos.stage import staged
from tests.faults.processes import Processes
from tests.scripted_model import ScriptedModel

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(60 * MINUTES + 1_500)]


async def test_no_promise_is_lost(
    place: Path, tmp_path: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = seed_of_this_run()

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    processes: list[Processes] = []

    def make(settings: dict[str, str]) -> Processes:
        processes.append(Processes(place, **settings))
        return processes[-1]

    try:
        async with staged(model, make) as stage:
            load = Load(stage, tmp_path, random.Random(seed))
            try:
                came = await endure(stage, load, seed=seed, seconds=60 * MINUTES, say=say)
                await settle(stage, load)
            finally:
                say(stage.promises.complaints)
            title = f"{came.total()} faults in {MINUTES:g} minutes, FAULTS_SEED={seed}"
            kinds = ", ".join(f"{name} {times}" for name, times in sorted(came.items()))
            table = f"{stage.promises.table()}\n\n{kinds}\n\n{dict(sorted(load.answers.items()))}"
            TABLES.append((title, table))
            assert not stage.promises.complaints, f"FAULTS_SEED={seed}\n{stage.promises.complaints}"
    finally:
        for each in processes:
            each.close()
