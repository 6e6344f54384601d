"""How often the waiting jobs of a tenant are counted."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.limit import QueueLimit
from hitherto_shared.database.pipeline_connection import PipelineConnection
from tests.integration.queue.stage import TENANT, Stage


async def test_many_reconciliations_are_not_counted_by_every_call(
    stage: Stage, monkeypatch: Any
) -> None:
    """They do not count towards the limit, but counting reads them."""
    queue, limit = JobQueue(4), QueueLimit(10)
    counts = []
    fetch_rows = PipelineConnection.fetch_rows

    async def counted(*given: Any) -> Any:
        counts.append(given)
        return await fetch_rows(*given)

    async with stage.maintenance.connection() as connection:
        for _ in range(1_000):
            await queue.enqueue(
                connection,
                TENANT,
                "reconciliation",
                user_id="ana",
                params={"memory_id": str(uuid4())},
            )
        monkeypatch.setattr(PipelineConnection, "fetch_rows", counted)
        for _ in range(9):
            await limit.require(connection, TENANT)
    # Once, or again if a second has passed.
    assert len(counts) < 9
