"""The one translator from errors to gRPC statuses with `google.rpc` details."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from recollect_shared.database import faults
from recollect_shared.errors import (
    DOMAIN,
    InternalError,
    InvalidRequest,
    RecollectError,
    TooLate,
)
from recollect_shared.rpc.call import Context

logger = logging.getLogger("recollect.rpc")

_MAX_VIOLATIONS = 100
"""Details travel in trailing metadata, which is small."""


def as_recollect_error(error: BaseException, request_id: str) -> RecollectError:
    """What the caller is told about `error`; faults of ours are logged here and only here."""
    if isinstance(error, RecollectError):
        return error
    if (translated := faults.translate(error)) is not None:
        logger.warning("database: %s", type(error).__name__, extra={"sqlstate": _sqlstate(error)})
        return translated
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return TooLate("the call took longer than its deadline", reason="DEADLINE_EXCEEDED")
    # The type and the place, not the text: a driver's message may quote a user's row.
    logger.error("unexpected %s", type(error).__name__, exc_info=_without_message(error))
    return InternalError(request_id)


def to_status(error: RecollectError) -> status_pb2.Status:
    """`error` as a `google.rpc.Status` with ErrorInfo and, where they fit, the other details."""
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    ]
    if isinstance(error, InvalidRequest):
        details.append(
            error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(
                        field=violation.field, description=violation.description
                    )
                    for violation in error.violations[:_MAX_VIOLATIONS]
                ]
            )
        )
    if error.retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_after * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=_code_number(error.code), message=error.message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


async def abort(context: Context, error: RecollectError) -> NoReturn:
    """End the call with `error`; never returns."""
    await context.abort_with_status(rpc_status.to_status(to_status(error)))
    raise AssertionError("abort_with_status returned")


def _code_number(code: grpc.StatusCode) -> int:
    return int(code_pb2.Code.Value(code.name))


def _sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _without_message(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """`exc_info` whose traceback is whole and whose text is the type's name alone."""
    silent = RuntimeError(type(error).__name__)
    return (RuntimeError, silent, error.__traceback__)
