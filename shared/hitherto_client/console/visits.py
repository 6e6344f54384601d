"""One request of somebody who has signed in, its menu, and the routes that lead to pages."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

import grpc
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.console.failures import Failure, explain
from hitherto_client.console.fields import FieldRefused, Fields, read_address, read_form
from hitherto_client.console.protection import comes_from_here
from hitherto_client.console.rendering import render
from hitherto_client.console.rights import Rights
from hitherto_client.console.second_person import to_second_person
from hitherto_client.console.sessions import ConsoleSession, ConsoleSessions, Notice
from hitherto_client.days import use_zone
from hitherto_client.errors import HithertoCallError

_OF_A_PERSON = (
    ("/memories", "Memories"),
    ("/review", "To check"),
    ("/changes", "What changed"),
    ("/timeline", "Timeline"),
    ("/conversations", "Conversations"),
    ("/documents", "Documents"),
    ("/profile", "Profile"),
    ("/told", "What the assistant is told"),
    ("/settings", "Settings"),
    ("/data", "Export and erase"),
)
_ELSEWHERE = {"/conversation": "/conversations"}
"""Pages that do not lie below the entry of the menu that they belong to."""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page that one may go to."""

    text: str
    address: str
    is_here: bool
    """It is open, or a page below it."""


@dataclass(frozen=True, slots=True)
class MenuGroup:
    """Pages about one person, or about everybody."""

    title: str
    entries: tuple[MenuEntry, ...]


def menu_for(rights: Rights, user: str, here: str, link: Callable[..., str]) -> list[MenuGroup]:
    """The menu of a page.

    `user` is the person whose data the page shows, `here` the path of the page, and `link` makes
    the address of a page about that person.
    """
    here = _ELSEWHERE.get(here, here)

    def entry(path: str, text: str, **fields: str) -> MenuEntry:
        is_here = here == path or here.startswith(f"{path}/")
        return MenuEntry(text, link(path, **fields), is_here)

    groups = []
    if user:
        groups.append(MenuGroup(user, tuple(entry(*page) for page in _OF_A_PERSON)))
    title = "Work" if rights.person else "Everybody"
    shared = tuple(entry(*page, user="") for page in _shared(rights))
    return [*groups, MenuGroup(title, shared)] if shared else groups


def _shared(rights: Rights) -> list[tuple[str, str]]:
    """The pages that are about nobody in particular."""
    pages = []
    if not rights.person:
        pages.append(("/people", "People"))
    if rights.everybody or rights.person:
        pages.append(("/jobs", "Jobs"))
    if rights.maintenance and rights.everybody:
        pages += [("/usage", "Usage"), ("/schedules", "Schedules")]
    if rights.admin and rights.everybody:
        pages.append(("/audit", "Audit log"))
    return pages


SESSION_COOKIE = "hitherto_console"
SIGN_IN = "/sign-in"
PAGE_SIZE = 25
"""Rows on one page of a list."""

NO_FORM = Fields({})


def base_of(request: Request) -> str:
    """Under which path the console is served; empty at the root."""
    return str(request.scope.get("root_path", ""))


def cookie_name(request: Request, name: str = SESSION_COOKIE) -> str:
    """The cookie's name; over TLS with the prefix that binds it to this host."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


@dataclass(frozen=True)
class Visit:
    """A request with the session that it belongs to."""

    request: Request
    session: ConsoleSession
    address: Fields
    """The fields of the address."""
    form: Fields
    """The fields of the form; none for a request that only looks."""
    user: str
    """The person whose data the page shows; empty if it shows nobody's."""
    erased: bool = False
    """Everything about that person was erased."""

    @property
    def client(self) -> AsyncHitherto:
        """Calls the services with the session's credential."""
        return self.session.client

    @property
    def rights(self) -> Rights:
        """What the session's credential may see and do."""
        return self.session.rights

    def named(self, name: str) -> str:
        """A part of the path, such as the id of a memory."""
        return str(self.request.path_params[name])

    def link(self, path: str, **fields: Any) -> str:
        """The address of a page, about the same person unless `user` says otherwise."""
        if self.rights.person:
            fields.pop("user", None)
        elif self.user:
            fields.setdefault("user", self.user)
        kept = {name: value for name, value in fields.items() if value not in (None, "", [])}
        address = self.base + quote(path)
        return f"{address}?{urlencode(kept, doseq=True)}" if kept else address

    @property
    def base(self) -> str:
        """Under which path the console is served; empty at the root."""
        return base_of(self.request)

    @property
    def here(self) -> str:
        """The path of the page within the console."""
        return self.request.url.path.removeprefix(self.base)

    @cached_property
    def menu(self) -> list[MenuGroup]:
        """The pages that this visitor may go to."""
        return menu_for(self.rights, self.user, self.here, self.link)

    @property
    def place(self) -> str:
        """The name of the entry of the menu that the page belongs to; empty if it is in none."""
        entries = (entry for group in self.menu for entry in group.entries)
        return next((entry.text for entry in entries if entry.is_here), "")

    def page(self, template: str, problem: Failure | None = None, /, **values: Any) -> Response:
        """A page with what every page shows; `problem` is why a form is shown again."""
        notices, self.session.notices = self.session.notices, []
        shown = {
            "visit": self,
            "rights": self.rights,
            "user": self.user,
            "link": self.link,
            "form_token": self.session.form_token,
            "notices": notices,
            "base": self.base,
            "problem": problem,
            **values,
        }
        return HTMLResponse(render(template, shown), problem.status if problem else 200)

    def go(self, path: str, notice: str = "", **fields: Any) -> Response:
        """Go on to another page, which says `notice`."""
        if notice:
            self.tell(notice)
        return RedirectResponse(self.link(path, **fields), 303)

    def go_back(self, path: str, notice: str, undo: str = "") -> Response:
        """Go on to where the form was, else to another page, which says `notice`.

        `path` counts if the form names none. `undo` is the path of the form that takes the change
        back.
        """
        self.tell(notice, undo)
        return RedirectResponse(self.came_from or self.link(path), 303)

    @property
    def came_from(self) -> str:
        """The address of the page whose form was sent; empty if it does not say."""
        named = self.form.text("back")
        return only_here(named, self.base) if named else ""

    @property
    def this_page(self) -> str:
        """The address of a page that only looks."""
        query = self.request.url.query
        return self.request.url.path + (f"?{query}" if query else "")

    def tell(self, text: str, undo: str = "") -> None:
        """Let the next page say something."""
        self.session.notices.append(Notice(text, undo, self.user, self.came_from))

    def spoken(self, statement: str) -> str:
        """A statement as the visitor reads it: addressed to whoever it is about."""
        return to_second_person(statement) if self.rights.person else statement

    def fail(self, failure: Failure) -> Response:
        """A page that says why the request was not carried out."""
        return self.page("failure.html", failure)


