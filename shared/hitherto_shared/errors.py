"""All errors that callers can get, each with its gRPC status and reason.

The tree:

    HithertoError
    ├── InvalidRequest          INVALID_ARGUMENT     with every violation at once
    ├── NotAuthenticated        UNAUTHENTICATED
    ├── NotPermitted            PERMISSION_DENIED
    ├── NotFound                NOT_FOUND            also for another owner's resource
    ├── AlreadyExists           ALREADY_EXISTS
    ├── WrongState              FAILED_PRECONDITION
    ├── Conflict                ABORTED              retry the whole read-modify-write
    ├── Exhausted               RESOURCE_EXHAUSTED   retry later
    ├── Unavailable             UNAVAILABLE          retry later
    ├── TooLate                 DEADLINE_EXCEEDED
    │   └── WorkTooLong         the service itself took the time, not the database
    ├── NotYetAvailable         UNIMPLEMENTED
    └── InternalError           INTERNAL             our fault; the text only names the log entry

Handlers raise these; `hitherto_shared.rpc` alone turns them into a status.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import grpc

DOMAIN = "hitherto"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One violation in a request, with the caller's field names (`transcripts[3].user_id`).

    Attributes:
        field: Path of the field.
        description: What it must be instead.
        reason: Name from `ErrorReason`.
        metadata: The metadata that `ErrorReason` documents for the reason, besides the field.
    """

    field: str
    description: str
    reason: str = "INVALID_FIELD"
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


class HithertoError(Exception):
    """The base of all errors for callers.

    Attributes:
        code: The gRPC status.
        reason: UPPER_SNAKE name from `ErrorReason`, sent as `ErrorInfo.reason`.
        message: Public text: the fault and the remedy. Never contents of memories.
        metadata: The variable parts of the text, for machines.
        retry_after: Seconds after which the same call may succeed, or None if it will not.
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after


class InvalidRequest(HithertoError):
    """The request itself is invalid; it changed nothing and will never succeed unchanged."""

    code = grpc.StatusCode.INVALID_ARGUMENT

    def __init__(self, violations: Sequence[FieldViolation], *, uncounted: int = 0) -> None:
        """All violations, at least one, and the number of further ones that are not listed.

        Unless they share a reason, it is `INVALID_FIELD`.
        """
        first = violations[0]
        self.total = len(violations) + uncounted
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        alike = {violation.reason for violation in violations} == {first.reason}
        super().__init__(
            f"{first.field}: {first.description}{more}",
            reason=first.reason if alike else "INVALID_FIELD",
            metadata=(first.metadata if alike else {}) or {"field": first.field},
        )
        self.violations = list(violations)


class NotAuthenticated(HithertoError):
    """There is no credential, or it is not valid. The text never says which.

    Attributes:
        why: The reason for the log alone, in fixed words with nothing of the credential.
    """

    code = grpc.StatusCode.UNAUTHENTICATED

    def __init__(
        self,
        message: str = "a valid credential is required: send metadata "
        "`authorization: Bearer <API key>`",
        *,
        why: str = "",
    ) -> None:
        super().__init__(message, reason="CREDENTIAL_INVALID")
        self.why = why


class NotPermitted(HithertoError):
    """The credential is valid but does not permit this call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class NotFound(HithertoError):
    """The named resource does not exist, or belongs to another tenant or user."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(HithertoError):
    """The name is already in use."""

    code = grpc.StatusCode.ALREADY_EXISTS


class WrongState(HithertoError):
    """The resource is not in a state that permits this; retrying alone does not help."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Conflict(HithertoError):
    """A concurrent change came first: read again, then retry."""

    code = grpc.StatusCode.ABORTED


class Exhausted(HithertoError):
    """A limit of this service is reached; try again later."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(HithertoError):
    """A dependency of this service is unreachable; try again later."""

    code = grpc.StatusCode.UNAVAILABLE


class TooLate(HithertoError):
    """The deadline of the call passed before the answer was ready."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class WorkTooLong(TooLate):
    """This service's own work took all the time; the database was waiting for it meanwhile."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(
            f"{what} took longer than its limit of {seconds:g} s, without waiting for the database",
            reason="DEADLINE_EXCEEDED",
        )


class NotYetAvailable(HithertoError):
    """The contract has this RPC, but this version does not offer it yet."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(HithertoError):
    """A fault of the service. The caller gets the id of the log entry, never its text."""

    code = grpc.StatusCode.INTERNAL

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"internal error; the service's log has the details under request id {request_id}",
            reason="INTERNAL",
            metadata={"error_id": request_id},
        )


def not_found(kind: str, name: object) -> NotFound:
    """The error for a memory, conversation or document that the user does not have."""
    return NotFound(
        f"this user has no such {kind}",
        reason=f"{kind.upper()}_NOT_FOUND",
        metadata={f"{kind}_id": str(name)},
    )


def invalid(
    field: str,
    description: str,
    *,
    reason: str = "INVALID_FIELD",
    metadata: Mapping[str, str] | None = None,
) -> InvalidRequest:
    """A single violation as an error, for checks that stand alone."""
    return InvalidRequest([FieldViolation(field, description, reason, metadata or {})])
