"""Faults at random, one or two at a time, under load; the run ends with the table of promises."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.faults.chaos.load import Load
from tests.faults.chaos.promises import TABLES
from tests.faults.chaos.run import MINUTES, endure, seed_of_this_run, settle
from tests.faults.chaos.stage import staged
from tests.faults.earlier import unpack_earlier
from tests.faults.processes import Processes
from tests.faults.small_disk import SmallDisk, can_mount
from tests.integration.replica.servers import Servers
from tests.scripted_model import ScriptedModel

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(60 * MINUTES + 1_500)]


async def test_no_promise_is_lost(
    place: Path, tmp_path: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, earlier = seed_of_this_run(), unpack_earlier(tmp_path / "earlier")

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    with ExitStack() as stack:
        disk = SmallDisk(place / "data") if can_mount() else None
        if disk is not None:
            stack.callback(disk.close)

        def make(settings: dict[str, str]) -> Processes:
            made = stack.enter_context(closing(Processes(place, **settings)))
            # Before it looks whether a server is left.
            stack.callback(servers.close)
            return made

        servers = Servers(place)
        async with staged(model, make) as stage:
            stage.servers, stage.disk, stage.earlier = servers, disk, earlier
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
