"""What a driver error means to a caller. SQLSTATEs, rows and statements never leave the process."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from hitherto_shared.errors import Conflict, Exhausted, HithertoError, TooLate, Unavailable


def is_lost_connection(error: BaseException) -> bool:
    """True when the server or the network ended the connection: a read may simply be repeated."""
    if isinstance(error, PoolTimeout | TooManyRequests | PoolClosed):
        return False  # there was no connection to lose
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def described(error: BaseException) -> str:
    """What a driver's error says that is no row: for whoever reads a log or a terminal.

    The details beside the message quote rows and keys, and so does the message where a value does
    not fit its type.
    """
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return str(error)
    said = "" if error.sqlstate.startswith("22") else error.diag.message_primary or ""
    return f"{said or type(error).__name__} (SQLSTATE {error.sqlstate})"


_MALFORMED = (
    "the connection string is malformed: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and "
    "percent-encode characters such as @ : / # % in the user and the password"
)
# What libpq and the server say when no connection comes about, in lower case; there is no SQLSTATE
# then. The first that is found decides.
_UNREACHABLE: tuple[tuple[str, str], ...] = (
    (r"servname not supported|invalid (\S+ )?value|invalid port", _MALFORMED),
    (
        "failed to resolve host|could not translate host name",
        "the name of its host cannot be resolved: check the host in the connection string, and "
        "that this machine can look it up; a password with @ or / in it must be percent-encoded",
    ),
    (
        "connection refused|no such file or directory.*socket",
        "its host refuses connections: check that Postgres runs there, and the host and the port "
        "in the connection string",
    ),
    (
        "invalid response to ssl negotiation|expected authentication request",
        "what listens there is not Postgres: check the host and the port in the connection string",
    ),
    (
        # A login of the services, or the owner.
        '(user|role) "hitherto_',
        "it refuses the login: check the user and the password in the connection string, and that "
        "pg_hba.conf lets this user in from here; or its roles are missing or have other "
        "passwords: run `hitherto-migrate` with the login of an administrator (docs/security.md)",
    ),
    (
        "authentication failed|no password supplied|role .{0,300} does not exist"
        "|permitted to log in|pg_hba.conf entry.{0,300}ssl encryption"
        "|permission denied for database",
        "it refuses the login: check the user and the password in the connection string, and that "
        "pg_hba.conf lets this user in from here",
    ),
    (
        "database .{0,300} does not exist",
        "there is no database of this name: create it, or check the name at the end of the "
        "connection string",
    ),
    (
        "too many clients|connection slots|too many connections",
        "it takes no more connections: raise max_connections there, or end other clients",
    ),
    (
        "starting up|shutting down|recovery|not yet accepting|not accepting",
        "it is starting or stopping: try again in a moment",
    ),
    (
        "ssl|tls|certificate|no encryption",
        "no TLS connection can be agreed on: check sslmode, sslrootcert, sslcert and sslkey in the "
        "connection string, and whether the server offers or demands TLS",
    ),
    (
        "pg_hba.conf",
        "it refuses the login: pg_hba.conf must let this user in from here",
    ),
    (
        "timeout expired|timed out|no route to host|network is unreachable|server closed",
        "its host does not answer: check the host and the port in the connection string, firewalls "
        "on the way, and that Postgres is not frozen",
    ),
)
_REASONS = [(re.compile(pattern), why) for pattern, why in _UNREACHABLE]
_SERVER_NAMED = re.compile(
    r'connection to server (at|on socket) "[^"]{0,300}"( \([^)]{0,100}\))?(, port \d+)? failed:'
)


def why_unreachable(error: psycopg.Error) -> str:
    """Why no connection came about, and what to do, without a word of the driver's.

    The driver quotes what it takes for a host or an option, and in a string that is malformed that
    may be part of the password.
    """
    if isinstance(error, psycopg.ProgrammingError):
        return _MALFORMED  # it could not even be read
    # A host may be called postgres-tls.
    said = _SERVER_NAMED.sub("", " ".join(str(error).lower().split()))
    for pattern, why in _REASONS:
        if pattern.search(said):
            return why
    return (
        "it cannot be reached, for a reason that only the log of Postgres tells: check the "
        "connection string, and that Postgres runs"
    )


def _is_away(error: BaseException) -> bool:
    """True when the server cannot be used now: no answer, shutting down, standby, no resources.

    Other operational errors, such as a limit of the program, come again with the same statement
    and must not look like an outage.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate[:2] in ("08", "53", "57", "58") or error.sqlstate == "25006"


def translate(error: BaseException) -> HithertoError | None:
    """The error a caller is told, or None when `error` is not the database's doing."""
    if isinstance(error, PoolTimeout | TooManyRequests):
        return Exhausted(
            "all database connections are busy; try again shortly",
            reason="OVERLOADED",
            retry_after=1.0,
        )
    if isinstance(error, errors.DiskFull | errors.OutOfMemory | errors.TooManyConnections):
        return Exhausted(
            "the database has no room; nothing was changed, try again later",
            reason="STORAGE_FULL",
            retry_after=10.0,
        )
    if isinstance(
        error,
        errors.SerializationFailure
        | errors.DeadlockDetected
        | errors.LockNotAvailable
        | errors.UniqueViolation,
    ):
        return Conflict(
            "another call changed the same data at the same moment; try again",
            reason="WRITE_CONFLICT",
            retry_after=0.1,
        )
    if isinstance(error, errors.QueryCanceled):
        return TooLate("the database did not answer in time", reason="DEADLINE_EXCEEDED")
    if isinstance(error, PoolClosed | psycopg.InterfaceError) or _is_away(error):
        return Unavailable(
            "the database cannot be reached; try again shortly",
            reason="DATABASE_UNAVAILABLE",
            retry_after=1.0,
        )
    return None
