"""The current call: its caller and id, in one context variable for handlers and logs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc

from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.tenancy import act_for
from hitherto_shared.shares import work_for

Context = grpc.aio.ServicerContext[Any, Any]
"""What handlers receive from gRPC."""


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted call."""

    method: str
    request_id: str
    principal: Principal


_current: ContextVar[Call] = ContextVar("hitherto_call")
_request_id: ContextVar[str | None] = ContextVar("hitherto_request_id", default=None)


def current_call() -> Call:
    """The call of this task; only for handlers and the code they call."""
    return _current.get()


def maybe_current_call() -> Call | None:
    """The call of this task, or None in background work."""
    return _current.get(None)


def enter(call: Call) -> None:
    """Make `call` the current one of this task (gRPC runs every call in a task of its own).

    Its database access is on behalf of its tenant, and its share that of its tenant and person.
    """
    _current.set(call)
    _request_id.set(call.request_id)
    act_for(call.principal.tenant_id)
    work_for(call.principal.user_id)


def name_request(request_id: str) -> None:
    """Set the id of this task's call for logs, before its caller is known."""
    _request_id.set(request_id)


def current_request_id() -> str | None:
    """The id of this task's call, admitted or not; None in background work."""
    return _request_id.get()


CALL_SECONDS = 5.0
"""Time limit of a call that needs no model, whatever the caller's deadline."""


def seconds_left(context: Context, at_most: float | None = None) -> float:
    """Seconds until the caller's deadline, at most `at_most`, by default `CALL_SECONDS`."""
    most = CALL_SECONDS if at_most is None else at_most
    remaining = context.time_remaining()
    return most if remaining is None else max(0.0, min(remaining, most))
