"""Counts that are written off the request path, in batches, each for one tenant.

A count is lost only if the process dies within a second of it, or while the primary is away for
longer than the buffer lasts; no answer ever waits for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Generic, TypeVar

from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import HithertoError

FLUSH_SECONDS = 1.0
_MAX_WAITING = 50_000
"""Keys that wait, from which on no new ones are taken: those are not counted."""
_BATCH = 1_000
_WRITE_SECONDS = 5.0

Key = TypeVar("Key", bound=tuple[object, ...])

Write = Callable[[Connection, str, Mapping[Key, int]], Awaitable[None]]
"""Adds a batch of one tenant to what is stored."""


class Counts(Generic[Key]):
    """Collects and writes counts.

    Args:
        database: The primary, whatever is read from.
        write: Adds a batch to what is stored.
        logger: Told when counts wait or are lost.
        name: What is counted.
    """

    def __init__(
        self, database: Database, write: Write[Key], logger: logging.Logger, name: str
    ) -> None:
        self._database = database
        self._write = write
        self._logger = logger
        self._name = name
        self._waiting: dict[str, Counter[Key]] = {}
        self._held = 0
        self._task: asyncio.Task[None] | None = None
        self._ends = asyncio.Event()

    def add(self, tenant_id: str, keys: Iterable[Key] | Mapping[Key, int]) -> None:
        """Count each key once more, or as often as given; no new ones if too many wait."""
        counted: Mapping[Key, int] = Counter(keys)
        if self._held >= _MAX_WAITING:
            known = self._waiting.get(tenant_id, Counter())
            taken = {key: number for key, number in counted.items() if key in known}
            if len(taken) < len(counted):
                self._logger.error("%s are lost: too many wait for the primary", self._name)
            counted = taken
        self._keep(tenant_id, counted)

    def _keep(self, tenant_id: str, more: Iterable[Key] | Mapping[Key, int]) -> None:
        """Add to what waits of a tenant, whose turn is after the others' then."""
        waiting = self._waiting.pop(tenant_id, Counter())
        self._held -= len(waiting)
        waiting.update(more)
        self._held += len(waiting)
        if waiting:
            self._waiting[tenant_id] = waiting

    async def start(self) -> None:
        """Begin to write in the background."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Write what is left and stop; a batch that is being written is not cut off."""
        self._ends.set()
        if self._task is not None:
            await self._task
        await self.flush()

    async def flush(self) -> None:
        """Write everything counted so far; on a fault it waits for the next time."""
        while self._waiting:
            tenant_id, waiting = next(iter(self._waiting.items()))
            counts = dict(islice(waiting.items(), _BATCH))
            for key in counts:
                del waiting[key]
            self._held -= len(counts)
            if not waiting:
                del self._waiting[tenant_id]
            try:
                with acting_for(tenant_id):
                    await self._database.run(
                        lambda connection: self._write(connection, tenant_id, counts),  # noqa: B023 - awaited
                        timeout=_WRITE_SECONDS,
                    )
            except Exception as error:
                if not isinstance(error, HithertoError) and faults.translate(error) is None:
                    # What can never be written must not end the counting. The type alone: a
                    # driver's message may quote a row.
                    self._logger.error("%s are lost: %s", self._name, type(error).__name__)
                    continue
                self._keep(tenant_id, counts)
                self._logger.info("%s wait: %s", self._name, type(error).__name__)
                return

    async def _run(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._ends.wait()
            await self.flush()