Show = Callable[[Visit], Awaitable[Response]]
ShowAgain = Callable[[Visit, Failure], Awaitable[Response]]
_CORRECTABLE = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
"""What whoever filled in a form can put right there."""


def look(path: str, show: Show, *, about_user: bool = True) -> Route:
    """A page that changes nothing."""
    return Route(path, _visited(show, about_user=about_user, changes=False), methods=["GET"])


def change(path: str, show: Show, *, about_user: bool = True) -> Route:
    """What a form of a page leads to. The form must carry the token of the session."""
    return Route(path, _visited(show, about_user=about_user, changes=True), methods=["POST"])


def or_again(save: Show, form: ShowAgain) -> Show:
    """Saves what a form says, or shows the form again with what the services refused."""

    async def show(visit: Visit) -> Response:
        try:
            return await save(visit)
        except HithertoCallError as error:
            if error.code not in _CORRECTABLE:
                raise
            return await form(visit, explain(error))

    return show


def _visited(
    show: Show, *, about_user: bool, changes: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        sessions: ConsoleSessions = request.app.state.sessions
        session = await sessions.find(request.cookies.get(cookie_name(request), ""))
        if session is None:
            return to_sign_in(request)
        visit = Visit(request, session, NO_FORM, NO_FORM, session.rights.person)
        try:
            visit = await _read(visit, changes=changes)
            if about_user and visit.user:
                state = await session.state_of(visit.user)
                use_zone(state.zone)
                visit = replace(visit, erased=state.erased)
            return _refusal(visit, about_user, changes) or await show(visit)
        except FieldRefused as error:
            return visit.fail(Failure(400, "Some of this cannot be used", str(error)))
        except HithertoCallError as error:
            failure = explain(error)
            if failure.status != 401:
                return visit.fail(failure)
        finally:
            await sessions.keep(session)
        await sessions.end(session)
        return to_sign_in(request)

    return serve


async def _read(visit: Visit, *, changes: bool) -> Visit:
    """The visit with what the browser sent."""
    address = read_address(visit.request)
    form = await read_form(visit.request) if changes else NO_FORM
    person = visit.rights.person or form.text("user") or address.text("user")
    return replace(visit, address=address, form=form, user=person)


def _refusal(visit: Visit, about_user: bool, changes: bool) -> Response | None:
    """Where a visit ends that must not be answered."""
    if changes:
        sent = visit.form.text("form_token").encode("utf-8", "surrogatepass")
        genuine = hmac.compare_digest(sent, visit.session.form_token.encode())
        if not (genuine and comes_from_here(visit.request)):
            return visit.fail(OUTDATED_FORM)
    named = {visit.form.text("user"), visit.address.text("user")} - {"", visit.user}
    if named and visit.rights.person:
        return visit.fail(
            Failure(403, "This credential shows one person only", "It belongs to somebody else.")
        )
    if about_user and not visit.user:
        return visit.go("/people")
    return None


OUTDATED_FORM = Failure(
    403,
    "This form is out of date",
    "Nothing was changed. Go back, load the page again and repeat it.",
)


def to_sign_in(request: Request) -> Response:
    """Ask for a credential; then go on with the page that was asked for."""
    base, wanted = base_of(request), ""
    if request.method == "GET" and request.url.path.rstrip("/") != base:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    form = base + SIGN_IN
    if request.headers.get("hx-request") == "true":
        # The part of a page that was asked for is not on that one.
        return Response(status_code=401, headers={"hx-redirect": form})
    return RedirectResponse(f"{form}?{urlencode({'next': wanted})}" if wanted else form, 303)


def only_here(target: str, base: str = "") -> str:
    """An address of these pages, which are served under `base`; the first page for any other."""
    local = target.startswith(f"{base}/") and not target.startswith(("//", "/\\"))
    return target if local and target.isprintable() and "\\" not in target else f"{base}/"
