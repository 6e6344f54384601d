"""What operators look at: cost, schedules, the audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

from starlette.responses import Response

from hitherto_client.console import bars
from hitherto_client.console.visits import PAGE_SIZE, Visit, look
from hitherto_client.words import UsageDimension

_DIMENSIONS: tuple[str, ...] = get_args(UsageDimension)
_USUAL_DAYS = 30
_ROWS = 100


async def _usage(visit: Visit) -> Response:
    given = visit.address
    dimensions: list[Any] = given.words("by", _DIMENSIONS) or ["day", "kind"]
    since = given.day("since") or bars.now() - timedelta(days=_USUAL_DAYS)
    report = await visit.client.get_usage(
        visit.user,
        since=since,
        until=given.day("until"),
        group_by=dimensions,
        page_size=_ROWS,
        page_token=given.text("page"),
    )
    return visit.page(
        "usage.html",
        report=report,
        dimensions=_DIMENSIONS,
        by=dimensions,
        since=since,
        until=given.text("until"),
    )


async def _schedules(visit: Visit) -> Response:
    schedules = [one async for one in visit.client.schedules()]
    return visit.page("schedules.html", schedules=schedules)


async def _audit(visit: Visit) -> Response:
    given = visit.address
    events = visit.client.audit_events(
        visit.user,
        actor=given.text("actor"),
        methods=given.listed("method"),
        created_after=given.day("after"),
        created_before=given.day("before"),
        page_size=PAGE_SIZE * 2,
    )
    chosen = {name: given.text(name) for name in ("actor", "method", "after", "before")}
    return visit.page("audit.html", found=await events.page(given.text("page")), chosen=chosen)


ROUTES = (
    look("/usage", _usage, about_user=False),
    look("/schedules", _schedules, about_user=False),
    look("/audit", _audit, about_user=False),
)
