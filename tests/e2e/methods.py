"""Every RPC of the contract, from the descriptors, and a way to call any of them with anything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from hitherto.v1 import (
    error_reason_pb2,
    extraction_service_pb2,
    maintenance_service_pb2,
    memory_service_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
    session_service_pb2,
)
from hitherto_shared.rpc.planned import PLANNED
from tests.e2e.conftest import Services

Answer = TypeVar("Answer")

SERVICES: list[ServiceDescriptor] = [
    retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    extraction_service_pb2.DESCRIPTOR.services_by_name["ExtractionService"],
    memory_service_pb2.DESCRIPTOR.services_by_name["MemoryService"],
    session_service_pb2.DESCRIPTOR.services_by_name["SessionService"],
    maintenance_service_pb2.DESCRIPTOR.services_by_name["MaintenanceService"],
    privacy_service_pb2.DESCRIPTOR.services_by_name["PrivacyService"],
]


@dataclass(frozen=True)
class Method:
    """One RPC."""

    name: str
    """As in `RetrievalService/GetContext`."""
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool

    @property
    def path(self) -> str:
        return f"/hitherto.v1.{self.name}"

    def kind_of_call(self, channel: grpc.aio.Channel) -> Callable[..., Any]:
        """What makes the stub of it on a channel."""
        asks, answers = (
            "stream" if streams else "unary"
            for streams in (self.client_streaming, self.server_streaming)
        )
        make: Callable[..., Any] = getattr(channel, f"{asks}_{answers}")
        return make


METHODS = {
    f"{service.name}/{method.name}": Method(
        f"{service.name}/{method.name}",
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        method.client_streaming,
        method.server_streaming,
    )
    for service in SERVICES
    for method in service.methods
}
ENDLESS = {"RetrievalService/WatchMemories"}
"""Streams that go on for as long as anybody reads: of these, `call` takes the first message."""
OFFERED = [method for name, method in METHODS.items() if name not in PLANNED]
every_offered_method = pytest.mark.parametrize(
    "method", OFFERED, ids=[method.name.partition("/")[2] for method in OFFERED]
)


@dataclass(frozen=True)
class Refusal:
    """A status with its details."""

    code: grpc.StatusCode
    message: str
    reason: str
    metadata: dict[str, str]
    fields: dict[str, str]
    """Description by field, of the BadRequest."""
    retry_after: float | None
    everything: str
    """The whole status as text, to look for what must not be there."""


async def call(
    services: Services,
    method: Method,
    request: Message | bytes,
    *,
    metadata: Sequence[tuple[str, str]] = (),
    timeout: float = 120.0,
) -> list[Any]:
    """The answers of one call; `request` may be bytes that are no message at all."""
    channel = (
        services.retrieval_channel
        if method.name.startswith("RetrievalService/")
        else services.extraction_channel
    )
    data = request if isinstance(request, bytes) else request.SerializeToString()
    start = method.kind_of_call(channel)(
        method.path,
        request_serializer=lambda given: given,
        response_deserializer=method.response.FromString,
    )

    async def requests() -> AsyncIterator[bytes]:
        yield data

    going = start(
        requests() if method.client_streaming else data, metadata=metadata, timeout=timeout
    )
    if method.name in ENDLESS:
        first = await going.read()
        if first is not grpc.aio.EOF:
            going.cancel()
            return [first]
    if method.server_streaming:
        return [response async for response in going]
    return [await going]


_BY_RPC = {name.partition("/")[2]: (name, method) for name, method in METHODS.items()}
_STUBS = {
    "RetrievalService": "retrieval",
    "ExtractionService": "extraction",
    "MemoryService": "memory",
    "MaintenanceService": "maintenance",
    "PrivacyService": "privacy",
}


async def ask(services: Services, rpc: str, **fields: Any) -> Any:
    """The reply to a call with these fields; it is about Ana, unless they name somebody else."""
    name, method = _BY_RPC[rpc]
    if "user_id" in method.request.DESCRIPTOR.fields_by_name:
        fields.setdefault("user_id", "ana")
    stub = getattr(services, _STUBS[name.partition("/")[0]])
    return await getattr(stub, rpc)(method.request(**fields))


async def insist(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Call again for as long as the answer is to come back later, as a client does.

    A busy machine may answer that time ran out; the call therefore needs an idempotency key.
    """
    while True:
        try:
            return await ask()
        except grpc.aio.AioRpcError as error:
            later = read_refusal(error).retry_after
            if later is None and error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            await asyncio.sleep(later or 0.1)


