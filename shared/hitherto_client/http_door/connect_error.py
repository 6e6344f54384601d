"""Errors in the form of the Connect protocol: a code by name, a message, and details."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from hitherto_client.calls import Metadata
from hitherto_client.errors import DETAILS, DOMAIN, Violation, details_of

STATUSES = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}
"""The HTTP status of each code, as the protocol says."""

_NAMES = {grpc.StatusCode.CANCELLED: "canceled"}


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """A detail of an error: a message in its binary form."""

    type: str
    """The full name of the message, as in `google.rpc.ErrorInfo`."""
    value: bytes

    def to_json(self) -> dict[str, Any]:
        """As the protocol sends it: unpadded base64, and JSON for people."""
        told: dict[str, Any] = {
            "type": self.type,
            "value": base64.b64encode(self.value).decode().rstrip("="),
        }
        if (message := self.message()) is not None:
            told["debug"] = json_format.MessageToDict(message)
        return told

    def message(self) -> Any:
        """The message, if its type is known; None otherwise."""
        kind = DETAILS.get(self.type)
        try:
            return None if kind is None else kind.FromString(self.value)
        except DecodeError:
            return None


class ConnectError(Exception):
    """A call that failed, as the caller is told.

    `code` is one of `STATUSES`, and `status` the HTTP status, unset: that of the code. `leading`
    and `trailing` are the metadata that the service sent first and last.
    """

    def __init__(
        self,
        code: str,
        message: str,
        details: Sequence[ErrorDetail] = (),
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        leading: Metadata = (),
        trailing: Metadata = (),
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.status = STATUSES[code] if status is None else status
        self.headers = dict(headers or {})
        self.leading = leading
        self.trailing = trailing
        if (seconds := self._retry_after()) is not None:
            self.headers.setdefault("retry-after", str(max(1, math.ceil(seconds))))

    def to_json(self) -> dict[str, Any]:
        """The body of the reply."""
        told: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            told["details"] = [detail.to_json() for detail in self.details]
        return told

    def _retry_after(self) -> float | None:
        for detail in self.details:
            if detail.type == "google.rpc.RetryInfo" and (told := detail.message()) is not None:
                return float(told.retry_delay.seconds + told.retry_delay.nanos / 1e9)
        return None


def refusal(
    code: str,
    message: str,
    reason: str,
    metadata: Mapping[str, str] | None = None,
    *,
    retry_after: int | None = None,
) -> ConnectError:
    """An error of the door's own, with the details that the services would give.

    `code` is one of `STATUSES`, `reason` an ErrorReason without its prefix. The same call may
    succeed after `retry_after` seconds; unset: it will not.
    """
    details = [_info(reason, metadata or {})]
    if retry_after is not None:
        delay = DETAILS["google.rpc.RetryInfo"]()
        delay.retry_delay.seconds = retry_after
        details.append(ErrorDetail("google.rpc.RetryInfo", delay.SerializeToString()))
    return ConnectError(code, message, details)


def invalid(violations: Sequence[Violation], reason: str = "INVALID_FIELD") -> ConnectError:
    """The error for fields of a request that cannot be read, all at once."""
    first = violations[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    bad = DETAILS["google.rpc.BadRequest"]()
    for each in violations:
        bad.field_violations.add(field=each.field, description=each.description, reason=reason)
    return ConnectError(
        "invalid_argument",
        f"{first.field}: {first.description}{more}",
        [
            _info(reason, {"field": first.field}),
            ErrorDetail("google.rpc.BadRequest", bad.SerializeToString()),
        ],
    )


def from_grpc(error: Any, service: str) -> ConnectError:
    """The error of a call that failed."""
    code: grpc.StatusCode = error.code() or grpc.StatusCode.UNKNOWN
    details = [ErrorDetail(each.TypeName(), each.value) for each in details_of(error)]
    name = _NAMES.get(code, code.name.lower())
    message = error.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in message:
        return refusal(name, message, "REQUEST_TOO_LARGE")
    if code is grpc.StatusCode.UNAVAILABLE and not details:
        # gRPC's own words name addresses behind the door.
        return ConnectError(
            name, f"the {service} service cannot be reached: is it running?", headers=_SOON
        )
    return ConnectError(
        name,
        message,
        details,
        leading=error.initial_metadata() or (),
        trailing=error.trailing_metadata() or (),
    )


_SOON = {"retry-after": "1"}


def _info(reason: str, metadata: Mapping[str, str]) -> ErrorDetail:
    info = DETAILS["google.rpc.ErrorInfo"](reason=reason, domain=DOMAIN, metadata=metadata)
    return ErrorDetail("google.rpc.ErrorInfo", info.SerializeToString())
