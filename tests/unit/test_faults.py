"""Which errors of the driver mean that a connection was lost, and what callers are told."""

from __future__ import annotations

import psycopg
from psycopg import errors
from psycopg.pq import DiagnosticField
from psycopg_pool import PoolTimeout

from hitherto_shared.database.faults import is_lost_connection, translate

AWAY = "DATABASE_UNAVAILABLE"


def raised_in(source_file: str, kind: type[psycopg.Error] = errors.InternalError_) -> psycopg.Error:
    """An error that the server raised in a file of its source code."""
    return kind("failure", info={DiagnosticField.SOURCE_FILE: source_file.encode()})


def test_a_lost_connection_is_told_from_other_errors() -> None:
    """Also one between the nodes of a Citus cluster, which calls it an internal error."""
    cases: list[tuple[Exception, bool, str | None]] = [
        (psycopg.OperationalError("the server closed the connection"), True, AWAY),
        (errors.ConnectionFailure(), True, AWAY),
        (errors.AdminShutdown(), True, AWAY),
        (raised_in("placement_connection.c"), True, AWAY),
        (raised_in("remote_transaction.c"), True, AWAY),
        (raised_in("execMain.c"), False, None),
        (errors.InternalError_("of an older server, which names no place"), False, None),
        (raised_in("remote_transaction.c", errors.UndefinedTable), False, None),
        (raised_in("remote_transaction.c", errors.LockNotAvailable), False, "WRITE_CONFLICT"),
        (errors.IoError(), False, AWAY),
        (PoolTimeout(), False, "OVERLOADED"),
        (ValueError("of ours"), False, None),
    ]
    for error, lost, reason in cases:
        assert is_lost_connection(error) is lost, error
        told = translate(error)
        assert (told.reason if told else None) == reason, error
