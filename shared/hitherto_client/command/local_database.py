"""Commands that work on the database itself: its login is the credential.

These need the server's packages, which are imported when they run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hitherto_client.command.output import UsageError

if TYPE_CHECKING:
    from hitherto_shared.database.connect import Pooler
    from hitherto_shared.database.pool import Connection

Result = TypeVar("Result")

_DATABASE_SECONDS = 30.0


class DatabaseUnusable(Exception):
    """The database cannot be used; the message says what to do."""


@contextmanager
def server_packages() -> Iterator[None]:
    """For what imports packages of a service, which need not be installed here."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this works where a service is installed ({error.name} is missing here): "
            "pip install 'hitherto[extraction]'"
        ) from None


def on_database(
    work: Callable[[Connection], Awaitable[Result]], *, seconds: float = _DATABASE_SECONDS
) -> Result:
    """What `work` finds on the database that the environment names.

    The connection of `work` has the role hitherto_maintenance.

    Raises:
        UsageError: The server's packages are not installed here.
        DatabaseUnusable: The database cannot be reached, or the work failed.
    """
    with server_packages():
        from hitherto_shared.config import SharedSettings  # noqa: PLC0415
        from hitherto_shared.startup import locate_database  # noqa: PLC0415
    try:
        settings = SharedSettings()
        located = locate_database(settings)
        try:
            # psycopg cannot use the event loop that is the default on Windows.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                return runner.run(_once(located.conninfo, settings.pooler, work, seconds))
        finally:
            located.release()
    except Exception as error:
        raise DatabaseUnusable(_why(error)) from error


async def _once(
    conninfo: str, pooler: Pooler, work: Callable[[Connection], Awaitable[Result]], seconds: float
) -> Result:
    from hitherto_shared.database.pool import Database  # noqa: PLC0415

    database = Database(
        conninfo, "hitherto_maintenance", application="hitherto-command", max_size=1, pooler=pooler
    )
    try:
        await database.open(timeout=_DATABASE_SECONDS)
        return await database.run(work, timeout=seconds)
    finally:
        await database.close()


def _why(error: Exception) -> str:
    from hitherto_shared.database.faults import described  # noqa: PLC0415

    # The library's own errors are for people, and so is what a server says.
    own = type(error).__module__.startswith("hitherto_shared.")
    if own or getattr(error, "sqlstate", None):
        return described(error)
    # The type alone: a driver's message may quote the connection string with its password.
    return (
        f"the database cannot be used ({type(error).__name__}): check DATABASE_URL, or for the "
        "embedded database HITHERTO_DATA_DIR"
    )
