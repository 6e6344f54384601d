"""The `google.rpc` details of an error, read without the packages that define these messages.

A pool of our own holds the few fields that errors of the services have: the default pool may hold
the full definitions, which another package brings, and takes no second ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import DecodeError

_FIELD = descriptor_pb2.FieldDescriptorProto
_STATUS_KEY = "grpc-status-details-bin"


@dataclass(slots=True)
class Details:
    """The details that the services attach."""

    info: Any | None = None
    """The ErrorInfo."""
    violations: Sequence[Any] = ()
    """The field violations of the BadRequest."""
    retry_after: float | None = None
    """Seconds of the RetryInfo."""


def read_details(call: Any) -> Details | None:
    """The details of a failed call; None if it has none that belong to its status."""
    packed = dict(call.trailing_metadata() or ()).get(_STATUS_KEY)
    if not isinstance(packed, bytes):
        return None
    found = Details()
    try:
        status = _STATUS.FromString(packed)
        # Details that contradict the status were not written by our services.
        if (status.code, status.message) != (call.code().value[0], call.details() or ""):
            return None
        for detail in status.details:
            name = detail.TypeName()
            if name == "google.rpc.ErrorInfo":
                found.info = _ERROR_INFO.FromString(detail.value)
            elif name == "google.rpc.BadRequest":
                found.violations = tuple(_BAD_REQUEST.FromString(detail.value).field_violations)
            elif name == "google.rpc.RetryInfo":
                delay = _RETRY_INFO.FromString(detail.value).retry_delay
                found.retry_after = max(0.0, delay.seconds + delay.nanos / 1e9)
    except DecodeError:
        return None
    return found


def _classes() -> tuple[Any, ...]:
    file = descriptor_pb2.FileDescriptorProto(
        name="hitherto_client/error_details.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=["google/protobuf/any.proto", "google/protobuf/duration.proto"],
    )

    def message(into: Any, name: str, *fields: tuple[str, int, Any, str]) -> Any:
        made = into.add(name=name)
        for field, number, kind, of in fields:
            repeated = of.startswith("repeated")
            made.field.add(
                name=field,
                number=number,
                type=kind,
                label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
                type_name=of.removeprefix("repeated").strip() or None,
            )
        return made

    text, nested = _FIELD.TYPE_STRING, _FIELD.TYPE_MESSAGE
    message(
        file.message_type,
        "Status",
        ("code", 1, _FIELD.TYPE_INT32, ""),
        ("message", 2, text, ""),
        ("details", 3, nested, "repeated .google.protobuf.Any"),
    )
    info = message(
        file.message_type,
        "ErrorInfo",
        ("reason", 1, text, ""),
        ("domain", 2, text, ""),
        ("metadata", 3, nested, "repeated .google.rpc.ErrorInfo.MetadataEntry"),
    )
    entry = message(info.nested_type, "MetadataEntry", ("key", 1, text, ""), ("value", 2, text, ""))
    entry.options.map_entry = True
    message(
        file.message_type,
        "RetryInfo",
        ("retry_delay", 1, nested, ".google.protobuf.Duration"),
    )
    bad = message(
        file.message_type,
        "BadRequest",
        ("field_violations", 1, nested, "repeated .google.rpc.BadRequest.FieldViolation"),
    )
    message(bad.nested_type, "FieldViolation", ("field", 1, text, ""), ("description", 2, text, ""))
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return tuple(
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"google.rpc.{name}"))
        for name in ("Status", "ErrorInfo", "RetryInfo", "BadRequest")
    )


_STATUS, _ERROR_INFO, _RETRY_INFO, _BAD_REQUEST = _classes()
