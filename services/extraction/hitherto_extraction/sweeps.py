"""Background duties of the service, each safe with many replicas; `scheduler` runs them.

The idle sweep queues the rest of conversations that fell silent; at most one open job per
conversation can wait, so that two concurrent replicas queue it once. Other duties back-fill vectors
after an embedder outage, index messages that no job has indexed, seal text from before a user
turned encryption on, charge the embedding of queries, analyse tables that have grown, and delete
expired idempotency keys, unusable replies, working memory and documents.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hitherto_extraction.documents.ingest import delete_expired
from hitherto_extraction.intake import Intake
from hitherto_extraction.pipeline.guards.tokens import forget_readings
from hitherto_extraction.storage import (
    conversations,
    documents,
    idempotency,
    sessions,
    unusable_replies,
    upkeep,
)
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Database
from hitherto_shared.database.tenancy import acting_for

logger = logging.getLogger("hitherto.sweeps")

_BATCH = 200
_SWEEP_SECONDS = 10.0
_STATISTICS_SECONDS = 10.0
_ANALYSE_SECONDS = 60.0
_KEYS_SECONDS = 3600.0
_SESSIONS_SECONDS = 600.0
_DOCUMENTS_SECONDS = 60.0
_TEXTS_SECONDS = 60.0
_DOCUMENT_SECONDS = 30.0
_SLOT_SECONDS = 60.0
"""The default interval of the schedule `idle`."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that is repeated: its name in the log, and its interval in seconds.

    With `until_done`, it is a step that returns how much it did, and is repeated at once until it
    does nothing.
    """

    what: str
    seconds: float
    work: Callable[[], Awaitable[object]]
    until_done: bool = False


def _tolerant(duty: Duty) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        with faults.Tolerated(logger, f"{duty.what} skipped"):
            while await duty.work() and duty.until_done:
                pass

    return run


class Sweeps:
    """The duties of this process: its own, and `others`.

    The database role is hitherto_maintenance, and hitherto_removal for what is deleted of users.
    """

    def __init__(
        self,
        database: Database,
        intake: Intake,
        removal: Database | None = None,
        others: Sequence[Duty] = (),
        *,
        idle_minutes: float,
    ) -> None:
        self._database = database
        self._intake = intake
        self._removal = removal
        self._others = others
        self._idle_seconds = idle_minutes * 60

    def at_intervals(self, *, idle: bool) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        """The duties of every replica, with their intervals in seconds.

        With `idle`, a silence shorter than the interval of the schedule of that name is also
        noticed in time.
        """
        duties = [
            Duty("key expiry", _KEYS_SECONDS, self.expire_keys),
            Duty("sweep of working memory", _SESSIONS_SECONDS, self.drop_sessions, until_done=True),
            Duty("analysis of tables", _STATISTICS_SECONDS, self.analyse, until_done=True),
            Duty("clearing of caches", _TEXTS_SECONDS, self.forget_texts),
            *self._others,
        ]
        if self._removal is not None:
            drop = self.drop_documents
            duties.append(Duty("sweep of documents", _DOCUMENTS_SECONDS, drop, until_done=True))
        found = [(each.seconds, _tolerant(each)) for each in duties]
        every = max(1.0, self._idle_seconds / 4)
        if idle and every < _SLOT_SECONDS:
            found.append((every, self.queue_idle))
        return found

    async def queue_idle(self) -> None:
        """Queue the unextracted rest of silent conversations."""
        with faults.Tolerated(logger, "idle sweep skipped"):
            idle = await self._database.run(
                lambda connection: conversations.find_idle(
                    connection, idle_seconds=self._idle_seconds, limit=_BATCH
                ),
                timeout=_SWEEP_SECONDS,
            )
            for scope, conversation_id in idle:
                with acting_for(scope.tenant_id):
                    await self._intake.queue_idle(scope, conversation_id)

    async def analyse(self) -> str | None:
        """Analyse a table that has grown; returns its name, None if there is none."""
        table = await self._database.run(upkeep.analyse_grown, timeout=_ANALYSE_SECONDS)
        if table:
            logger.info("analysed a table", extra={"table": table})
        return table

    async def forget_texts(self) -> None:
        """Clear caches of users' texts, so that no process keeps them for longer than needed."""
        forget_readings()

    async def expire_keys(self) -> None:
        """Delete expired idempotency keys and unusable replies."""
        await self._database.run(idempotency.expire, timeout=_SWEEP_SECONDS)
        await self._database.run(unusable_replies.expire, timeout=_SWEEP_SECONDS)

    async def drop_sessions(self) -> bool:
        """Delete some expired working memory; returns whether there may be more."""
        return await self._database.run(sessions.drop_expired, timeout=_SWEEP_SECONDS)

    async def drop_documents(self) -> int:
        """Delete some expired documents with all that was made of them; returns how many.

        Each in a transaction of its own; a user who stays locked waits for the next sweep.
        """
        assert self._removal is not None
        dropped = 0
        for scope, document_id in await self._database.run(
            lambda connection: documents.find_expired(connection, limit=_BATCH),
            timeout=_SWEEP_SECONDS,
        ):
            drop = partial(delete_expired, scope=scope, document_id=document_id)
            with (
                faults.Tolerated(logger, "deletion of a document skipped"),
                acting_for(scope.tenant_id),
            ):
                dropped += await self._removal.transact(drop, timeout=_DOCUMENT_SECONDS)
        return dropped
