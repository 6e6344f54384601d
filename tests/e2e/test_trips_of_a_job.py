"""How often a job, or a roll-back, exchanges something with Postgres: a trip costs both of them."""

from __future__ import annotations

from typing import Any

import pytest

from hitherto.v1 import maintenance_service_pb2
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.telemetry import job_id_of_task
from tests.e2e.conftest import Services
from tests.e2e.learning import echo, learn, talk
from tests.scripted_model import ScriptedModel


async def test_p5_a_job_makes_few_trips_however_much_is_said(
    modelled: Services, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it starts from, the memories of its prompt, and a commit in four trips.

    The first reads user, messages and the prompt's background. Memories take two: those that may
    matter, then their rows. A commit reads, then writes in three steps, the last with its end.

    A first job may wait for more: statements are prepared, and there is no profile yet. So may one
    whose connection served another tenant before.
    """
    trips: list[str] = []
    wait = PipelineConnection.wait

    async def counted(*given: Any) -> Any:
        if job_id := job_id_of_task.get():
            trips.append(job_id)
        return await wait(*given)

    monkeypatch.setattr(PipelineConnection, "wait", counted)
    model.script = echo
    counts = []
    for number in range(3):
        trips.clear()
        said = [f"I grow {crop} in garden {number}." for crop in ("quince", "sorrel", "medlar")]
        await learn(modelled, talk(*said, conversation=f"c{number}"))
        assert len(set(trips)) == 1
        counts.append(len(trips))
    assert min(counts[1:]) <= 7, counts


async def test_a_roll_back_makes_one_trip_for_each_memory(
    modelled: Services, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model can have taught thousands, and the call is limited to half a minute."""
    trips: list[None] = []
    wait = PipelineConnection.wait

    async def counted(*given: Any) -> Any:
        trips.append(None)
        return await wait(*given)

    model.script = echo
    crops = ("quince", "sorrel", "medlar", "fennel", "chard", "endive", "leek", "celery", "okra")
    for conversation, named in (("few", crops[:1]), ("many", crops[1:])):
        said = [f"I grow {crop} in the garden of {crop[::-1]}." for crop in named]
        await learn(modelled, talk(*said, conversation=conversation))
    monkeypatch.setattr(PipelineConnection, "wait", counted)
    fewest = {}
    for conversation, memories in (("few", 1), ("many", 8)):
        request = maintenance_service_pb2.RollbackSourceRequest(
            user_id="ana", conversation_id=conversation, dry_run=True
        )
        counts = []
        # What the services do besides is counted too, but not every time.
        for _ in range(4):
            trips.clear()
            found = await modelled.maintenance.RollbackSource(request)
            assert found.counts["memories_forgotten"] == memories
            counts.append(len(trips))
        fewest[conversation] = min(counts)
    assert fewest["many"] - fewest["few"] <= 8, fewest
