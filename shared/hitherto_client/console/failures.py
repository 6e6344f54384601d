"""Failed calls as pages that say what happened and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from hitherto_client.errors import HithertoCallError, Violation


@dataclass(frozen=True, slots=True)
class Failure:
    """What a page says about a request that was not carried out."""

    status: int
    """The HTTP status."""
    title: str
    text: str
    """What it means and what to do; may be empty if there are violations."""
    violations: tuple[Violation, ...] = ()
    reason: str = ""
    """The reason that the services gave, for whoever looks into it."""
    request_id: str = ""


_BY_REASON: dict[str, tuple[int, str, str]] = {
    "SCOPE_MISSING": (
        403,
        "Your credential does not allow this",
        "It lacks the scope that this needs. Sign in with one that has it.",
    ),
    "USER_NOT_ALLOWED": (
        403,
        "Your credential does not reach this person",
        "It may act for others only, or the person does not exist.",
    ),
    "DEPARTMENT_NOT_ALLOWED": (
        403,
        "Your credential does not reach this department",
        "It is bound to other departments.",
    ),
    "CAPABILITY_MISSING": (
        403,
        "Your credential does not allow this",
        "Profiles of others, departments and access levels need the capability profiles.manage.",
    ),
    "MEMORY_NOT_FOUND": (404, "There is no such memory", "It may belong to another person."),
    "CONVERSATION_NOT_FOUND": (
        404,
        "There is no such conversation",
        "It was deleted, or it belongs to another person.",
    ),
    "JOB_NOT_FOUND": (404, "There is no such job", "It ended long ago, or is not yours to see."),
    "VERSION_MISMATCH": (
        409,
        "Somebody else has changed this meanwhile",
        "Load the page again, look at what is there now, and repeat your change.",
    ),
    "USER_ERASED": (
        409,
        "This person was erased",
        "Nothing can be stored about them until an administrator reinstates them.",
    ),
    "MEMORY_DISABLED": (
        409,
        "Memory is switched off",
        "Nothing is read or learnt about this person. The settings switch it on again.",
    ),
    "MEMORY_STATUS_CONFLICT": (
        409,
        "The memory's status does not allow this",
        "It may have been replaced or changed meanwhile. Load the page again.",
    ),
    "JOB_STATE_CONFLICT": (
        409,
        "The job's state does not allow this",
        "It has gone on meanwhile. Load the page again.",
    ),
    "INVALID_PAGE_TOKEN": (
        400,
        "This page of the list is no longer there",
        "Start again from the first page.",
    ),
    "RATE_LIMITED": (429, "Too many requests", "Wait a moment and try again."),
}

_BY_CODE: dict[grpc.StatusCode, tuple[int, str]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (422, "Some of this cannot be used"),
    grpc.StatusCode.PERMISSION_DENIED: (403, "Your credential does not allow this"),
    grpc.StatusCode.NOT_FOUND: (404, "There is no such thing"),
    grpc.StatusCode.FAILED_PRECONDITION: (409, "This is not possible now"),
    grpc.StatusCode.ABORTED: (409, "Somebody else was changing this at the same time"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (429, "This is more than the services take at once"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (504, "The services did not answer in time"),
    grpc.StatusCode.UNAVAILABLE: (503, "The services cannot be reached"),
    grpc.StatusCode.UNAUTHENTICATED: (401, "Your credential is not accepted"),
}


def explain(error: HithertoCallError) -> Failure:
    """What to tell a person about a failed call."""
    if error.reason in _BY_REASON:
        status, title, text = _BY_REASON[error.reason]
    else:
        status, title = _BY_CODE.get(error.code, (502, "The services failed"))
        text = _text(error)
    return Failure(
        status,
        title,
        text,
        error.violations,
        error.reason or error.code.name,
        error.request_id,
    )


def _text(error: HithertoCallError) -> str:
    if error.violations:
        return ""
    if error.code is grpc.StatusCode.UNAVAILABLE and not error.reason:
        service = f"The {error.service} service at {error.address}"
        if error.no_connection:
            return f"{service} cannot be connected to: {error.no_connection}."
        return f"{service} does not answer. Is it running?"
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "A change may have been made all the same. Look before you repeat it."
    return error.message[:1].upper() + error.message[1:]
