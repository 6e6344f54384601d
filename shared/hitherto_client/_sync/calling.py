# Generated from ../_async/calling.py by tools/unasync.py. Do not edit.
"""How the client's methods call: a connection made on demand, reads that see own writes, lists."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import grpc

from hitherto.v1 import job_pb2
from hitherto_client._sync.connection import Connection
from hitherto_client.declared import DeclaredMethod
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.search import Page
from hitherto_client.target import Target
from hitherto_client.tokens import OwnWrites
from hitherto_client.wire import read

Item = TypeVar("Item")
Reply = TypeVar("Reply")
Declaration = TypeVar("Declaration", bound=Callable[..., Any])


class Calling:
    """What the methods by topic share."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tokens = OwnWrites()
        self._closed = False
        self._opened: Connection | None = None
        self._opening = threading.Lock()

    @property
    def connection(self) -> Connection:
        """The stubs of every RPC, for what has no method, with the same deadlines and retries.

        It is made by the first call, whose event loop it then belongs to.

        Raises:
            ValueError: The client is closed.
        """
        with self._opening:
            if self._closed:
                raise ValueError("the client is closed")
            if self._opened is None:
                self._opened = Connection(self._target)
            return self._opened

    def _read(
        self,
        call: Callable[..., Reply],
        request: Any,
        user: str,
        timeout: float | None,
    ) -> Reply:
        """Read what includes this client's own writes for the user."""
        token = self._tokens.of(user)
        request.consistency_token = token
        try:
            return call(request, timeout=timeout)
        except HithertoCallError as error:
            if not token or error.reason != "INVALID_CONSISTENCY_TOKEN":
                raise
        # It was made with a secret that the services no longer have.
        self._tokens.drop(user)
        request.consistency_token = ""
        return call(request, timeout=timeout)

    def _find(
        self,
        call: Callable[..., Reply],
        request: Any,
        user: str,
        timeout: float | None,
    ) -> Reply | None:
        """Read one thing; None if there is none."""
        try:
            return self._read(call, request, user, timeout)
        except HithertoCallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND or not error.reason:
                raise
            return None

    def _write(
        self,
        call: Callable[..., Reply],
        request: Any,
        user: str,
        timeout: float | None,
    ) -> Reply:
        """Change something; later reads of the user, or of anybody if it is empty, include it."""
        begun = self._tokens.begin()
        reply = call(request, timeout=timeout)
        self._tokens.note(user, getattr(reply, "consistency_token", ""), begun=begun)
        return reply

    def _hear_of(self, job: job_pb2.Job | None) -> None:
        """If there is a job and it has ended, reads of its user include what it did."""
        if job is not None:
            self._tokens.note(job.user_id, job.consistency_token)


class Pages(Iterator[Item]):
    """A list that is fetched page by page as you iterate over it.

    Iterate over it for every item, or ask for single pages with `page`.
    """

    def __init__(self, fetch: Callable[[str], Page[Item]]) -> None:
        self._fetch = fetch
        self._page: Page[Item] | None = None
        self._place = 0
        self._total_size: int | None = None

    @property
    def total_size(self) -> int | None:
        """How many items there are on all pages, as the last page said.

        None before the first page is fetched, and for lists that are not counted.
        """
        return self._total_size

    def page(self, token: str = "") -> Page[Item]:
        """One page; the iteration does not move.

        Args:
            token: `next_page_token` of the page before. Empty: the first page.

        Raises:
            HithertoCallError: The page could not be fetched.
        """
        page = self._fetch(token)
        self._total_size = page.total_size
        return page

    def __next__(self) -> Item:
        while self._page is None or self._place == len(self._page.items):
            if self._page is not None and not self._page.next_page_token:
                raise StopIteration
            self._page = self.page(self._page.next_page_token if self._page else "")
            self._place = 0
        self._place += 1
        return self._page.items[self._place - 1]


def rpc(
    name: str, answer: str = "", *, changes: str = "", by_key: bool = False, **fixed: Any
) -> Callable[[Declaration], Declaration]:
    """Make a method of its declaration: its parameters are sent, and the reply is read.

    A method that may return None does so if there is no such thing, or memory is switched off.

    Args:
        name: The RPC.
        answer: The field of the reply that is returned. Unset: the whole reply.
        changes: The field of the request that takes the parameters that are none of the request's.
            They, and the paths in `clear`, are its update mask.
        by_key: Whether mappings among these are changed key by key; other keys stay as they are.
        fixed: Fields of the request that no parameter sets.
    """

    def make(declaration: Declaration) -> Declaration:
        method = DeclaredMethod(declaration, name, answer, changes, by_key=by_key, fixed=fixed)

        @functools.wraps(declaration)
        def call(self: Calling, *args: Any, **named: Any) -> Any:
            request, user, timeout = method.asked(self, args, named)
            stub = method.call(self.connection)
            if not method.may_be_none:
                through = self._read if method.reads else self._write
                reply = through(stub, request, user, timeout)
                self._hear_of(getattr(reply, "job", None))
                return method.answered(reply)
            reply = self._find(stub, request, user, timeout)
            return method.answered(reply) if reply and not reply.reason else None

        return cast(Declaration, call)

    return make


def pages(name: str) -> Callable[[Declaration], Declaration]:
    """Make a method that lists page by page of its declaration; `name` is that of the RPC."""

    def make(declaration: Declaration) -> Declaration:
        method = DeclaredMethod(declaration, name)

        @functools.wraps(declaration)
        def call(self: Calling, *args: Any, **named: Any) -> Pages[Any]:
            request, user, timeout = method.asked(self, args, named)

            def fetch(token: str) -> Page[Any]:
                asked = type(request)()
                asked.CopyFrom(request)
                if token:
                    asked.page_token = token
                reply = self._read(method.call(self.connection), asked, user, timeout)
                return Page(
                    items=tuple(read(method.kind, row) for row in getattr(reply, method.rows)),
                    next_page_token=reply.next_page_token,
                    total_size=getattr(reply, "total_size", None),
                    reason=getattr(reply, "reason", ""),
                )

            return Pages(fetch)

        return cast(Declaration, call)

    return make
