"""What operators look at: jobs, cost, schedules, the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from starlette.responses import Response

from hitherto_client.console.charts import Charts, usage_charts
from hitherto_client.console.rendering import now
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look
from hitherto_client.declared import RPCS
from hitherto_client.results import UsageRow
from hitherto_client.words import JobState, UsageDimension

_DIMENSIONS: tuple[str, ...] = get_args(UsageDimension)
_USUAL_DAYS = 30
_ROWS = 100
_PAGES_OF_CHARTS = 10


async def _usage(visit: Visit) -> Response:
    given = visit.address
    dimensions: list[Any] = given.words("by", _DIMENSIONS) or ["day", "kind"]
    since = given.day("since") or now() - timedelta(days=_USUAL_DAYS)
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
        drawn=await _charts(visit, since, given.day("until")),
        dimensions=_DIMENSIONS,
        by=dimensions,
        since=since,
        until=given.text("until"),
    )


async def _charts(visit: Visit, since: datetime, until: datetime | None) -> Charts:
    """Usage by day and kind, whatever the table is grouped by."""
    rows: list[UsageRow] = []
    page = ""
    for _ in range(_PAGES_OF_CHARTS):
        report = await visit.client.get_usage(
            visit.user, since=since, until=until, group_by=["day", "kind"], page_token=page
        )
        rows += report.rows
        page = report.next_page_token
        if not page:
            break
    # The days of usage are those of UTC; the last one ends before `until`.
    last = min(until - timedelta(microseconds=1), now()) if until else now()
    return usage_charts(rows, since.astimezone(UTC).date(), last.astimezone(UTC).date())


async def _schedules(visit: Visit) -> Response:
    schedules = [one async for one in visit.client.schedules()]
    return visit.page("schedules.html", schedules=schedules)


async def _audit(visit: Visit) -> Response:
    given = visit.address
    events = visit.client.audit_events(
        visit.user,
        actor=given.text("actor"),
        methods=[_called(name) for name in given.listed("method")],
        created_after=given.day("after"),
        created_before=given.day("before"),
        page_size=PAGE_SIZE * 2,
    )
    chosen = {name: given.text(name) for name in ("actor", "method", "after", "before")}
    return visit.page("audit.html", found=await events.page(given.text("page")), chosen=chosen)


def _called(name: str) -> str:
    """The name of a call as entries hold it, given as they show it; anything else as it is."""
    if name not in RPCS:
        return name
    _, method = RPCS[name]
    return f"/{method.containing_service.full_name}/{name}"


_STATES: tuple[str, ...] = get_args(JobState)
_KINDS = (
    "memory-extraction",
    "document-ingestion",
    "consolidation",
    "reconciliation",
    "decay",
    "retention",
    "reembedding",
)


async def _jobs(visit: Visit) -> Response:
    given = visit.address
    states: list[Any] = given.words("state", _STATES)
    kind = given.word("kind", _KINDS)
    listed = visit.client.jobs(
        visit.user,
        states=states,
        kinds=[kind] if kind else (),
        conversation=given.text("conversation"),
        page_size=PAGE_SIZE,
    )
    return visit.page(
        "jobs.html",
        found=await listed.page(given.text("page")),
        states=_STATES,
        kinds=_KINDS,
        state=states[0] if len(states) == 1 else "",
        kind=kind or "",
    )


async def _job(visit: Visit) -> Response:
    return visit.page("job.html", job=await visit.client.get_job(visit.named("job_id")))


async def _retry(visit: Visit) -> Response:
    job = await visit.client.retry_job(visit.named("job_id"))
    return visit.go(f"/jobs/{job.id}", "Queued again.")


async def _cancel(visit: Visit) -> Response:
    job = await visit.client.cancel_job(visit.named("job_id"))
    return visit.go(f"/jobs/{job.id}", "Cancelled.")


async def _retry_dead(visit: Visit) -> Response:
    count = await visit.client.retry_jobs(visit.user, states=["dead"])
    return visit.go("/jobs", f"Queued again: {count}.")


ROUTES = (
    look("/usage", _usage, about_user=False),
    look("/schedules", _schedules, about_user=False),
    look("/audit", _audit, about_user=False),
    look("/jobs", _jobs, about_user=False),
    change("/jobs/retry-dead", _retry_dead, about_user=False),
    look("/jobs/{job_id}", _job, about_user=False),
    change("/jobs/{job_id}/retry", _retry, about_user=False),
    change("/jobs/{job_id}/cancel", _cancel, about_user=False),
)
