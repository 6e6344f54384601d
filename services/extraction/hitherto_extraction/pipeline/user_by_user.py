"""Walks over the users of a tenant, for jobs that concern all of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import Conflict

logger = logging.getLogger("hitherto.upkeep")

BUSY = "users_busy"
"""The count of users who were skipped because their rows stayed locked."""

PageOfUsers = tuple[list[str], str | None]
"""Those of some users who are concerned, and the last one looked at; None at the end."""


async def each_user(
    database: Database, find: Callable[[Connection, str], Awaitable[PageOfUsers]], *, seconds: float
) -> AsyncIterator[str]:
    """The users whom `find` names, page after page, each page after the user it is given."""
    after: str | None = ""
    while after is not None:
        found, after = await database.run(
            lambda connection: find(connection, after or ""),  # noqa: B023 - awaited here
            timeout=seconds,
            repeatable=True,
        )
        for user_id in found:
            yield user_id


async def unless_busy(work: Awaitable[object], counts: Counter[str]) -> bool:
    """Whether `work` could lock its user.

    One who stays busy is counted, and left to the next run.
    """
    try:
        await work
    except Exception as error:
        if not isinstance(faults.translate(error), Conflict):
            raise
        logger.info("a user's data stayed locked; skipped until the next run")
        counts[BUSY] += 1
        return False
    return True
