"""The call being answered: who asks, under which id. One context variable for handlers and logs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc

from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.tenancy import act_for

Context = grpc.aio.ServicerContext[Any, Any]
"""What handlers receive from gRPC."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call after the gates."""

    method: str
    request_id: str
    principal: Principal


_current: ContextVar[Call] = ContextVar("hitherto_call")


def current_call() -> Call:
    """The call this task is answering; only handlers and what they call may ask."""
    return _current.get()


def maybe_current_call() -> Call | None:
    """The call this task is answering, or None in background work."""
    return _current.get(None)


def enter(call: Call) -> None:
    """Make `call` the current one of this task (gRPC runs every call in a task of its own).

    What it asks of the database is asked for its tenant.
    """
    _current.set(call)
    act_for(call.principal.tenant_id)


def seconds_left(context: Context, at_most: float) -> float:
    """Seconds until the caller's deadline, never more than `at_most`."""
    remaining = context.time_remaining()
    return at_most if remaining is None else max(0.0, min(remaining, at_most))
