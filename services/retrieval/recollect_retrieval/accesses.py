"""Counts which memories were told, off the request path and in batches.

A count is lost only if the process dies within a second of it, or while the primary is away for
longer than the buffer lasts; no answer ever waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from uuid import UUID

from recollect_retrieval.storage.access import count_access
from recollect_shared.database import faults
from recollect_shared.database.pool import Database
from recollect_shared.database.tenancy import acting_for
from recollect_shared.errors import RecollectError
from recollect_shared.models import Scope

logger = logging.getLogger("recollect.accesses")

FLUSH_SECONDS = 1.0
_MAX_WAITING = 50_000
_BATCH = 1_000
_WRITE_SECONDS = 5.0


class AccessCounter:
    """Collects and writes counts. The database is the primary, whatever is read from."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: Counter[tuple[str, str, UUID]] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._ends = asyncio.Event()

    def told(self, scope: Scope, memory_ids: Iterable[UUID]) -> None:
        """Note that memories were part of an answer."""
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.update(
                (scope.tenant_id, scope.user_id, memory_id) for memory_id in memory_ids
            )

    async def start(self) -> None:
        """Begin to write in the background."""
        self._task = asyncio.create_task(self._run(), name="access-counter")

    async def stop(self) -> None:
        """Write what is left and stop; a batch that is being written is not cut off."""
        self._ends.set()
        if self._task is not None:
            await self._task
        await self.flush()

    async def flush(self) -> None:
        """Write everything noted so far; on a fault it waits for the next time."""
        while self._waiting:
            tenant_id = next(iter(self._waiting))[0]
            ours = (item for item in self._waiting.items() if item[0][0] == tenant_id)
            batch = dict(islice(ours, _BATCH))
            for key in batch:
                del self._waiting[key]
            told = [(*key, times) for key, times in batch.items()]
            try:
                with acting_for(tenant_id):
                    await self._database.run(
                        lambda connection: count_access(connection, told),  # noqa: B023 - awaited
                        timeout=_WRITE_SECONDS,
                    )
            except Exception as error:
                if not isinstance(error, RecollectError) and faults.translate(error) is None:
                    # A count that cannot be written must not end the counting. The type alone: a
                    # driver's message may quote a row.
                    logger.error("access counts dropped: %s", type(error).__name__)
                    continue
                self._waiting.update(batch)
                logger.info("access counts wait: %s", type(error).__name__)
                return

    async def _run(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._ends.wait()
            await self.flush()
