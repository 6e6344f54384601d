"""The duties of the service that delete, one at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hitherto_extraction.intake import Intake
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.sweeps import Sweeps
from hitherto_shared.database.pool import Database

WITHOUT_A_MEMORY = """
SELECT p.term FROM hitherto.postings AS p CROSS JOIN LATERAL unnest(p.lexical_nos) AS n (number)
WHERE NOT EXISTS (SELECT FROM hitherto.memories AS m WHERE m.user_id = p.user_id
                  AND m.lexical_no = n.number)
"""
"""Words in the keyword index under numbers that no memory has."""


@asynccontextmanager
async def sweeping(conninfo: str) -> AsyncIterator[Sweeps]:
    """The duties on a database, with the roles that the service gives them."""
    maintenance = Database(conninfo, "hitherto_maintenance", application="test", max_size=1)
    removal = Database(conninfo, "hitherto_removal", application="test", max_size=1)
    await maintenance.open()
    await removal.open()
    try:
        intake = Intake(
            maintenance,
            JobQueue(3),
            memory_enabled=True,
            extract_every=10,
            debounce_seconds=0.0,
        )
        yield Sweeps(maintenance, intake, removal, idle_minutes=10)
    finally:
        await maintenance.close()
        await removal.close()
