"""GetUsage of MaintenanceService: the cost of work."""

from __future__ import annotations

from dataclasses import asdict

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.budget import SHARES, Budget
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.pipeline.embedding_charges import SEARCH
from hitherto_extraction.storage import usage
from hitherto_extraction.storage.usage import UsageFilter, UsageTotals
from hitherto_shared.convert import enum_words
from hitherto_shared.database.pool import Connection
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.validation import Checks

KINDS = (*SHARES, SEARCH, "decay", "retention")
_DIMENSIONS = enum_words(pb.UsageDimension.DESCRIPTOR, "USAGE_DIMENSION_")


class UsageCalls:
    """Implements GetUsage."""

    _answering: Answering
    _pages: PageTokens
    _budget: Budget

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
        page = self._pages.open(checks, tenant, request)
        checks.done()
        self._answering.check_token(request.consistency_token)

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
                        usage=_message(group.used),
                    )
                    for group in groups
                ]
                if not by and not rows:
                    rows = [pb.UsageRow(usage=job_pb2.Usage())]
                today = await usage.spent_today(connection, tenant)
                return pb.GetUsageResponse(
                    rows=rows,
                    next_page_token=page.seal(list(groups[-1].place) if more else None),
                    total=_message(await usage.total(connection, tenant, wanted)),
                    daily_budget_usd=float(self._budget.daily_usd),
                    spent_today_usd=float(today.usd),
                )

        return await self._answering.read(work, context)


def _message(used: UsageTotals) -> job_pb2.Usage:
    return job_pb2.Usage(**{**asdict(used), "cost_usd": float(used.cost_usd)})
