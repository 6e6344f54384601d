"""How the command ends: exit codes, and what a failed call tells the person in front of it."""

from __future__ import annotations

import grpc

from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError

OK = 0
FAILED = 1
"""The work was refused or did not succeed."""
USAGE = 2
"""What was asked for is not valid."""
UNREACHABLE = 3
"""A service cannot be reached, is not ready, or did not answer in time."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class UsageError(ValueError):
    """The arguments cannot be carried out; the message says what to change."""


_OPTIONS = {"retrieval": "--retrieval", "extraction": "--extraction"}


def report(error: HithertoCallError, output: Output) -> int:
    """Say on standard error what went wrong and what to do next; the exit code for it."""
    service = f"the {error.service} service" if error.service else "the service"
    at = f" at {error.address}" if error.address else ""
    if error.code is grpc.StatusCode.UNAVAILABLE and not error.reason:
        option = _OPTIONS.get(error.service, "--retrieval or --extraction")
        output.error(
            f"cannot reach {service}{at}: start it with `make run`, or name its address with "
            f"{option}; with TLS, check HITHERTO_TLS_CA_FILE"
        )
        return UNREACHABLE
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        output.error(
            f"{service}{at} did not answer in time: try again, or allow more with --timeout SECONDS"
        )
        return UNREACHABLE
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        output.error(
            f"{service}{at} does not accept the credential: set HITHERTO_API_KEY to a key from "
            "`hitherto keys create`, or HITHERTO_TOKEN to a token that is in force"
        )
        return FAILED
    told = " ".join(part for part in (error.code.name, error.reason) if part)
    if error.violations:
        output.error(f"{service} refuses the request ({told}):")
        for violation in error.violations:
            output.error(f"  {violation.field}: {violation.description}", prefix="")
        return USAGE
    wait = f"; try again in {error.retry_after:.0f} s" if error.retry_after else ""
    output.error(f"{service} answers: {error.message} ({told}){wait}")
    if error.code is grpc.StatusCode.INVALID_ARGUMENT:
        return USAGE
    return UNREACHABLE if error.code is grpc.StatusCode.UNAVAILABLE else FAILED
