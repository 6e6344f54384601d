"""Writes counts off the request path, in batches, one tenant each.

A count is lost only if the process dies within a second, or while the primary is down for longer
than the buffer lasts; no answer ever waits for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Generic, TypeVar

from psycopg.errors import ForeignKeyViolation

from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for

FLUSH_SECONDS = 1.0
_MAX_WAITING = 50_000
"""Maximum number of waiting keys; further ones are not counted."""
_BATCH = 1_000
_WRITE_SECONDS = 5.0

Key = TypeVar("Key", bound=tuple[object, ...])

Write = Callable[[Connection, str, Mapping[Key, int]], Awaitable[None]]
"""Adds a batch of one tenant to the stored counts."""


class Counts(Generic[Key]):
    """Collects and writes counts.

    `database` is the primary, even if reads go to a replica. `write` adds a batch to the stored
    counts.
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
        """Count each key once more, or as often as given; no new keys if too many wait."""
        if self._held >= _MAX_WAITING:
            counted: Mapping[Key, int] = Counter(keys)
            known = self._waiting.get(tenant_id, Counter())
            taken = {key: number for key, number in counted.items() if key in known}
            if len(taken) < len(counted):
                self._logger.error(
                    "%s are lost: the buffer is full while the primary is unreachable", self._name
                )
            keys = taken
        self._keep(tenant_id, keys)

    def _keep(self, tenant_id: str, more: Iterable[Key] | Mapping[Key, int]) -> None:
        """Add to the waiting counts of a tenant, which then comes after the others."""
        waiting = self._waiting.pop(tenant_id, None)
        if waiting is None:
            waiting = Counter()
        self._held -= len(waiting)
        waiting.update(more)
        self._held += len(waiting)
        if waiting:
            self._waiting[tenant_id] = waiting

    async def start(self) -> None:
        """Start writing in the background."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Write what is left and stop; a batch in progress is not interrupted."""
        self._ends.set()
        if self._task is not None:
            await self._task
        await self.flush()

    async def flush(self) -> None:
        """Write everything counted so far; after a failure it is retried next time."""
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
                # What a count is of may have been removed since the statement began; the next one
                # does not find it any more.
                passes = isinstance(error, ForeignKeyViolation)
                if not passes and faults.translate(error) is None:
                    # A batch that can never be written must not end the counting. Only the type is
                    # logged: a driver's message may quote a row.
                    self._logger.error("%s are lost: %s", self._name, type(error).__name__)
                    continue
                self._keep(tenant_id, counts)
                self._logger.info("%s postponed: %s", self._name, type(error).__name__)
                return

    async def _run(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._ends.wait()
            await self.flush()
