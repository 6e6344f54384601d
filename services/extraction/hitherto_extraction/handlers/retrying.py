"""RetryJob with a filter: access checks, and the selection of jobs."""

from __future__ import annotations

from dataclasses import replace

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.intake import Intake
from hitherto_extraction.job_calls import MAX_RETRIED
from hitherto_extraction.queue.jobs import RetryFilter
from hitherto_shared.auth.departments import departments_of
from hitherto_shared.auth.principal import Principal, user_not_allowed
from hitherto_shared.convert import JOB_STATE
from hitherto_shared.database.pool import Connection
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

_UPKEEP = ("consolidation", "decay", "retention", "reembedding")
"""Kinds of jobs that no call with the scope WRITE starts."""
_STATES = ("dead", "failed", "cancelled")
_UNLESS_SAID = ("dead", "failed")
_MAX_REASONS = 50
_MAX_REASON_CHARS = 64
_USER_FIELD = "filter.user_id"


async def retry_matching(
    answering: Answering,
    intake: Intake,
    kinds: tuple[str, ...],
    request: pb.RetryJobRequest,
    context: Context,
) -> pb.RetryJobResponse:
    """Queue the jobs that match the filter of a request again.

    Raises:
        InvalidRequest: The filter is invalid, or the request names a job as well.
        NotPermitted: The caller may not act for the filter's user.
    """
    checks = Checks()
    if request.job_id:
        checks.add("job_id", "must be unset where `filter` says which jobs to retry")
    principal = current_call().principal
    wanted = _read(checks, request.filter, kinds, principal)
    identity = answering.identity(checks, request)
    wanted = _permitted(wanted, kinds)
    await _check_reach(answering, principal, wanted, context)
    retried = await intake.retry_all(
        principal.tenant_id, identity, wanted, timeout=seconds_left(context)
    )
    return pb.RetryJobResponse(
        retried=retried.made,
        more=retried.made >= MAX_RETRIED,
        consistency_token=answering.token(retried.position),
    )


def check_kind(kind: str) -> None:
    """Refuse to retry or cancel upkeep for a service that could not start it.

    Raises:
        NotPermitted: The scope MAINTENANCE is missing.
    """
    call = current_call()
    if kind in _UPKEEP and call.principal.user_id is None:
        call.principal.check_scope("maintenance", call.method)


def _permitted(wanted: RetryFilter, kinds: tuple[str, ...]) -> RetryFilter:
    """A filter without kinds selects those that the caller may retry."""
    for kind in wanted.kinds or ():
        check_kind(kind)
    principal = current_call().principal
    if wanted.kinds or principal.user_id is not None or "maintenance" in principal.scopes:
        return wanted
    return replace(wanted, kinds=[kind for kind in kinds if kind not in _UPKEEP])


def _read(
    checks: Checks, given: pb.RetryFilter, kinds: tuple[str, ...], principal: Principal
) -> RetryFilter:
    states = checks.all_of("filter.states", given.states, JOB_STATE)
    if other := sorted({state for state in states if state not in _STATES}):
        checks.add(
            "filter.states",
            f"only DEAD, FAILED and CANCELLED jobs can be retried, not {', '.join(other).upper()}",
        )
    user_id = checks.identifier(_USER_FIELD, given.user_id, required=False)
    return RetryFilter(
        states or _UNLESS_SAID,
        user_id=user_id or principal.user_id,
        reasons=checks.texts(
            "filter.reasons", given.reasons, maximum=_MAX_REASONS, max_chars=_MAX_REASON_CHARS
        )
        or None,
        kinds=checks.all_known("filter.kinds", given.kinds, kinds) or None,
        since=checks.moment("filter.created_after", given, "created_after"),
        until=checks.moment("filter.created_before", given, "created_before"),
    )


async def _check_reach(
    answering: Answering, principal: Principal, wanted: RetryFilter, context: Context
) -> None:
    """Refuse a caller restricted to some users unless the filter names one of them."""
    if principal.unbound:
        return
    user_id = wanted.user_id
    if user_id is None:
        raise user_not_allowed(
            "this credential is bound to certain users: name one of them", _USER_FIELD
        )
    principal.scope(user_id)

    async def look(connection: Connection) -> str:
        found = await departments_of(connection, principal.tenant_id, [user_id])
        return found.get(user_id, "")

    department = "" if principal.reaches(user_id, "") else await answering.read(look, context)
    principal.check_reaches(user_id, department)
