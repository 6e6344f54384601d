"""Signing in with a credential of the services, and out again."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import replace
from weakref import WeakValueDictionary

import grpc
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hitherto_client.console.failures import explain
from hitherto_client.console.fields import FieldRefused, read_address, read_form
from hitherto_client.console.protection import comes_from_here
from hitherto_client.console.rendering import render
from hitherto_client.console.rights import SignInRefused, find_rights
from hitherto_client.console.sessions import ConsoleSession, ConsoleSessions
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.console.visits import (
    SIGN_IN,
    Visit,
    base_of,
    change,
    cookie_name,
    only_here,
)
from hitherto_client.errors import HithertoCallError
from hitherto_client.web_server import neighbourhood

_FORM_COOKIE = "hitherto_console_form"
_AT_ONCE = asyncio.Semaphore(4)
"""Strangers can try credentials; this is how many at a time."""
_OF_ONE_ADDRESS = 2
"""As many of them as one address may try, so that others need not wait for all of its tries."""
MOST_OPEN_TRIES = 100
"""Those of one address that have no answer: each is carried out even if its sender has left."""
_MOST_FORM_BYTES = 32 * 1024
_MOST_CREDENTIAL_CHARS = 8192
"""No credential is longer, and gRPC takes seconds to refuse what it cannot send."""


class _Tries:
    """Those of one address."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(_OF_ONE_ADDRESS)
        self.open = 0


_addresses: WeakValueDictionary[str, _Tries] = WeakValueDictionary()
_UNKNOWN = "The services do not accept this credential."


async def _show(request: Request) -> Response:
    sessions: ConsoleSessions = request.app.state.sessions
    if await sessions.find(request.cookies.get(cookie_name(request), "")):
        return RedirectResponse(f"{base_of(request)}/", 303)
    return _form(request, only_here(_wanted(request), base_of(request)))


async def _sign_in(request: Request) -> Response:
    sessions: ConsoleSessions = request.app.state.sessions
    try:
        form = await read_form(request)
    except FieldRefused as error:
        return _form(request, f"{base_of(request)}/", problem=str(error))
    wanted = only_here(form.text("next"), base_of(request))
    browser = request.cookies.get(cookie_name(request, _FORM_COOKIE), "")
    sent = form.text("form_token").encode("utf-8", "surrogatepass")
    genuine = hmac.compare_digest(sent, sessions.sign_in_token(browser).encode())
    if not (browser and genuine and comes_from_here(request)):
        return _form(request, wanted, problem="The form was out of date. Sign in once more.")
    credential, person = form.text("credential"), form.text("person")
    if len(credential) > _MOST_CREDENTIAL_CHARS:
        return _form(request, wanted, person=person, problem=_UNKNOWN)
    address = neighbourhood(request.client.host if request.client else "")
    tries = _addresses.setdefault(address, _Tries())
    if tries.open >= MOST_OPEN_TRIES:
        told = "Too many are signing in from this address. Try again in a minute."
        return _form(request, wanted, person=person, problem=told, status=429)
    tries.open += 1
    try:
        async with tries.turns, _AT_ONCE:
            session = await _begin(request, credential, person)
    except (SignInRefused, ValueError) as error:
        return _form(request, wanted, person=person, problem=str(error))
    except HithertoCallError as error:
        failure = explain(error)
        told = f"{failure.title}. {failure.text}"
        if error.code is grpc.StatusCode.UNAUTHENTICATED:
            told = _UNKNOWN
            if not credential:
                told = "The services ask for a credential. Paste an API key or a token."
        return _form(request, wanted, person=person, problem=told)
    finally:
        tries.open -= 1
    reply = RedirectResponse(wanted, 303)
    _set_cookie(request, reply, cookie_name(request), session.id)
    return reply


async def _begin(request: Request, credential: str, person: str) -> ConsoleSession:
    target: ConsoleTarget = request.app.state.target
    client = target.client(credential)
    try:
        rights = await find_rights(client, person or target.user, credential)
        if target.user and rights.person != target.user:
            # The one person that is shown.
            rights = replace(rights, person=target.user, everybody=False)
    except BaseException:
        await client.close()
        raise
    sessions: ConsoleSessions = request.app.state.sessions
    before = await sessions.find(request.cookies.get(cookie_name(request), ""))
    if before is not None:
        await sessions.end(before)
    return await sessions.begin(credential, client, rights)


def _form(
    request: Request, wanted: str, *, person: str = "", problem: str = "", status: int = 401
) -> Response:
    sessions: ConsoleSessions = request.app.state.sessions
    name = cookie_name(request, _FORM_COOKIE)
    browser = request.cookies.get(name) or secrets.token_urlsafe(24)
    values = {
        "base": base_of(request),
        "form_token": sessions.sign_in_token(browser),
        "wanted": wanted,
        "person": person,
        "problem": problem,
        "target": request.app.state.target,
    }
    reply = HTMLResponse(render("sign_in.html", values), status if problem else 200)
    _set_cookie(request, reply, name, browser)
    return reply


def _set_cookie(request: Request, reply: Response, name: str, value: str) -> None:
    secure = request.url.scheme == "https"
    reply.set_cookie(name, value, path="/", secure=secure, httponly=True, samesite="strict")


def _wanted(request: Request) -> str:
    try:
        return read_address(request).text("next")
    except FieldRefused:
        return ""


async def _sign_out(visit: Visit) -> Response:
    sessions: ConsoleSessions = visit.request.app.state.sessions
    await sessions.end(visit.session)
    reply = RedirectResponse(visit.base + SIGN_IN, 303)
    # A browser ignores a cookie of this name that is not marked as it was set.
    secure = visit.request.url.scheme == "https"
    name = cookie_name(visit.request)
    reply.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
    return reply


ROUTES = (
    Route(SIGN_IN, _show, methods=["GET"]),
    Route(SIGN_IN, _sign_in, methods=["POST"], max_body_size=_MOST_FORM_BYTES),
    change("/sign-out", _sign_out, about_user=False),
)
