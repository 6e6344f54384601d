"""The error that a failed call raises, read from the `google.rpc` details of its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from hitherto_client.details import read_details

DOMAIN = "hitherto"
"""The domain of every ErrorInfo that the services themselves give."""


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

    def __str__(self) -> str:
        told = f"{self.code.name} {self.reason}".rstrip()
        lines = [f"{told}: {self.message}"]
        lines += [f"{violation.field}: {violation.description}" for violation in self.violations]
        return "\n".join(lines)


def read_error(
    call: Any, *, service: str = "", address: str = "", request_id: str = ""
) -> HithertoCallError:
    """The typed error behind a failed gRPC call.

    Args:
        call: What gRPC raised or returned for the call: it has a code, details and metadata.
        service: Name of the service, for the message.
        address: Address of the service, for the message.
        request_id: The id that the call carried.
    """
    error = HithertoCallError(
        code=call.code() or grpc.StatusCode.UNKNOWN,
        message=call.details() or "",
        service=service,
        address=address,
        request_id=request_id,
    )
    details = read_details(call)
    if details is None:
        return error
    info = details.info
    if info is not None and info.domain == DOMAIN:
        error.reason = info.reason
        error.metadata = dict(info.metadata)
    error.violations = tuple(
        Violation(violation.field, violation.description) for violation in details.violations
    )
    error.retry_after = details.retry_after
    return error
