"""Commits what one step of a job yields, with its cost and the job's progress, exactly once.

The reply of a model has been paid for, and another call would cost again. So the commit is retried
after database failures. The claim of the job fences every try, and is renewed meanwhile as long as
the database is reachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue import attempts, claims, jobs
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage import ledger, users
from hitherto_extraction.storage.users import UserWriteState
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.errors import (
    Conflict,
    Exhausted,
    HithertoError,
    TooLate,
    Unavailable,
    WorkTooLong,
)
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.worker")

_PAUSES = (0.1, 1.0, 5.0)

Done = TypeVar("Done")


async def may_continue(
    user: UserRows,
    held: Claim,
    state: UserWriteState | None,
    memory_enabled: bool,
    *,
    learns: bool = True,
) -> bool:
    """Whether a job may go on writing about its user, whose row says `state`; if not, it ends here.

    Unless it `learns`, it stores what was handed in on purpose, also with learning switched off.

    Raises:
        Conflict: The user is being imported.
    """
    users.refuse_while_imported(state)
    why_not = users.why_not_learning if learns else users.why_not_storing
    return not await attempts.discard(user.connection, held, why_not(state, memory_enabled))


class CommittedBefore(Exception):
    """An earlier try of the commit succeeded, and its reply was lost."""


async def commit(
    database: Database,
    held: Claim,
    write: Callable[[UserRows], Awaitable[Result | None]],
    *,
    seconds: float,
    scope: Scope | None = None,
) -> Result:
    """Run `write` in a transaction of its own, up to four times, each within `seconds`.

    `write` locks the user, checks that it is still wanted and ends with `record`. It raises
    `CommittedBefore` where that applies, and returns None if the job has ended (`discard`).
    `scope` is the user concerned, if the job concerns all users of a tenant.

    Raises:
        ClaimLost: The claim was lost, or the job has ended; nothing was written.
        HithertoError: The last try failed, or one failed for a permanent reason.
    """

    async def work(connection: Connection) -> Result:
        try:
            async with connection.transaction():
                result = await write(connection.of(scope or held.scope))
        except CommittedBefore:
            job = await jobs.get_job(connection, held.tenant_id, held.job_id)
            return Result.of(job.result)
        if result is None:
            raise ClaimLost
        return result

    return await patiently(database, work, seconds=seconds)


async def patiently(
    database: Database, work: Callable[[Connection], Awaitable[Done]], *, seconds: float
) -> Done:
    """Run `work`, up to four times, each within `seconds`; errors are those of `commit`.

    After a try in doubt the error is that of this try, whatever kept the others from finding out.
    A ClaimLost, which no repetition mends, has that try as its cause.
    """
    pauses = iter(_PAUSES)
    doubt: Exception | None = None
    while True:
        try:
            return await database.run(work, timeout=seconds)
        except Exception as error:
            fault = faults.translate(error)
            if fault is None:
                raise error from doubt or error.__cause__
            if is_in_doubt(fault):
                doubt = error
            passes = doubt is error or isinstance(fault, Conflict | Exhausted)
            pause = next(pauses, None) if passes else None
            if pause is None:
                if doubt is None or doubt is error:
                    raise
                raise doubt from error
            logger.warning("retrying a commit: %s", fault.message, extra=faults.sqlstate_of(error))
        await asyncio.sleep(pause)


def is_in_doubt(fault: HithertoError | None) -> bool:
    """Whether a commit that ended so may have succeeded, and may succeed if it is tried again.

    None begins without a key, or ends while our own work goes on, which would take as long again.
    """
    return isinstance(fault, TooLate | Unavailable) and not isinstance(
        fault, KeyServiceUnavailable | WorkTooLong
    )


async def record(
    user: UserRows,
    held: Claim,
    result: Result,
    charges: Sequence[Charge],
    *,
    done_to: int,
    finished: bool = False,
    touched: Collection[str] = (),
) -> None:
    """Charge what a step cost, and record the job's progress (`claims.record_progress`)."""
    await ledger.charge(user, held.job_id, held.kind, charges)
    await claims.record_progress(
        user.connection,
        held,
        done_to=done_to,
        result=result.stored(),
        finished=finished,
        users=touched,
    )
