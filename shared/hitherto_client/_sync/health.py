# Generated from ../_async/health.py by tools/unasync.py. Do not edit.
"""The standard health check of both services."""

from __future__ import annotations

import time
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from hitherto_client._sync.calling import Calling
from hitherto_client.calls import Endpoint
from hitherto_client.errors import read_error
from hitherto_client.results.upkeep import Health

_SECONDS = 5.0
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_NEEDED = {"extraction": ("language-model", "embedder")}
"""What a service reports the health of beside its own."""


class HealthChecks(Calling):
    """Whether the services are there."""

    def health(self, *, timeout: float | None = None) -> dict[str, Health]:
        """The answer of each service, by its name; an outage is an answer too.

        `timeout` is the client's, else 5 seconds, for each check.
        """
        seconds = timeout if timeout is not None else (self._target.timeout or _SECONDS)
        found = {}
        for endpoint in (self._target.retrieval, self._target.extraction):
            # Straight on the channel: a check that is repeated would hide what it is to show.
            channel = self.connection.channels[endpoint.service]
            found[endpoint.service] = _check(channel, endpoint, seconds)
        return found


def _check(channel: grpc.Channel, endpoint: Endpoint, seconds: float) -> Health:
    # The fields of HealthCheckRequest and HealthCheckResponse have the numbers and types of these
    # messages, which come with protobuf.
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=StringValue.SerializeToString,
        response_deserializer=Int32Value.FromString,
    )
    started = time.monotonic()
    status = _status(call, "", seconds)
    took = time.monotonic() - started
    serving = status == "SERVING"
    without = []
    for name in _NEEDED.get(endpoint.service, ()) if serving else ():
        if _status(call, name, seconds) == "NOT_SERVING":
            without.append(name)
    return Health(endpoint.service, endpoint.address, serving, status, took, tuple(without))


def _status(call: Any, name: str, seconds: float) -> str:
    try:
        reply = call(StringValue(value=name), timeout=seconds)
    except grpc.RpcError as error:
        return read_error(error).code.name
    return _STATUSES[reply.value] if reply.value in range(len(_STATUSES)) else str(reply.value)
