"""Translates driver errors for callers. SQLSTATEs, rows and statements never leave the process."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from hitherto_shared.errors import Conflict, Exhausted, HithertoError, TooLate, Unavailable


class FullDisk:
    """When a statement of this process last found no room, by the monotonic clock.

    Whether the disk `is_full` now is known to the `RoomWatch` of the process.
    """

    found_at = float("-inf")
    is_full = False


full_disk = FullDisk()

_OF_LOST_NODES = ("placement_connection.c", "remote_transaction.c")
"""Where Citus reports, as an internal error, that it lost a node amid a transaction or its end."""


def is_lost_connection(error: BaseException) -> bool:
    """Whether the server or the network ended the connection: a read may simply be repeated."""
    if isinstance(error, PoolTimeout | TooManyRequests | PoolClosed):
        return False  # there was no connection to lose
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
        return True
    if _is_lost_node(error):
        return True
    # A pooler reports under 08 that it lost the server.
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08")[:2] == "08"


def _is_lost_node(error: BaseException) -> bool:
    return isinstance(error, errors.InternalError_) and error.diag.source_file in _OF_LOST_NODES


def described(error: BaseException) -> str:
    """A description of a driver's error without row data, for logs and terminals.

    The details beside the message quote rows and keys, and so does the message itself if a value
    does not fit its type.
    """
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return str(error)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return (
            "the database accepts no writes, as a standby does, or one with"
            f" default_transaction_read_only (SQLSTATE {error.sqlstate}): let DATABASE_URL name the"
            " primary"
        )
    said = "" if error.sqlstate.startswith("22") else error.diag.message_primary or ""
    return f"{said or type(error).__name__} (SQLSTATE {error.sqlstate})"


def sqlstate_of(error: BaseException) -> dict[str, str]:
    """The field `sqlstate` of a log line about an error; empty if it is not the server's."""
    return {"sqlstate": str(getattr(error, "sqlstate", None) or "")}


def _is_away(error: BaseException) -> bool:
    """Whether the server is unusable now: no answer, shutting down, no resources.

    Other operational errors, such as a program limit, recur with the same statement and must not
    look like an outage.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate[:2] in ("08", "53", "57", "58") or _is_lost_node(error)


class Tolerated(AbstractContextManager[None]):
    """Logs an error of ours or of the database as `what`, and goes on: the work is repeated later.

    Any other error is a defect, and passes.
    """

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Log the error, if it is one to be tolerated."""
        known = error is not None and translate(error) is not None
        if known:
            self._logger.warning("%s: %s", self._what, type(error).__name__)
        return known


def translate(error: BaseException) -> HithertoError | None:
    """The error for the caller, or None if `error` is neither ours nor the database's."""
    if isinstance(error, HithertoError):
        return error
    if isinstance(error, PoolTimeout | TooManyRequests):
        return Exhausted(
            "all database connections are busy; try again shortly",
            reason="OVERLOADED",
            retry_after=1.0,
        )
    if isinstance(error, errors.DiskFull):
        full_disk.found_at = time.monotonic()
    if isinstance(
        error,
        errors.DiskFull
        | errors.OutOfMemory
        | errors.TooManyConnections
        # Of the temporary files of a statement, which may only read: `temp_file_limit`.
        | errors.ConfigurationLimitExceeded,
    ):
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
    if (
        isinstance(error, errors.FeatureNotSupported)
        and error.diag.source_function == "RevalidateCachedQuery"
    ):
        # A migration altered a statement's result after the statement was prepared.
        return Conflict(
            "a table was altered while this call ran; try again",
            reason="WRITE_CONFLICT",
            retry_after=0.1,
        )
    if isinstance(error, errors.QueryCanceled):
        return no_answer_in_time()
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return Unavailable(
            "the database accepts no writes, as a standby does; try again shortly",
            reason="DATABASE_UNAVAILABLE",
            retry_after=1.0,
        )
    if isinstance(error, PoolClosed | psycopg.InterfaceError) or _is_away(error):
        return out_of_reach()
    return None


def no_answer_in_time() -> TooLate:
    """The error of a call that Postgres kept waiting."""
    return TooLate("the database did not answer in time", reason="DEADLINE_EXCEEDED")


def out_of_reach() -> Unavailable:
    """The error while there is no connection to Postgres."""
    return Unavailable(
        "the database cannot be reached; try again shortly",
        reason="DATABASE_UNAVAILABLE",
        retry_after=1.0,
    )
