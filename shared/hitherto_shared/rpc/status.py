"""The only translator from errors to gRPC statuses with `google.rpc` details."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn
from urllib.parse import quote

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from hitherto_shared.database import faults
from hitherto_shared.errors import (
    DOMAIN,
    FieldViolation,
    HithertoError,
    InternalError,
    InvalidRequest,
    TooLate,
)
from hitherto_shared.rpc.call import Context
from hitherto_shared.rpc.repeated_lines import call_lines
from hitherto_shared.telemetry import without_message

logger = logging.getLogger("hitherto.rpc")

_MAX_TRAILER_BYTES = 6_500
"""Maximum size of a status in trailing metadata, of which gRPC clients accept 8 KiB by default:
beyond that a caller would only learn that the trailer was too large."""
_MAX_TEXT_BYTES = 300
_MAX_FIELD_BYTES = 200
_MAX_METADATA_BYTES = 1_024  # the longest id


def as_hitherto_error(error: BaseException, request_id: str) -> HithertoError:
    """The error for the caller; our own faults are logged here and only here."""
    if isinstance(error, HithertoError):
        return error
    if (translated := faults.translate(error)) is not None:
        kind = faults.sqlstate_of(error)
        call_lines.say(logging.WARNING, f"database: {type(error).__name__}", kind)
        return translated
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return TooLate("the call took longer than its deadline", reason="DEADLINE_EXCEEDED")
    # The type and the location, not the text: a driver's message may quote a user's row. The id is
    # included for calls that failed before they had a caller.
    logger.error(
        "unexpected %s",
        type(error).__name__,
        exc_info=without_message(error),
        extra={"request_id": request_id},
    )
    return InternalError(request_id)


def to_status(error: HithertoError) -> status_pb2.Status:
    """`error` as a `google.rpc.Status` with ErrorInfo and, if they fit, the other details."""
    message = _cut(error.message, _MAX_TEXT_BYTES)
    metadata = {
        key: _cut(value, _MAX_FIELD_BYTES if key == "field" else _MAX_METADATA_BYTES)
        for key, value in error.metadata.items()
    }
    status = status_pb2.Status(code=code_pb2.Code.Value(error.code.name), message=message)
    bad_request = None
    if isinstance(error, InvalidRequest):
        bad_request = error_details_pb2.BadRequest()
        room = _MAX_TRAILER_BYTES - len(quote(message)) - _in_base64(status.ByteSize() + 600)
        for violation in error.violations:
            field_violation = _violation(violation)
            room -= _in_base64(field_violation.ByteSize() + 4)
            if room < 0 and bad_request.field_violations:
                break
            bad_request.field_violations.append(field_violation)
        if (omitted := error.total - len(bad_request.field_violations)) > 0:
            metadata["omitted"] = str(omitted)
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    ]
    if bad_request is not None:
        details.append(bad_request)
    if error.retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_after * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def _violation(violation: FieldViolation) -> error_details_pb2.BadRequest.FieldViolation:
    return error_details_pb2.BadRequest.FieldViolation(
        field=_cut(violation.field, _MAX_FIELD_BYTES),
        description=_cut(violation.description, _MAX_TEXT_BYTES),
        reason=violation.reason,
    )


def _cut(text: str, most: int) -> str:
    """`text` in at most `most` bytes of UTF-8; of a long one both ends are kept, as for a path."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = most - len("…".encode())
    head, tail = data[: kept // 2], data[-(kept // 2) :]
    return f"{head.decode(errors='ignore')}…{tail.decode(errors='ignore')}"


def _in_base64(size: int) -> int:
    return (size + 2) // 3 * 4


async def abort(context: Context, error: HithertoError) -> NoReturn:
    """End the call with `error`; never returns."""
    await context.abort_with_status(rpc_status.to_status(to_status(error)))
    raise AssertionError("abort_with_status returned")
