"""MaintenanceService: upkeep across users, re-embedding, usage, and roll-back of a source."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.budget import SHARES, Budget
from hitherto_extraction.consolidation.writing import read_originals
from hitherto_extraction.handlers.answering import checks_of
from hitherto_extraction.handlers.upkeep import UpkeepOnDemand
from hitherto_extraction.handlers.webhooks import WebhookCalls
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.pipeline.embedding_charges import SEARCH
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.reembedding import phases
from hitherto_extraction.reembedding.phases import ReembeddingStatus
from hitherto_extraction.rollback.merges import undo
from hitherto_extraction.rollback.source import RollbackTarget, roll_back
from hitherto_extraction.storage import usage
from hitherto_extraction.storage.usage import UsageFilter, UsageTotals
from hitherto_extraction.upkeep.schedules import CONSOLIDATION, DECAY, RETENTION, Schedules
from hitherto_extraction.user_key import with_keys
from hitherto_shared.consistency import Position, current_position
from hitherto_shared.convert import EnumWords, job_message, memory_message, timestamp
from hitherto_shared.database.faults import Tolerated
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.text.normalise import tag_key
from hitherto_shared.validation import Checks

logger = logging.getLogger("hitherto.reembedding")

_COUNTING_SECONDS = 30.0
"""Counting across all users of a tenant may take longer than other calls."""

_ROLLBACK_SECONDS = 30.0
"""A source may have taught thousands of memories."""

_PHASES = EnumWords(pb.ReembedPhase.DESCRIPTOR)
_MIN_DIMENSIONS = 8
_MAX_DIMENSIONS = 4_000
_SWITCH_SECONDS = 60.0
"""A switch reads every text twice: it counts them without the lock, for which writers of vectors
wait, and marks those that lack a vector under it. A roll-back only marks them."""
_COUNT_OF_STEP_SECONDS = 4.0
"""Counting texts after a step that is done; below `lock_timeout`."""

KINDS = (*SHARES, SEARCH, "decay", "retention")
_DIMENSIONS = EnumWords(pb.UsageDimension.DESCRIPTOR)


@dataclass(eq=False)
class MaintenanceHandlers(WebhookCalls):
    """Implements MaintenanceService.

    `maintenance` is the database with the role that works across users.
    """

    upkeep: UpkeepOnDemand
    schedules: Schedules
    embedders: Embedders
    maintenance: Database
    budget: Budget
    queue: JobQueue

    async def Consolidate(
        self, request: pb.ConsolidateRequest, context: Context
    ) -> pb.ConsolidateResponse:
        """Merge similar memories, of all users or of one, under all tags or one."""
        checks = Checks()
        named = checks.identifier("tag", request.tag, required=False)
        tag = tag_key(named) or named
        asked = {"asked": True, **({"tag": tag} if tag else {}), "dry_run": request.dry_run}
        made = await self._start(checks, request, context, CONSOLIDATION, asked)
        return pb.ConsolidateResponse(**made)

    async def UndoConsolidation(
        self, request: pb.UndoConsolidationRequest, context: Context
    ) -> pb.UndoConsolidationResponse:
        """Restore the originals of a merged memory, with the role hitherto_removal."""
        checks, user_id = checks_of(request)
        memory_id = checks.uuid("memory_id", request.memory_id)
        call = self.answering.admit(checks, user_id, request)
        made, token = await self.answering.change_user(
            call,
            lambda user: undo(user, memory_id, actor=call.principal.subject),
            lambda user, ids: read_originals(user, [UUID(each) for each in ids]),
            context,
            ids=lambda originals: [str(each.memory_id) for each in originals],
            database=self.answering.removal,
        )
        return pb.UndoConsolidationResponse(
            memories=[memory_message(each) for each in made], consistency_token=token
        )

    async def RunDecay(self, request: pb.RunDecayRequest, context: Context) -> pb.RunDecayResponse:
        """Archive memories by the rules of decay, for all users or one."""
        asked = {"dry_run": request.dry_run}
        return pb.RunDecayResponse(**await self._start(Checks(), request, context, DECAY, asked))

    async def RunRetention(
        self, request: pb.RunRetentionRequest, context: Context
    ) -> pb.RunRetentionResponse:
        """Delete items past their retention, for all users or one."""
        made = await self._start(
            Checks(), request, context, RETENTION, {"dry_run": request.dry_run}
        )
        return pb.RunRetentionResponse(**made)

    async def Reembed(self, request: pb.ReembedRequest, context: Context) -> pb.ReembedResponse:
        """Take a step of re-embedding, and report its state."""
        checks = Checks()
        phase = checks.one_of("phase", request.phase, _PHASES)
        if phase is None and request.phase == 0:
            checks.add("phase", "is required")
        dimensions = request.dimensions
        if dimensions and not _MIN_DIMENSIONS <= dimensions <= _MAX_DIMENSIONS:
            checks.add("dimensions", f"must lie between {_MIN_DIMENSIONS} and {_MAX_DIMENSIONS}")
        if phase == "start":
            checks.identifier("model", request.model)
        identity = self.answering.identity(checks, request)
        if phase == "start":
            dimensions = self._dimensions_of(checks, request)
        tenant = current_call().principal.tenant_id

        async def change(connection: Connection) -> None:
            if phase == "start":
                await phases.start(connection, tenant, request.model, dimensions, self.queue)
            elif phase == "switch":
                await phases.switch(connection)
            elif phase == "rollback":
                await phases.go_back(connection)

        async def again(connection: Connection, ids: Sequence[str]) -> None:
            """The state is read in any case."""

        await self.answering.change(
            identity,
            IdempotentOperation(change, again),
            context,
            database=self.maintenance,
            seconds=_SWITCH_SECONDS,
        )
        found, position = await self._reembedding(context, patient=phase == "status")
        token = self.answering.token(position)
        job = found.job if found.job is not None and found.job.tenant_id == tenant else None
        return pb.ReembedResponse(
            job=None if job is None else job_message(job, token if job.final else ""),
            active_model=found.active.name if found.active else "",
            active_dimensions=found.active.dimensions if found.active else 0,
            target_model=found.target.name if found.target else "",
            target_dimensions=found.target.dimensions if found.target else 0,
            embedded_count=found.embedded,
            pending_count=found.pending,
            consistency_token=token,
        )

    def _dimensions_of(self, checks: Checks, request: pb.ReembedRequest) -> int:
        """The dimensions of the requested model's vectors, with which this service must embed."""
        embedder = self.embedders.find(request.model, request.dimensions or None)
        if embedder is None:
            checks.add(
                "model",
                "cannot be used by this service: name its configured model, the offline one, or "
                "a model of the API in OPENAI_BASE_URL (with `dimensions` if its size is not "
                "known)",
            )
            checks.done()
            return 0
        return embedder.dimensions

    async def _reembedding(
        self, context: Context, *, patient: bool
    ) -> tuple[ReembeddingStatus, Position]:
        """The state of re-embedding after a step, and its point in time.

        Counting reads every text's key; unless `patient`, the numbers are left out if it is slow.
        """

        async def look(connection: Connection) -> tuple[ReembeddingStatus, Position]:
            return await phases.standing(connection), await current_position(connection)

        async def count(connection: Connection) -> ReembeddingStatus:
            return await phases.counted(connection, found)

        found, position = await self.maintenance.run(
            look, timeout=seconds_left(context, _SWITCH_SECONDS), repeatable=True
        )
        # After the commit, because writers of vectors wait for a change of model.
        left = seconds_left(context, _SWITCH_SECONDS)
        if patient:
            found = await self.maintenance.run(count, timeout=left, repeatable=True)
        else:
            # The step is done: a reply without the numbers is better than an error.
            with Tolerated(logger, "texts could not be counted"):
                found = await self.maintenance.run(
                    count, timeout=min(left / 2, _COUNT_OF_STEP_SECONDS), repeatable=True
                )
        return found, position

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, context: Context
    ) -> pb.ListSchedulesResponse:
        """The schedules of automatic upkeep, by name."""
        checks = Checks()
        tenant = current_call().principal.tenant_id
        page = self.answering.pages.open(checks, tenant, request)
        self.answering.admit_read(checks, request)

        async def work(connection: Connection) -> pb.ListSchedulesResponse:
            found = await self.schedules.statuses(
                connection, tenant, after=page.after or "", limit=page.size + 1
            )
            return pb.ListSchedulesResponse(
                schedules=[
                    pb.Schedule(
                        name=status.schedule.name,
                        cron=status.schedule.line,
                        last_run_at=timestamp(status.last_run_at),
                        next_run_at=timestamp(status.next_run_at),
                        last_job_id=str(status.last_job_id or ""),
                    )
                    for status in found[: page.size]
                ],
                next_page_token=page.seal(
                    found[page.size - 1].schedule.name if len(found) > page.size else None
                ),
            )

        return await self.answering.read(work, context)

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        """The cost of work, by user, kind, day and model."""
        checks = Checks()
        principal = current_call().principal
        wanted = UsageFilter(
            user_id=checks.identifier("user_id", request.user_id, required=False)
            or principal.user_id,
            kinds=checks.all_known("kinds", request.kinds, KINDS) or None,
            since=checks.moment("since", request, "since"),
            until=checks.moment("until", request, "until"),
        )
        by = checks.all_of("group_by", request.group_by, _DIMENSIONS)
        tenant = principal.tenant_id
        page = self.answering.pages.open(checks, tenant, request)
        self.answering.admit_read(checks, request)

        async def work(connection: Connection) -> pb.GetUsageResponse:
            # The total is that of the listed rows, whatever is charged meanwhile.
            async with connection.transaction():
                await usage.hold_still(connection)
                groups, more = await usage.sum_up(connection, tenant, wanted, by=by, **page.bounds)
                rows = [
                    pb.UsageRow(
                        user_id=group.user_id,
                        kind=group.kind,
                        day=group.day.isoformat() if group.day else "",
                        model=group.model,
                        usage=_usage_message(group.used),
                    )
                    for group in groups
                ]
                if not by and not rows:
                    rows = [pb.UsageRow(usage=job_pb2.Usage())]
                today = await usage.spent_today(connection, tenant)
                return pb.GetUsageResponse(
                    rows=rows,
                    next_page_token=page.seal(list(groups[-1].place) if more else None),
                    total=_usage_message(await usage.total(connection, tenant, wanted)),
                    daily_budget_usd=float(self.budget.daily_usd),
                    spent_today_usd=float(today.usd),
                )

        return await self.answering.read(work, context)

    async def RollbackSource(
        self, request: pb.RollbackSourceRequest, context: Context
    ) -> pb.RollbackSourceResponse:
        """Roll back everything that one source, one model or the models of some time taught."""
        checks, user_id = checks_of(request)
        source = RollbackTarget(
            since=checks.moment("since", request, "since"),
            until=checks.moment("until", request, "until"),
        )
        timed = source.since is not None or source.until is not None
        kind = request.WhichOneof("source")
        if timed and kind in ("conversation_id", "document_id", "job_id"):
            checks.add("since" if source.since else "until", f"cannot be combined with {kind}")
        match kind:
            case "model":
                model = checks.text("model", request.model, max_bytes=800, required=True)
                source = replace(source, model=model)
            case "prompt_version":
                version = checks.text(
                    "prompt_version", request.prompt_version, max_bytes=64, required=True
                )
                source = replace(source, prompt_version=version)
            case "conversation_id":
                source = RollbackTarget(
                    conversation_id=checks.identifier("conversation_id", request.conversation_id)
                )
            case "document_id":
                source = RollbackTarget(document_id=checks.uuid("document_id", request.document_id))
            case "job_id":
                source = RollbackTarget(job_id=checks.uuid("job_id", request.job_id))
            case _ if not timed:
                checks.add(
                    "source",
                    "is required: set conversation_id, document_id, job_id, model or "
                    "prompt_version, or since or until",
                )
        call = self.answering.admit(checks, user_id, request)

        async def change(user: UserRows) -> dict[str, int]:
            return await roll_back(
                user,
                source,
                actor=call.principal.subject,
                max_attempts=self.queue.max_attempts,
            )

        if request.dry_run:

            async def rehearse(connection: Connection) -> pb.RollbackSourceResponse:
                # A dry run is a real run that is rolled back, so that its counts are exact.
                async with connection.transaction(force_rollback=True):
                    counts = await change(connection.of(call.scope))
                position = await current_position(connection)
                return pb.RollbackSourceResponse(
                    counts=counts, consistency_token=self.answering.token(position)
                )

            return await with_keys(
                self.answering.keys,
                [call.scope],
                lambda: self.answering.removal.run(
                    rehearse, timeout=seconds_left(context, _ROLLBACK_SECONDS)
                ),
            )

        made, token = await self.answering.remove(
            call,
            change,
            context,
            touched=str(source.document_id or source.job_id or ""),
            seconds=_ROLLBACK_SECONDS,
        )
        return pb.RollbackSourceResponse(counts=made, consistency_token=token)

    async def _start(
        self,
        checks: Checks,
        request: pb.RunDecayRequest | pb.RunRetentionRequest | pb.ConsolidateRequest,
        context: Context,
        kind: str,
        asked: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Start upkeep of the user that a request names, or of all; the fields of the reply."""
        user_id = checks.identifier("user_id", request.user_id, required=False) or None
        identity = self.answering.identity(checks, request)
        work = self.upkeep.start(kind, current_call().principal.tenant_id, user_id, asked)
        job, token = await self.answering.change(
            identity, work, context, database=self.maintenance, seconds=_COUNTING_SECONDS
        )
        return {
            "job": job_message(job, token if job.final else ""),
            "counts": job.params.get("counts", {}),
            "consistency_token": token,
        }


def _usage_message(used: UsageTotals) -> job_pb2.Usage:
    return job_pb2.Usage(**{**asdict(used), "cost_usd": float(used.cost_usd)})