async def outcome(services: Services, method: Method, request: Message | bytes) -> grpc.StatusCode:
    """The status of one call, whatever it answers."""
    try:
        await call(services, method, request)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def refused(
    services: Services,
    method: Method,
    request: Message | bytes,
    *,
    metadata: Sequence[tuple[str, str]] = (),
    timeout: float = 120.0,
) -> Refusal:
    """How a call was refused, with details as `ErrorReason` documents them.

    A client stream goes on after a bad item: there it is how its only item was refused, unless
    that was no message at all.
    """
    try:
        (reply,) = await call(services, method, request, metadata=metadata, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        return documented(read_refusal(error))
    assert method.client_streaming, f"{method.name} was not refused"
    return read_item_error(reply)


def read_refusal(error: grpc.aio.AioRpcError | grpc.Call) -> Refusal:
    """The status of `error` with its details; `reason` is empty without an ErrorInfo."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    reason, retry_after = "", None
    metadata: dict[str, str] = {}
    fields: dict[str, str] = {}
    for detail in status.details if status is not None else []:
        info = error_details_pb2.ErrorInfo()
        bad = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            assert info.domain == "hitherto"
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad):
            fields = {found.field: found.description for found in bad.field_violations}
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToMilliseconds() / 1000
    return Refusal(
        error.code(),
        error.details() or "",
        reason,
        metadata,
        fields,
        retry_after,
        f"{error.details()} {status}",
    )


def read_item_error(reply: Any) -> Refusal:
    """The error of the only item of a client stream."""
    (error,) = reply.errors
    (code,) = [code for code in grpc.StatusCode if code.value[0] == error.code]
    fields = {found.field: found.description for found in error.field_violations}
    taken = reply.saved_count if hasattr(reply, "saved_count") else reply.accepted_count
    assert (taken, reply.rejected_count) == (0, 1)
    assert f"ERROR_REASON_{error.reason}" in list(error_reason_pb2.ErrorReason.keys()), error
    assert EXAMPLES[error.reason][0] == code.name, error
    return Refusal(code, error.message, error.reason, {}, fields, None, str(reply))


def documented(refusal: Refusal) -> Refusal:
    """`refusal`, held against the comment beside its reason in error_reason.proto."""
    assert f"ERROR_REASON_{refusal.reason}" in list(error_reason_pb2.ErrorReason.keys()), refusal
    code, keys, retryable = EXAMPLES[refusal.reason]
    assert refusal.code.name == code, refusal
    assert set(refusal.metadata) - {"omitted"} == keys, refusal
    assert (refusal.retry_after is not None) == retryable, refusal
    assert bool(refusal.fields) == (refusal.code is grpc.StatusCode.INVALID_ARGUMENT), refusal
    return refusal


def _examples() -> dict[str, tuple[str, set[str], bool]]:
    """By reason: the status, the metadata keys and whether RetryInfo comes along."""
    text = (Path(__file__).parents[2] / "protos/hitherto/v1/error_reason.proto").read_text("utf-8")
    found = {}
    for comment, name in re.findall(r"((?:  //[^\n]*\n)+)  ERROR_REASON_(\w+) = \d+;", text):
        prose = " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
        code = re.match(r"([A-Z_]+)(, with RetryInfo)?:", prose)
        example = re.search(r'"metadata": \{(.*?)\}', prose)
        if code and example:
            keys = set(re.findall(r'"(\w+)":', example[1]))
            found[name] = (code[1], keys, code[2] is not None)
    return found


EXAMPLES = _examples()
