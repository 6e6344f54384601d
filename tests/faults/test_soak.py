"""Mixed load for `FAULTS_MINUTES`: what both processes hold stays bounded (promise R5)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.faults.chaos.load import Load
from tests.faults.chaos.promises import TABLES
from tests.faults.chaos.resources import Resources
from tests.faults.chaos.run import MINUTES, settle
from tests.faults.chaos.stage import staged
from tests.faults.processes import Processes
from tests.scripted_model import ScriptedModel

USERS = 400
"""So many that nobody has much: what is held must not grow with what is stored."""
PAUSE_SECONDS = 0.03

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(60 * MINUTES + 1_500)]


async def test_nothing_grows_without_end(place: Path, tmp_path: Path, model: ScriptedModel) -> None:
    processes: list[Processes] = []

    def make(settings: dict[str, str]) -> Processes:
        processes.append(Processes(place, **settings))
        return processes[-1]

    try:
        async with staged(model, make) as stage:
            load = Load(stage, tmp_path, random.Random(5), users=USERS, pause=PAUSE_SECONDS)
            resources = Resources(stage)
            await load.start()
            await load.goes_on()
            pids = [service.process.pid for service in stage.services.values()]
            await asyncio.wait_for(resources.watch(60 * MINUTES), 60 * MINUTES + 300)
            stage.look()
            await load.stop()
            assert pids == [service.process.pid for service in stage.services.values()]
            table, grown = resources.judged()
            calls = f"{load.answers.total():,} calls in {MINUTES:g} minutes"
            TABLES.append((f"soak: {calls}", f"{table}\n\n{dict(sorted(load.answers.items()))}"))
            await settle(stage, load)
            assert not stage.promises.complaints
            assert not grown
    finally:
        for each in processes:
            each.close()
