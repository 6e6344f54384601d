"""Work in the background: jobs, and dead letters to be tried again."""

from __future__ import annotations

from typing import Any, get_args

from starlette.responses import Response

from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look
from hitherto_client.words import JobState

_STATES: tuple[str, ...] = get_args(JobState)
_KINDS = (
    "memory-extraction",
    "document-ingestion",
    "consolidation",
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
    look("/jobs", _jobs, about_user=False),
    change("/jobs/retry-dead", _retry_dead, about_user=False),
    look("/jobs/{job_id}", _job, about_user=False),
    change("/jobs/{job_id}/retry", _retry, about_user=False),
    change("/jobs/{job_id}/cancel", _cancel, about_user=False),
)
