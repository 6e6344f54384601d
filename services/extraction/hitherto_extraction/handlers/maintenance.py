"""MaintenanceService: upkeep across users, cost, and roll-back of a source."""

from __future__ import annotations

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto.v1 import maintenance_service_pb2_grpc
from hitherto_extraction.budget import Budget
from hitherto_extraction.consolidation.calls import Consolidations
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.consolidation import ConsolidationCalls
from hitherto_extraction.handlers.reembedding import ReembeddingCalls, ReembeddingDependencies
from hitherto_extraction.handlers.rollback import RollbackCalls
from hitherto_extraction.handlers.usage import UsageCalls
from hitherto_extraction.job_calls import StartedUpkeep
from hitherto_extraction.upkeep.calls import UpkeepOnDemand
from hitherto_extraction.upkeep.schedules import DECAY, RETENTION, Schedules
from hitherto_shared.convert import job_message, timestamp
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.validation import Checks

_PAGE_SIZE = 10
_MAX_PAGE_SIZE = 200
_COUNTING_SECONDS = 30.0
"""Counting across all users of a tenant may take longer than other calls."""


class MaintenanceHandlers(
    ConsolidationCalls,
    ReembeddingCalls,
    RollbackCalls,
    UsageCalls,
    maintenance_service_pb2_grpc.MaintenanceServiceServicer,
):
    """Implements MaintenanceService."""

    def __init__(
        self,
        answering: Answering,
        pages: PageTokens,
        upkeep: UpkeepOnDemand,
        schedules: Schedules,
        reembedding: ReembeddingDependencies,
        consolidations: Consolidations,
        removal: Database,
        budget: Budget,
    ) -> None:
        self._answering = answering
        self._pages = pages
        self._upkeep = upkeep
        self._schedules = schedules
        self._reembedding = reembedding
        self._consolidations = consolidations
        self._removal = removal
        self._budget = budget

    async def RunDecay(self, request: pb.RunDecayRequest, context: Context) -> pb.RunDecayResponse:
        """Archive memories by the rules of decay, for all users or one."""
        started, token = await self._start(request, context, "RunDecay", DECAY)
        return pb.RunDecayResponse(
            job=job_message(started.job, token if started.job.final else ""),
            counts=started.counts,
            consistency_token=token,
        )

    async def RunRetention(
        self, request: pb.RunRetentionRequest, context: Context
    ) -> pb.RunRetentionResponse:
        """Delete items past their retention, for all users or one."""
        started, token = await self._start(request, context, "RunRetention", RETENTION)
        return pb.RunRetentionResponse(
            job=job_message(started.job, token if started.job.final else ""),
            counts=started.counts,
            consistency_token=token,
        )

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, context: Context
    ) -> pb.ListSchedulesResponse:
        """The schedules of automatic upkeep, by name."""
        checks = Checks()
        size = checks.limit(
            "page_size", request.page_size, default=_PAGE_SIZE, maximum=_MAX_PAGE_SIZE
        )
        tenant = current_call().principal.tenant_id
        page = self._pages.bind(tenant, request)
        after = page.open(checks, request.page_token)
        checks.done()
        self._answering.check_token(request.consistency_token)

        async def work(connection: Connection) -> pb.ListSchedulesResponse:
            found = await self._schedules.statuses(
                connection, tenant, after=after or "", limit=size + 1
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
                    for status in found[:size]
                ],
                next_page_token=page.seal(
                    found[size - 1].schedule.name if len(found) > size else None
                ),
            )

        return await self._answering.read(work, context)

    async def _start(
        self,
        request: pb.RunDecayRequest | pb.RunRetentionRequest,
        context: Context,
        rpc: str,
        kind: str,
    ) -> tuple[StartedUpkeep, str]:
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id, required=False) or None
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        outcome = await self._answering.change(
            self._answering.identity(rpc, key, request),
            self._upkeep.start(
                kind,
                current_call().principal.tenant_id,
                user_id=user_id,
                dry_run=request.dry_run,
            ),
            context,
            database=self._upkeep.database,
            seconds=_COUNTING_SECONDS,
        )
        return outcome.made, self._answering.token(outcome.position)
