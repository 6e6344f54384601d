"""How often a job, or a roll-back, exchanges something with Postgres: a trip costs both of them."""

from __future__ import annotations

from typing import Any

import pytest

from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.telemetry import job_id_of_task
from tests.e2e.conftest import Services
from tests.e2e.learning import echo, learn, talk
from tests.e2e.methods import ask


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """A line for each trip: the job that made it, if one did."""
    made: list[str | None] = []
    wait = PipelineConnection.wait

    async def counted(*given: Any) -> Any:
        made.append(job_id_of_task.get())
        return await wait(*given)

    monkeypatch.setattr(PipelineConnection, "wait", counted)
    return made


async def test_p5_a_job_makes_few_trips_however_much_is_said(
    modelled: Services, trips: list[str | None]
) -> None:
    """What it starts from, the memories of its prompt, and a commit in four trips.

    The first reads user, messages and the prompt's background. Memories take two: those that may
    matter, then their rows. A commit reads, then writes in three steps, the last with its end.

    A first job may wait for more: statements are prepared, and there is no profile yet. So may one
    whose connection served another tenant before.
    """
    modelled.model.script = echo
    counts = []
    for number in range(3):
        trips.clear()
        said = [f"I grow {crop} in garden {number}." for crop in ("quince", "sorrel", "medlar")]
        await learn(modelled, talk(*said, conversation=f"c{number}"))
        of_the_job = [job_id for job_id in trips if job_id]
        assert len(set(of_the_job)) == 1
        counts.append(len(of_the_job))
    assert min(counts[1:]) <= 7, counts


async def test_a_roll_back_makes_one_trip_for_each_memory(
    modelled: Services, trips: list[str | None]
) -> None:
    """A model can have taught thousands, and the call is limited to half a minute."""
    modelled.model.script = echo
    crops = ("quince", "sorrel", "medlar", "fennel", "chard", "endive", "leek", "celery", "okra")
    fewest = {}
    for conversation, named in (("few", crops[:1]), ("many", crops[1:])):
        said = [f"I grow {crop} in the garden of {crop[::-1]}." for crop in named]
        await learn(modelled, talk(*said, conversation=conversation))
        counts = []
        # What the services do besides is counted too, but not every time.
        for _ in range(4):
            trips.clear()
            asked = {"conversation_id": conversation, "dry_run": True}
            found = await ask(modelled, "RollbackSource", **asked)
            assert found.counts["memories_forgotten"] == len(named)
            counts.append(len(trips))
        fewest[conversation] = min(counts)
    assert fewest["many"] - fewest["few"] <= 8, fewest
