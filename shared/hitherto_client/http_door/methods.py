"""What the door serves: every RPC of the contract, from its descriptors."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory

from hitherto.v1 import access_pb2
from hitherto_client.calls import changes_nothing, default_seconds
from hitherto_client.declared import RPCS


@dataclass(frozen=True, slots=True)
class DoorMethod:
    """An RPC."""

    path: str
    """As in `/hitherto.v1.RetrievalService/GetContext`, for HTTP and for gRPC."""
    service: str
    """The process that answers it: `retrieval` or `extraction`."""
    request: Any
    """The class of its requests."""
    response: Any
    """The class of its replies."""
    by_get: bool
    """Whether GET may call it: it has no side effects, and needs no scope but READ."""
    takes_stream: bool
    gives_stream: bool
    seconds: float | None
    """The deadline of calls that name none; None for streams, which have none."""

    @property
    def streams(self) -> bool:
        """Whether requests or replies come in a stream."""
        return self.takes_stream or self.gives_stream


def contract_methods() -> dict[str, DoorMethod]:
    """Every RPC of the contract, by path."""
    found = {}
    for stub, method in RPCS.values():
        path = f"/{method.containing_service.full_name}/{method.name}"
        reads = changes_nothing(path)
        streams = method.client_streaming or method.server_streaming
        scope = method.GetOptions().Extensions[access_pb2.access].scope
        found[path] = DoorMethod(
            path,
            # The extraction service offers all others.
            "retrieval" if stub == "retrieval" else "extraction",
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
            reads and not streams and scope == access_pb2.ACCESS_SCOPE_READ,
            method.client_streaming,
            method.server_streaming,
            None if streams else default_seconds(path, reads=reads),
        )
    return found


def what_exists(methods: Mapping[str, DoorMethod], path: str) -> str:
    """What to ask for in place of a path that does not exist."""
    service, _, name = path.strip("/").partition("/")
    by_name = {each.rpartition("/")[2]: each for each in methods}
    if near := difflib.get_close_matches(name[:50], by_name, n=1, cutoff=0.75):
        return f"did you mean {by_name[near[0]]}?"
    of_service = [each for each in methods if each.startswith(f"/{service}/")]
    if of_service:
        return f"{service} has {', '.join(each.rpartition('/')[2] for each in of_service)}"
    services = dict.fromkeys(each.split("/")[1] for each in methods)
    return (
        "RPCs are at POST /SERVICE/METHOD, with the services "
        f"{', '.join(services)}; /docs and /openapi.json list them"
    )
