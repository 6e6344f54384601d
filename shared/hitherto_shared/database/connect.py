"""Opens connections: which login, which schema, which time limits.

Each role of the services is a separate login and a member of nothing, so that no statement can turn
a connection of one into another. Failures are described in our own words (`unreachable`): the
driver quotes parts of the connection string, which contains a password.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Literal, LiteralString

import psycopg
from psycopg.abc import Params
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from hitherto_shared.database.unreachable import COMPLETE, why_unreachable


def _quoted(schema: str) -> str:
    return schema if schema.isidentifier() and schema.islower() else f'"{schema}"'


Role = Literal[
    "hitherto_read",
    "hitherto_write",
    "hitherto_maintenance",
    "hitherto_removal",
    "hitherto_owner",
]

SCHEMA = "hitherto"
VECTOR_SCHEMA = "HITHERTO_VECTOR_SCHEMA"
"""The variable that names the schema of pgvector where it has another one than most."""
OWNER: Role = "hitherto_owner"
"""Owns all objects. The login that migrates is a member; only nodes of a cluster log in as it."""
RETRIEVAL_LOGINS: tuple[Role, ...] = ("hitherto_read",)
EXTRACTION_LOGINS: tuple[Role, ...] = (
    "hitherto_write",
    "hitherto_maintenance",
    "hitherto_removal",
)
LOGINS = RETRIEVAL_LOGINS + EXTRACTION_LOGINS
"""The roles that services log in as."""
VECTOR_SCHEMAS = tuple(
    filter(None, dict.fromkeys(["public", "extensions", os.environ.get(VECTOR_SCHEMA, "").strip()]))
)
"""Where pgvector is looked for; Supabase has it in `extensions`."""
SEARCH_PATH = ",".join([SCHEMA, *map(_quoted, VECTOR_SCHEMAS)])
SESSION_SETTINGS: Mapping[str, str] = {
    "search_path": SEARCH_PATH,
    "timezone": "UTC",
    "statement_timeout": "30000",
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "60000",
    "synchronous_commit": "on",
    "row_security": "on",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
}
"""What applies to every statement of a service, whatever the defaults of the database and login."""
_OF_A_SESSION: Mapping[str, str] = {
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",
}
"""What no transaction can set for itself, so that it does not apply through a pooler."""
_HAS_TRANSACTION_TIMEOUT = 170_000

Pooler = Literal["none", "transaction"]
"""What connections go through: nothing, or a pooler that lends servers for one transaction."""


class DatabaseUnreachable(psycopg.OperationalError):
    """No connection could be made; the message gives the reason and the remedy.

    Attributes:
        complete: Whether there is no more to say than the message does (`COMPLETE`).
    """

    def __init__(self, error: psycopg.Error, conninfo: str = "") -> None:
        """A failure to connect; `conninfo` is for another try, as in `why_unreachable`."""
        why = why_unreachable(error, conninfo)
        self.complete = why in COMPLETE
        super().__init__(f"the database cannot be used: {why}")


def connected(conninfo: str) -> psycopg.Connection[TupleRow]:
    """A connection in autocommit, to be closed by the caller.

    Raises:
        DatabaseUnreachable: No connection could be made.
    """
    try:
        return psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise DatabaseUnreachable(error, conninfo) from None


def holds(
    connection: psycopg.Connection[Any], condition: LiteralString, values: Params | None = None
) -> bool:
    """Whether a condition holds: the first column of the first row of a query."""
    row = connection.execute(condition, values).fetchone()
    return row is not None and bool(row[0])


def with_role(
    conninfo: str,
    role: Role,
    *,
    application: str,
    statement_timeout_ms: int = 30_000,
    pooler: Pooler = "none",
) -> str:
    """`conninfo` for a session that has `role` from its first statement on.

    The login of `conninfo` is a member of the owner and assumes it by a start-up parameter: no
    statement runs as the login. Every other role logs in itself. Through a pooler, which refuses
    such parameters, each transaction begins with `SESSION_SETTINGS`.

    Raises:
        DatabaseUnreachable: `conninfo` is malformed.
    """
    options = str(_parts(conninfo).get("options") or "")
    if pooler == "none":
        settings = {**SESSION_SETTINGS, **_OF_A_SESSION}
        settings["search_path"] = SEARCH_PATH.replace(" ", r"\ ")
        settings["statement_timeout"] = str(statement_timeout_ms)
        if role == OWNER:
            settings = {"role": role, **settings}
        options += "".join(f" -c {name}={value}" for name, value in settings.items())
    if role != OWNER:
        conninfo = logging_in(conninfo, role, service_passwords(conninfo)[role])
    return make_conninfo(
        conninfo,
        options=options.strip() or None,
        application_name=application,
        client_encoding="UTF8",
        connect_timeout=5,
    )


def settings_since(version: int) -> Mapping[str, str]:
    """What else applies to every statement of a service, set after the login.

    A Postgres that does not know one of them would refuse the login. `version` is as libpq has it.
    """
    return {"transaction_timeout": "0"} if version >= _HAS_TRANSACTION_TIMEOUT else {}


def logging_in(conninfo: str, role: Role, password: str | None) -> str:
    """`conninfo` with `role` as its login; without a password, libpq looks for one elsewhere."""
    parts = _parts(conninfo)
    parts.pop("password", None)
    return make_conninfo("", **{**parts, "user": role, "password": password})


def login_of(conninfo: str) -> str | None:
    """The login that `conninfo`, or else the environment, names."""
    user = _parts(conninfo).get("user") or os.environ.get("PGUSER")
    return str(user) if user else None


def service_passwords(conninfo: str) -> Mapping[Role, str | None]:
    """The passwords of the logins that follow from `conninfo` alone.

    The login of a service counts for the whole service, whose logins share one password. From the
    password of any other login, those of the services are derived, so that one connection string is
    enough. None: `conninfo` has no password.
    """
    password = _parts(conninfo).get("password") or os.environ.get("PGPASSWORD")
    if not password or login_of(conninfo) in LOGINS:
        return dict.fromkeys(LOGINS, str(password) if password else None)
    return {role: _derived(str(password), role) for role in LOGINS}


def owner_password(conninfo: str) -> str | None:
    """The password with which the nodes of a cluster log in to each other as the owner.

    None: `conninfo` has no password to derive it from.
    """
    password = _parts(conninfo).get("password") or os.environ.get("PGPASSWORD")
    return _derived(str(password), OWNER) if password else None


def _derived(password: str, role: Role) -> str:
    return hmac.new(password.encode(), f"login {role}".encode(), hashlib.sha256).hexdigest()


def _parts(conninfo: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise DatabaseUnreachable(error) from None
    except UnicodeError:
        raise DatabaseUnreachable(psycopg.ProgrammingError()) from None
