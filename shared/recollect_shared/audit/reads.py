"""Who read of whom: what a person reads of others before the reply, what services read in sums.

The own data is nobody else's business and is not written down. A credential that is bound, to a
person or to departments, belongs to people: each read of somebody else's data is written to the
primary before it is answered, and is refused where that cannot be done. Services read for everybody
all day: their reads are counted by credential, call, user and hour, off the request path. Such a
count is lost only if the process dies within a second of it, or while the primary is away for
longer than the buffer lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from recollect_shared.audit.trail import Trail
from recollect_shared.database import audit_log, faults
from recollect_shared.database.audit_log import Read
from recollect_shared.database.pool import Connection, Database
from recollect_shared.database.tenancy import acting_for
from recollect_shared.errors import RecollectError, Unavailable
from recollect_shared.rpc.call import current_call

logger = logging.getLogger("recollect.audit")

FLUSH_SECONDS = 1.0
_MAX_WAITING = 50_000
_BATCH = 1_000
_WRITE_SECONDS = 5.0

_Key = tuple[str, str, str, str]
"""Tenant, credential, call and user."""


class AuditedReads:
    """Writes reads down. The database is the primary, whatever is read from."""

    def __init__(self, database: Database, trail: Trail) -> None:
        self._database = database
        self._trail = trail
        self._waiting: Counter[_Key] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._ends = asyncio.Event()

    async def note(self, user_ids: Iterable[str], *, timeout: float) -> None:
        """Note that the call at hand reads the data of these users; before it is answered.

        Args:
            user_ids: Whose data; `audit.NOBODY` for all users of the tenant at once.
            timeout: Seconds until the caller is told that it cannot be written down.

        Raises:
            Unavailable: It could not be written down, and so must not be read.
        """
        call = current_call()
        principal = call.principal
        others = [user_id for user_id in user_ids if user_id != principal.user_id]
        if not others:
            return
        if principal.unbound:
            actor = self._trail.actor(principal)
            for user_id in others:
                self._count((principal.tenant_id, actor, call.method, user_id))
            return

        async def write(connection: Connection) -> None:
            await self._trail.note_call(connection, dict.fromkeys(others, ()))

        try:
            await self._database.run(write, timeout=min(timeout, _WRITE_SECONDS))
        except Exception as error:
            logger.warning("a read was refused, unaudited: %s", type(error).__name__)
            raise Unavailable(
                "this read of somebody else's data cannot be written to the audit log now, and so "
                "is not answered; try again shortly",
                reason="DATABASE_UNAVAILABLE",
                retry_after=1.0,
            ) from None

    def _count(self, key: _Key) -> None:
        if key in self._waiting or len(self._waiting) < _MAX_WAITING:
            self._waiting[key] += 1
        else:
            logger.error("the audit log misses a read: too many wait for the primary database")

    async def start(self) -> None:
        """Begin to write counts in the background."""
        self._task = asyncio.create_task(self._run(), name="audited-reads")

    async def stop(self) -> None:
        """Write what is left and stop; a batch that is being written is not cut off."""
        self._ends.set()
        if self._task is not None:
            await self._task
        await self.flush()

    async def flush(self) -> None:
        """Write every count noted so far; on a fault it waits for the next time."""
        while self._waiting:
            tenant_id = next(iter(self._waiting))[0]
            ours = (item for item in self._waiting.items() if item[0][0] == tenant_id)
            batch = dict(islice(ours, _BATCH))
            for key in batch:
                del self._waiting[key]
            reads = [
                (Read(actor, method, self._trail.hash(tenant_id, user_id)), times)
                for (_, actor, method, user_id), times in batch.items()
            ]
            try:
                with acting_for(tenant_id):
                    await self._database.run(
                        lambda connection: audit_log.count_reads(connection, tenant_id, reads),  # noqa: B023 - awaited
                        timeout=_WRITE_SECONDS,
                    )
            except Exception as error:
                if not isinstance(error, RecollectError) and faults.translate(error) is None:
                    # What can never be written must not end the counting. The type alone: a
                    # driver's message may quote a row.
                    logger.error("the audit log misses reads: %s", type(error).__name__)
                    continue
                self._waiting.update(batch)
                logger.info("counts of reads wait: %s", type(error).__name__)
                return

    async def _run(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._ends.wait()
            await self.flush()
