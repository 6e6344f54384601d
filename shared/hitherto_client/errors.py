"""The error that a failed call raises, read from the `google.rpc` details of its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import grpc
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    text_format,
)
from google.protobuf.message import DecodeError

DOMAIN = "hitherto"
"""The domain of every ErrorInfo that the services themselves give."""

_NOT_MADE = "failed to connect to all addresses"
"""What gRPC says if no connection was made. That one was lost, it tells without this."""
_CLOSES = (
    "it closes the connection, as with TLS for callers without HITHERTO_TLS_CA_FILE or, if it asks "
    "for one, without a client certificate that it trusts; so does a proxy whose service is not "
    "running"
)
_NO_CONNECTION = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet"),
    ("Hostname Verification Check failed", "its certificate is for another host"),
    ("CERTIFICATE_VERIFY_FAILED", "HITHERTO_TLS_CA_FILE holds no authority of its certificate"),
    ("WRONG_VERSION_NUMBER", "it answers without TLS: unset HITHERTO_TLS_CA_FILE"),
    ("Socket closed", _CLOSES),
    ("Connection reset by peer", _CLOSES),
)
"""Why gRPC made no connection, in its own words, and what that means."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One invalid field of a request."""

    field: str
    """Its path in the request, such as `transcripts[3].messages[0].content`."""
    description: str
    """What is wrong with it and what would be right."""


@dataclass(eq=False)
class HithertoCallError(Exception):
    """A call failed for good, after retries where these could help."""

    code: grpc.StatusCode
    message: str
    """The service's own words, or gRPC's where the call did not reach it."""
    reason: str = ""
    """An ErrorReason without its prefix; empty if the error did not come from the services."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the reason is about; see the example at each ErrorReason."""
    violations: tuple[Violation, ...] = ()
    retry_after: float | None = None
    """Seconds after which the service suggests another try; None if it suggests none."""
    service: str = ""
    """Which service was called: `retrieval` or `extraction`."""
    address: str = ""
    """The address at which it was called."""
    request_id: str = ""
    """The `x-request-id` under which the service logged the call."""

    def __post_init__(self) -> None:
        # An exception that goes to another process, as from a pool of workers, is made of these.
        super().__init__(*(getattr(self, each.name) for each in fields(self)))

    @property
    def name(self) -> str:
        """The code and the reason, once if both are the same word."""
        return " ".join(dict.fromkeys(filter(None, (self.code.name, self.reason))))

    @property
    def no_connection(self) -> str:
        """Why a service that is there cannot be connected to; empty if that is not the matter."""
        unreachable = self.code is grpc.StatusCode.UNAVAILABLE and not self.reason
        if not unreachable or _NOT_MADE not in self.message:
            return ""
        return next((why for told, why in _NO_CONNECTION if told in self.message), "")

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.message}"]
        # The message names the first violation.
        named = (f"{each.field}: {each.description}" for each in self.violations)
        lines += [each for each in named if each not in self.message]
        if self.code is grpc.StatusCode.UNAVAILABLE and self.service and not self.reason:
            remedy = self.no_connection or (
                f"start it with `hitherto up`, or set HITHERTO_{self.service.upper()}_ADDRESS"
            )
            lines.append(
                f"The {self.service} service cannot be reached at {self.address}: {remedy}"
            )
        if self.code is grpc.StatusCode.UNIMPLEMENTED and self.service and not self.reason:
            lines.append(
                f"The server at {self.address} is no {self.service} service, or an older one: check"
                f" HITHERTO_{self.service.upper()}_ADDRESS"
            )
        return "\n".join(lines)


def read_error(
    call: Any, *, service: str = "", address: str = "", request_id: str = ""
) -> HithertoCallError:
    """The typed error behind a failed gRPC call.

    `call` is what gRPC raised or returned: it has a code, details and metadata.
    """
    error = HithertoCallError(
        code=call.code() or grpc.StatusCode.UNKNOWN,
        message=call.details() or "",
        service=service,
        address=address,
        request_id=request_id,
    )
    details = details_of(call)
    if not details:
        # gRPC itself refuses what is larger than either side takes, and gives no reason.
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in error.message:
            return replace(error, reason="REQUEST_TOO_LARGE")
        return error
    try:
        return replace(error, **_said_by(details))
    except DecodeError:
        return error


def details_of(call: Any) -> Sequence[Any]:
    """The details of the status with which a call failed, each as `Any`; empty without any."""
    packed = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin")
    if not isinstance(packed, bytes):
        return ()
    try:
        status = _STATUS.FromString(packed)
    except DecodeError:
        return ()
    # Details that contradict the status were not written by our services.
    told = (status.code, status.message)
    code = call.code() or grpc.StatusCode.UNKNOWN
    return status.details if told == (code.value[0], call.details() or "") else ()


def _said_by(details: Sequence[Any]) -> dict[str, Any]:
    """What details say, by the fields of HithertoCallError."""
    found: dict[str, Any] = {}
    for detail in details:
        name = detail.TypeName()
        if name == "google.rpc.ErrorInfo":
            info = DETAILS[name].FromString(detail.value)
            if info.domain == DOMAIN:
                found |= {"reason": info.reason, "metadata": dict(info.metadata)}
        elif name == "google.rpc.BadRequest":
            bad = DETAILS[name].FromString(detail.value).field_violations
            found["violations"] = tuple(Violation(each.field, each.description) for each in bad)
        elif name == "google.rpc.RetryInfo":
            delay = DETAILS[name].FromString(detail.value).retry_delay
            found["retry_after"] = max(0.0, delay.seconds + delay.nanos / 1e9)
    return found


# The few fields of `google.rpc` that errors of the services have, in a pool of their own: the
# default pool may hold the full definitions, which another package brings, and takes no others.
_DEFINITIONS = """
name: "hitherto_client/error_details.proto" package: "google.rpc" syntax: "proto3"
dependency: "google/protobuf/any.proto" dependency: "google/protobuf/duration.proto"
message_type {
  name: "Status"
  field { name: "code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field {
    name: "details" number: 3 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".google.protobuf.Any"
  }
}
message_type {
  name: "ErrorInfo"
  field { name: "reason" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "domain" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field {
    name: "metadata" number: 3 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".google.rpc.ErrorInfo.MetadataEntry"
  }
  nested_type {
    name: "MetadataEntry"
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
    options { map_entry: true }
  }
}
message_type {
  name: "RetryInfo"
  field {
    name: "retry_delay" number: 1 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".google.protobuf.Duration"
  }
}
message_type {
  name: "BadRequest"
  field {
    name: "field_violations" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".google.rpc.BadRequest.FieldViolation"
  }
  nested_type {
    name: "FieldViolation"
    field { name: "field" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "description" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "reason" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
  }
}
"""


def _classes(*names: str) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    file = text_format.Parse(_DEFINITIONS, descriptor_pb2.FileDescriptorProto())
    pool.AddSerializedFile(file.SerializeToString())
    found = (pool.FindMessageTypeByName(f"google.rpc.{name}") for name in names)
    return {each.full_name: message_factory.GetMessageClass(each) for each in found}


DETAILS = _classes("ErrorInfo", "BadRequest", "RetryInfo", "Status")
"""The messages of `google.rpc` that errors of the services are made of, by their full names."""
_STATUS = DETAILS["google.rpc.Status"]
