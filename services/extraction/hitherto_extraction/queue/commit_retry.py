"""Retries the commit of a model's reply after database failures.

The reply has been paid for, and another call would cost again. The claim of the job fences every
try, and is renewed meanwhile as long as the database is reachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.errors import Conflict, HithertoError, TooLate, Unavailable, WorkTooLong

logger = logging.getLogger("hitherto.worker")

_PAUSES = (0.1, 1.0, 5.0)

Done = TypeVar("Done")


async def patiently(
    database: Database, work: Callable[[Connection], Awaitable[Done]], *, seconds: float
) -> Done:
    """Run `work` in a transaction of its own, up to four times.

    Args:
        database: The database.
        work: The work, which checks whether an earlier try succeeded and lost its reply.
        seconds: Time limit of one try.

    Raises:
        HithertoError: The last try failed, or one failed for a permanent reason.
    """
    for pause in _PAUSES:
        try:
            return await database.run(work, timeout=seconds)
        except Exception as error:
            fault = error if isinstance(error, HithertoError) else faults.translate(error)
            if not isinstance(fault, TooLate | Unavailable | Conflict):
                raise
            # The same work would take as long again.
            if isinstance(fault, KeyServiceUnavailable | WorkTooLong):
                raise
            logger.warning("retrying a commit: %s", fault.message, extra=faults.sqlstate_of(error))
        await asyncio.sleep(pause)
    return await database.run(work, timeout=seconds)
