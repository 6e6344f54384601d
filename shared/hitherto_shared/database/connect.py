"""How a connection of ours looks: which role it plays, which schema it sees, how long it waits.

What keeps a connection from being made is told in words of our own (`faults.why_unreachable`): the
driver quotes parts of the connection string, which has a password in it.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from hitherto_shared.database.faults import why_unreachable

Role = Literal[
    "hitherto_read",
    "hitherto_write",
    "hitherto_maintenance",
    "hitherto_removal",
    "hitherto_owner",
]

SCHEMA = "hitherto"


class DatabaseUnreachable(psycopg.OperationalError):
    """No connection came about; the message says why and what to do."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(f"the database cannot be used: {why_unreachable(error)}")


class ReportingConnection(AsyncConnection[TupleRow]):
    """A connection whose making fails in our words."""

    @classmethod
    async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        """As psycopg's.

        Raises:
            DatabaseUnreachable: There is no connection to be had.
        """
        try:
            return await super().connect(conninfo, **kwargs)
        except psycopg.Error as error:
            raise DatabaseUnreachable(error) from None


def connected(conninfo: str) -> psycopg.Connection[TupleRow]:
    """A connection in autocommit, to be closed by the caller.

    Raises:
        DatabaseUnreachable: There is no connection to be had.
    """
    try:
        return psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise DatabaseUnreachable(error) from None


def with_role(
    conninfo: str, role: Role, *, application: str, statement_timeout_ms: int = 30_000
) -> str:
    """`conninfo` for a session that plays `role` from its first statement on.

    The role is a start-up parameter and not a SET, so that no statement can ever run as the login
    role, and a pool's reset returns to it.

    Raises:
        DatabaseUnreachable: `conninfo` is malformed.
    """
    try:
        options = str(conninfo_to_dict(conninfo).get("options") or "")
    except psycopg.Error as error:
        raise DatabaseUnreachable(error) from None
    ours = (
        f" -c role={role} -c search_path={SCHEMA},public -c timezone=UTC"
        f" -c statement_timeout={statement_timeout_ms} -c lock_timeout=5000"
        " -c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on"
    )
    return make_conninfo(
        conninfo,
        options=(options + ours).strip(),
        application_name=application,
        connect_timeout=5,
    )
