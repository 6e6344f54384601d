"""Describes why no connection to the database could be made, and the remedy, in our own words.

libpq's own messages are in English in every process of ours. A server's messages are in its
language (`lc_messages`), and the driver keeps no SQLSTATE of a refused connection: the connection
is tried once more, and libpq's trace of the protocol has it.
"""

from __future__ import annotations

import logging
import re
import select
import tempfile
import time
from collections.abc import Sequence

import psycopg
from psycopg import pq
from psycopg.pq import ConnStatus, PollingStatus, abc

logger = logging.getLogger("hitherto.database")

_MALFORMED = (
    "the connection string is malformed: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and "
    "percent-encode characters such as @ : / # % in the user and the password"
)
_LOGIN = (
    "it refuses the login: check the user and the password in the connection string, that the "
    "password has not expired (VALID UNTIL), and that pg_hba.conf lets this user in from here"
)
_UNPREPARED = (
    f"{_LOGIN}; or its roles are missing or have other passwords: run `hitherto-migrate` with the "
    "login of an administrator (docs/security.md)"
)
_NO_DATABASE = (
    "there is no database of this name: create it, or check the name at the end of the connection "
    "string"
)
_FULL = (
    "it accepts no more connections: raise max_connections there, or the CONNECTION LIMIT that the "
    "login or the database has, or close other clients"
)
_POOLER = (
    "a connection pooler in front of it refuses the settings of a session: set "
    "HITHERTO_POOLER=transaction; `hitherto-migrate` needs HITHERTO_DIRECT_DATABASE_URL, a "
    "connection string of Postgres itself (docs/poolers.md)"
)
_POOLER_OUT = (
    "the connection pooler in front of it cannot log in to Postgres: check its settings of the "
    "server and of the users (docs/poolers.md), and that Postgres runs"
)
_POOLER_FULL = (
    "the connection pooler in front of it accepts no more connections: raise max_client_conn there"
)
_STARTING = "it is starting or stopping: try again in a moment"


COMPLETE = frozenset({_FULL, _POOLER, _POOLER_OUT, _POOLER_FULL, _STARTING})
"""Reasons that name the whole remedy: neither the connection string nor the logins are at fault."""


def _compiled(*reasons: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), why) for pattern, why in reasons]


# libpq's own messages and those of PgBouncer, in lower case. The first match decides.
_OF_LIBPQ = _compiled(
    ("unsupported startup parameter", _POOLER),
    (r"server_login_retry|server login (has )?failed|query_wait_timeout", _POOLER_OUT),
    (r"no more connections allowed \(max_client_conn\)", _POOLER_FULL),
    (r"servname not supported|invalid (\S+ )?value|invalid port", _MALFORMED),
    (
        "failed to resolve host|could not translate host name",
        "the name of its host cannot be resolved: check the host in the connection string, and "
        "that this machine can look it up; a password with @ or / in it must be percent-encoded",
    ),
    (
        "connection refused|no such file or directory.{0,300}socket",
        "its host refuses connections: check that Postgres runs there, and the host and the port "
        "in the connection string",
    ),
    (
        "invalid response to ssl negotiation|expected authentication request",
        "the server there is not Postgres: check the host and the port in the connection string",
    ),
    ("no password supplied", _LOGIN),
    (
        "timeout expired|timed out|no route to host|network is unreachable|server closed",
        "its host does not answer: check the host and the port in the connection string, firewalls "
        "on the way, and that Postgres is not frozen",
    ),
)
# A server's errors, by SQLSTATE or its first two characters.
_BY_STATE = {"28": _LOGIN, "42501": _LOGIN, "3D000": _NO_DATABASE, "53300": _FULL, "57P": _STARTING}
# The same in English, if the SQLSTATE is unavailable.
_IN_ENGLISH = _compiled(
    (
        "authentication failed|role .{0,300} does not exist|permitted to log in"
        "|pg_hba.conf entry.{0,300}ssl encryption|permission denied for database",
        _LOGIN,
    ),
    ("database .{0,300} does not exist", _NO_DATABASE),
    ("too many clients|connection slots|too many connections", _FULL),
    ("starting up|shutting down|recovery|not yet accepting|not accepting", _STARTING),
    (
        "ssl|tls|certificate|no encryption",
        "no TLS connection can be negotiated: check sslmode, sslrootcert, sslcert and sslkey in "
        "the connection string, and whether the server offers or requires TLS",
    ),
    ("pg_hba.conf", _LOGIN),
)
_SERVER_NAMED = re.compile(
    r'connection to server (at|on socket) "[^"]{0,300}"( \([^)]{0,100}\))?(, port \d+)? failed:'
)
# A login of the services, or the owner.
_OURS = re.compile(r"hitherto_(read|write|maintenance|removal|owner)\b")
_STATE = re.compile(' C "([0-9A-Z]{5})"')
_AGAIN_SECONDS = 5.0


