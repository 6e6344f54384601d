"""The console as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from hitherto_client.console.failures import Failure
from hitherto_client.console.pages import (
    changes,
    conversations,
    data,
    documents,
    memories,
    memory,
    operations,
    profile,
    review,
    signing_in,
)
from hitherto_client.console.protection import protected
from hitherto_client.console.rendering import STATIC, render
from hitherto_client.console.sessions import ConsoleSessions
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.console.visits import base_of
from hitherto_client.web_server import MOST_REQUEST_BYTES

_PAGES = (
    signing_in,
    memories,
    memory,
    review,
    changes,
    conversations,
    documents,
    profile,
    data,
    operations,
)


class _Assets(StaticFiles):
    """Files whose addresses change with their content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        reply = await super().get_response(path, scope)
        if reply.status_code == 200:
            reply.headers["cache-control"] = "public, max-age=31536000, immutable"
        return reply


def make_app(target: ConsoleTarget, hosts: Iterable[str], sessions: Path | None = None) -> ASGIApp:
    """The console.

    Browsers may ask for it by one of `hosts`. Without a directory, `sessions` end with the process.

    Raises:
        OSError: The directory cannot be used.
        ValueError: Its key has other contents, or other users may read it.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await app.state.sessions.close()

    routes: list[BaseRoute] = [route for page in _PAGES for route in page.ROUTES]
    routes.append(Route("/health", _health))
    routes.append(Mount("/static", _Assets(directory=STATIC)))
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _not_found, Exception: _broken},
        lifespan=lifespan,
        max_body_size=MOST_REQUEST_BYTES,
    )
    app.state.target = target
    app.state.sessions = ConsoleSessions(target, sessions)
    # Around everything, so that pages about faults of the console are protected too.
    return protected(app, hosts)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: "There is no such page", 405: "This cannot be done here"}
    failure = Failure(
        error.status_code, titles.get(error.status_code, error.detail), "Go back, or start again."
    )
    reply = _bare(request, failure)
    # Such as the methods that there are, of 405.
    reply.headers.update(error.headers or {})
    return reply


async def _broken(request: Request, error: Exception) -> Response:
    return _bare(
        request,
        Failure(500, "The console failed", "This is a fault of the console; its log says more."),
    )


def _bare(request: Request, failure: Failure) -> Response:
    values = {"failure": failure, "base": base_of(request)}
    return HTMLResponse(render("bare_failure.html", values), failure.status)
