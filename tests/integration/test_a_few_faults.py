"""A few seconds of random faults under load, and every promise held against the database.

`make faults` runs the long form, `tests/faults/test_random_faults.py`, which kills Postgres too.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.chaos.catalogue import TROUBLES
from tests.faults.chaos.load import Load
from tests.faults.chaos.run import endure, settle
from tests.faults.chaos.stage import staged
from tests.faults.processes import Processes
from tests.scripted_model import ScriptedModel, canary_script

SEED = int(os.environ.get("FAULTS_SEED") or 235)
MOST = 3
BRIEF = {
    "kill -9 of a service",
    "all sessions cut",
    "model refuses",
    "model talks nonsense",
    "wrong vectors",
    "network to the model",
    "network to callers",
}
"""What takes a moment, on a Postgres that others use too."""


@pytest.mark.timeout(600)
async def test_no_promise_is_lost(tmp_path: Path, conninfo: str, superuser_conninfo: str) -> None:
    processes: list[Processes] = []

    def make(settings: dict[str, str]) -> Processes:
        settings |= {"DATABASE_URL": conninfo, "HITHERTO_AUTH": "off"}
        processes.append(Processes(tmp_path, **settings))
        return processes[-1]

    troubles = [trouble for trouble in TROUBLES if trouble.name in BRIEF]
    assert len(troubles) == len(BRIEF)
    try:
        async with (
            ScriptedModel(canary_script) as model,
            staged(model, make, superuser_conninfo) as stage,
        ):
            load = Load(stage, tmp_path, random.Random(SEED))
            await endure(stage, load, seed=SEED, seconds=60, troubles=troubles, most=MOST)
            await settle(stage, load)
            print(stage.promises.table())
            assert not stage.promises.complaints
            assert stage.promises.tried["L2"] > 0
            assert stage.promises.tried["erased"] > 0
    finally:
        for each in processes:
            each.close()
