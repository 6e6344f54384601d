"""Background duties of the service, each safe with many replicas; `scheduler` runs them.

The idle sweep queues the rest of conversations that fell silent; at most one open job per
conversation can wait, so that two concurrent replicas queue it once. Other duties back-fill vectors
after an embedder outage, index messages that no job has indexed, seal text from before a user
turned encryption on, charge the embedding of queries, analyse tables that have grown, and delete
expired idempotency keys, unusable replies, working memory and documents.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from hitherto_extraction.budget import BudgetLeft
from hitherto_extraction.documents.ingest import delete_expired
from hitherto_extraction.intake import Intake
from hitherto_extraction.pipeline.backfill import Backfill
from hitherto_extraction.pipeline.embedding_charges import QueryCharges
from hitherto_extraction.pipeline.guards.tokens import forget_readings
from hitherto_extraction.queue.depth import QueueDepth
from hitherto_extraction.sealing.sweep import SealingSweep
from hitherto_extraction.storage import (
    conversations,
    documents,
    idempotency,
    sessions,
    unusable_replies,
    upkeep,
)
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import HithertoError
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.sweeps")

_BATCH = 200
_SWEEP_SECONDS = 10.0
_BACKFILL_SECONDS = 10.0
_SEALING_SECONDS = 10.0
_QUESTIONS_SECONDS = 10.0
_STATISTICS_SECONDS = 10.0
_ANALYSE_SECONDS = 60.0
_KEYS_SECONDS = 3600.0
_SESSIONS_SECONDS = 600.0
_DOCUMENTS_SECONDS = 60.0
_DEPTH_SECONDS = 15.0
_BUDGET_SECONDS = 60.0
_TEXTS_SECONDS = 60.0
_DOCUMENT_SECONDS = 30.0
_SLOT_SECONDS = 60.0
"""The default interval of the schedule `idle`."""

Duty = Callable[[], Awaitable[None]]


class Sweeps:
    """The duties of this process.

    The database role is hitherto_maintenance, and hitherto_removal for what is deleted of users.
    """

    def __init__(
        self,
        database: Database,
        intake: Intake,
        backfill: Backfill | None,
        *,
        idle_minutes: float,
        removal: Database | None = None,
        sealing: SealingSweep | None = None,
        questions: QueryCharges | None = None,
        depth: QueueDepth | None = None,
        budget_left: BudgetLeft | None = None,
    ) -> None:
        self._database = database
        self._intake = intake
        self._backfill = backfill
        self._removal = removal
        self._sealing = sealing
        self._questions = questions
        self._depth = depth
        self._budget_left = budget_left
        self._idle_seconds = idle_minutes * 60

    def at_intervals(self, *, idle: bool) -> list[tuple[float, Duty]]:
        """The duties of every replica, with their intervals in seconds.

        With `idle`, a silence shorter than the interval of the schedule of that name is also
        noticed in time.
        """
        duties: list[tuple[float, Duty]] = [
            (_KEYS_SECONDS, self.expire_keys),
            (_SESSIONS_SECONDS, self.drop_sessions),
            (_STATISTICS_SECONDS, self.analyse),
            (_TEXTS_SECONDS, self.forget_texts),
        ]
        if self._backfill is not None:
            duties.append((_BACKFILL_SECONDS, self.fill_vectors))
        if self._removal is not None:
            duties.append((_DOCUMENTS_SECONDS, self.drop_documents))
        if self._sealing is not None:
            duties.append((_SEALING_SECONDS, self.seal))
        if self._questions is not None:
            duties.append((_QUESTIONS_SECONDS, self.charge_questions))
        if self._depth is not None:
            duties.append((_DEPTH_SECONDS, self.measure_queue))
        if self._budget_left is not None:
            duties.append((_BUDGET_SECONDS, self.measure_budget))
        every = max(1.0, self._idle_seconds / 4)
        if idle and every < _SLOT_SECONDS:
            duties.append((every, self.queue_idle))
        return duties

    async def queue_idle(self) -> None:
        """Queue the unextracted rest of silent conversations."""
        try:
            idle = await self._database.run(
                lambda connection: conversations.find_idle(
                    connection, idle_seconds=self._idle_seconds, limit=_BATCH
                ),
                timeout=_SWEEP_SECONDS,
            )
            for scope, conversation_id in idle:
                with acting_for(scope.tenant_id):
                    await self._intake.queue_idle(scope, conversation_id)
        except Exception as error:
            _log_or_raise(error, "idle sweep")

    async def fill_vectors(self) -> None:
        """Index and embed waiting texts, batch by batch until none is left."""
        assert self._backfill is not None
        try:
            while await self._backfill.run():
                pass
        except Exception as error:
            _log_or_raise(error, "vector back-fill")

    async def seal(self) -> None:
        """Seal what users with encryption on still have in clear."""
        assert self._sealing is not None
        try:
            await self._sealing.run()
        except Exception as error:
            _log_or_raise(error, "sealing")

    async def charge_questions(self) -> None:
        """Charge the embedding of queries."""
        assert self._questions is not None
        try:
            await self._questions.run()
        except Exception as error:
            _log_or_raise(error, "charging of queries")

    async def analyse(self) -> None:
        """Analyse tables that have grown, one after the other."""
        try:
            while table := await self._database.run(upkeep.analyse_grown, timeout=_ANALYSE_SECONDS):
                logger.info("analysed a table", extra={"table": table})
        except Exception as error:
            _log_or_raise(error, "analysis of tables")

    async def forget_texts(self) -> None:
        """Clear caches of users' texts, so that no process keeps them for longer than needed."""
        forget_readings()

    async def expire_keys(self) -> None:
        """Delete expired idempotency keys and unusable replies."""
        try:
            await self._database.run(idempotency.expire, timeout=_SWEEP_SECONDS)
            await self._database.run(unusable_replies.expire, timeout=_SWEEP_SECONDS)
        except Exception as error:
            _log_or_raise(error, "key expiry")

    async def measure_queue(self) -> None:
        """Write the depth of the queue into the metrics."""
        assert self._depth is not None
        try:
            await self._depth.measure()
        except Exception as error:
            _log_or_raise(error, "queue depth")

    async def measure_budget(self) -> None:
        """Write what is left of budgets into the metrics."""
        assert self._budget_left is not None
        try:
            await self._budget_left.measure()
        except Exception as error:
            _log_or_raise(error, "measuring of budgets")

    async def drop_sessions(self) -> None:
        """Delete expired working memory, batch by batch until none is left."""
        try:
            while await self._database.run(sessions.drop_expired, timeout=_SWEEP_SECONDS):
                pass
        except Exception as error:
            _log_or_raise(error, "sweep of working memory")

    async def drop_documents(self) -> None:
        """Delete expired documents with all that was made of them, until none can be deleted."""
        try:
            while await self._drop_some_documents():
                pass
        except Exception as error:
            _log_or_raise(error, "sweep of documents")

    async def _drop_some_documents(self) -> int:
        """Each in a transaction of its own; a user who stays locked waits for the next sweep."""
        removal = self._removal
        assert removal is not None
        dropped = 0
        for scope, document_id in await self._database.run(
            lambda connection: documents.find_expired(connection, limit=_BATCH),
            timeout=_SWEEP_SECONDS,
        ):

            async def drop(
                connection: Connection, scope: Scope = scope, document_id: UUID = document_id
            ) -> bool:
                async with connection.transaction():
                    return await delete_expired(connection, scope, document_id)

            try:
                with acting_for(scope.tenant_id):
                    dropped += await removal.run(drop, timeout=_DOCUMENT_SECONDS)
            except Exception as error:
                _log_or_raise(error, "deletion of a document")
        return dropped


def _log_or_raise(error: Exception, what: str) -> None:
    if isinstance(error, HithertoError) or faults.translate(error) is not None:
        logger.warning("%s skipped: %s", what, type(error).__name__)
        return
    raise error
