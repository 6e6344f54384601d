"""The health service (grpc.health.v1): whether this process serves.

It replaces the stock one, which holds its lock while it writes to a watcher, so that a watcher that
does not read keeps the process from ever reporting that it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto_shared.rpc.call import Context

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]


class HealthService(health_pb2_grpc.HealthServicer):
    """Reports the status of the process and its services."""

    def __init__(self, names: Iterable[str]) -> None:
        """Nothing serves yet.

        Args:
            names: Full names of the services; the process itself is "".
        """
        self._names = tuple(names)
        self._statuses: dict[str, int] = dict.fromkeys(
            self._names, health_pb2.HealthCheckResponse.NOT_SERVING
        )
        self._ended = False
        self._changed = asyncio.Event()

    def say(self, status: int) -> None:
        """Set the status of the process and all of its services."""
        self._set(dict.fromkeys(self._names, status))

    def say_of(self, name: str, status: int) -> None:
        """Set the status of a dependency of the process; its own stays unchanged."""
        self._set({name: status})

    def end(self) -> None:
        """Report for good that nothing serves any more."""
        self._set(dict.fromkeys(self._statuses, health_pb2.HealthCheckResponse.NOT_SERVING))
        self._ended = True

    def _set(self, statuses: Mapping[str, int]) -> None:
        if self._ended:
            return
        self._statuses |= statuses
        # Whoever watches looks again.
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(  # noqa: N802 - the name in the protocol
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """The present status; NOT_FOUND for an unknown service, as the protocol requires."""
        status = self._statuses.get(request.service)
        if status is None:
            # Not one of our errors: the reasons of our contract are not part of this protocol.
            await context.abort(grpc.StatusCode.NOT_FOUND, "this process has no such service")
        return _response(status)

    async def Watch(  # noqa: N802 - the name in the protocol
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The present status and every change of it, without end."""
        last: int | None = None
        while True:
            # First: a change while the status is being sent must not be missed.
            changed = self._changed
            status = self._statuses.get(
                request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            )
            if status != last:
                yield _response(status)
                last = status
            await changed.wait()


def _response(status: int) -> health_pb2.HealthCheckResponse:
    sent: Any = status  # an int on the wire, a type of its own in the stubs
    return health_pb2.HealthCheckResponse(status=sent)