def why_unreachable(error: psycopg.Error, conninfo: str = "") -> str:
    """Why no connection could be made, and the remedy, without a word of the driver's.

    The driver quotes what it takes for a host or an option, and in a malformed string that may be
    part of the password. With `conninfo` it is tried again, which may take seconds.
    """
    if isinstance(error, psycopg.ProgrammingError):
        return _MALFORMED  # it could not even be read
    # A host may be called postgres-tls.
    said = _SERVER_NAMED.sub("", " ".join(str(error).lower().split()))
    state = ""
    why = _found(said, _OF_LIBPQ)
    if why is None and conninfo:
        state = refused_with(conninfo)
        why = next((why for start, why in _BY_STATE.items() if state.startswith(start)), None)
    why = why or _found(said, _IN_ENGLISH)
    if why == _LOGIN and _OURS.search(said):
        return _UNPREPARED
    return why or (
        "it cannot be reached; see the log of Postgres for the reason"
        f"{f' (SQLSTATE {state})' if state else ''}: check the connection string, and that "
        "Postgres runs"
    )


def _found(said: str, reasons: Sequence[tuple[re.Pattern[str], str]]) -> str | None:
    return next((why for pattern, why in reasons if pattern.search(said)), None)


def refused_with(conninfo: str) -> str:
    """The SQLSTATE with which a server refuses a connection.

    Empty if it does not, if it does not answer, and if libpq has no record of it.
    """
    # The record contains the proof of the password, and is not passed on.
    try:
        with tempfile.TemporaryFile() as record:
            _record(conninfo, record.fileno())
            record.seek(0)
            lines = record.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        # Such as a container without a folder for temporary files.
        logger.debug("no SQLSTATE for a refused connection: %s", type(error).__name__)
        return ""
    refusals = (_STATE.search(line) for line in lines if "\tErrorResponse\t" in line)
    states = [found[1] for found in refusals if found]
    return states[-1] if states else ""


def _record(conninfo: str, descriptor: int) -> None:
    """Connect once more, and let libpq write what the server says to this file."""
    try:
        connection = pq.PGconn.connect_start(conninfo.encode())
        try:
            connection.trace(descriptor)
            _connect(connection)
        finally:
            connection.untrace()  # writes what it has recorded
            connection.finish()
    except (psycopg.Error, ValueError) as error:
        logger.debug("no SQLSTATE for a refused connection: %s", type(error).__name__)


def _connect(connection: abc.PGconn) -> None:
    """Continue until the connection is made, is refused, or takes too long."""
    ends = time.monotonic() + _AGAIN_SECONDS
    while connection.status != ConnStatus.BAD and (left := ends - time.monotonic()) > 0:
        match connection.connect_poll():
            case PollingStatus.READING:
                select.select([connection.socket], [], [], left)
            case PollingStatus.WRITING:
                select.select([], [connection.socket], [], left)
            case _:
                return
