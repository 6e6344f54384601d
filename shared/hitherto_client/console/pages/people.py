"""Whose memory to look at: the first page of those who may see more than one person."""

from __future__ import annotations

from starlette.responses import Response

from hitherto_client.console.visits import PAGE_SIZE, Visit, look


async def _first(visit: Visit) -> Response:
    return visit.go("/memories" if visit.user else "/people")


async def _people(visit: Visit) -> Response:
    department = visit.address.text("department")
    found = await visit.client.profiles(department=department, page_size=PAGE_SIZE).page(
        visit.address.text("page")
    )
    return visit.page("people.html", found=found, department=department)


ROUTES = (
    look("/", _first, about_user=False),
    look("/people", _people, about_user=False),
)
