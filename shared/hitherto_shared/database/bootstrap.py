"""Roles and extension: what must exist in a database before the first migration.

Five roles carry all rights. Four are the logins of the services, members of nothing
(`hitherto_shared.database.connect`); the owner is played by the login that migrates. Only what is
missing is done, in one transaction, so that this may run at every start, twice at once, and after a
crash.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from hitherto_shared.database.connect import LOGINS, OWNER, Role, connected, service_passwords

_OLDEST_POSTGRES = 15
_OLDEST_PGVECTOR = (0, 7)  # the first with halfvec
_ATTEMPTS = 10
_NEW_LOGIN: LiteralString = "CREATE ROLE {} LOGIN NOSUPERUSER NOINHERIT PASSWORD {}"


class BootstrapError(PermissionError):
    """The login may not do what is missing, or the server lacks something; the text says what."""


@dataclass(frozen=True, slots=True)
class _BootstrapStep:
    """One statement, and the same as an administrator may read it (without a password)."""

    statement: sql.Composed
    shown: sql.Composed


def bootstrap(
    conninfo: str,
    *,
    passwords: Mapping[Role, str | None] | None = None,
    set_passwords: bool = False,
    migrator: str | None = None,
    migrator_password: str | None = None,
) -> None:
    """Bring roles, extension and rights into the database of `conninfo`.

    Args:
        conninfo: A database and a login. A superuser can do everything; any other login suffices
            where nothing is missing or it has the rights for what is.
        passwords: Those of the services' logins that are made; None means those that `conninfo`
            alone tells (`service_passwords`).
        set_passwords: Give them to logins that exist as well.
        migrator: The login that migrates, created if missing; None means that of `conninfo`.
        migrator_password: Password for `migrator` when it is created.

    Raises:
        BootstrapError: A right is missing (the text has the SQL for an administrator), or the
            server is too old or has no pgvector.
        DatabaseUnreachable: There is no connection to be had.
    """
    given = service_passwords(conninfo) if passwords is None else passwords
    with connected(conninfo) as connection:
        if connection.info.user in LOGINS:
            raise BootstrapError(
                f"{connection.info.user} is a login of the services and may not prepare or migrate"
                " the database: name a login in DATABASE_URL that is a member of"
                f" {OWNER}, or an administrator's"
            )
        for attempt in range(_ATTEMPTS):
            steps = _missing(connection, given, migrator, migrator_password)
            if set_passwords:
                steps += [
                    _login(connection, "ALTER ROLE {} PASSWORD {}", role, password)
                    for role, password in given.items()
                    if password is not None
                ]
            if not steps:
                return
            try:
                with connection.transaction():
                    for step in steps:
                        connection.execute(step.statement)
            except errors.InsufficientPrivilege as error:
                raise _refusal(connection, conninfo, steps) from error
            except (errors.DuplicateObject, errors.UniqueViolation, errors.InternalError_):
                # Another process does the same at this moment: roles belong to the whole server,
                # so that no lock of this database would keep it out.
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1)
                continue
            return


def _missing(
    connection: psycopg.Connection,
    passwords: Mapping[Role, str | None],
    migrator: str | None,
    migrator_password: str | None,
) -> list[_BootstrapStep]:
    """The statements that are still owed, in the order in which they must run."""
    _check_server(connection)
    steps = _missing_extension(connection)
    # What is known, and whether it may log in.
    known: dict[str, bool] = dict(
        connection.execute(
            "SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname = ANY (%s)",
            [[OWNER, *LOGINS, migrator or ""]],
        ).fetchall()
    )
    if OWNER not in known:
        steps.append(_plain("CREATE ROLE {} NOLOGIN NOSUPERUSER", OWNER))
    for role in LOGINS:
        if role not in known:
            steps.append(_login(connection, _NEW_LOGIN, role, passwords[role]))
        elif not known[role]:
            steps.append(
                _login(connection, "ALTER ROLE {} LOGIN PASSWORD {}", role, passwords[role])
            )
        if role not in known or not _may_connect(connection, role):
            steps.append(_plain("GRANT CONNECT ON DATABASE {} TO {}", connection.info.dbname, role))
    if migrator is not None and migrator not in known:
        steps.append(_login(connection, _NEW_LOGIN, migrator, migrator_password))
    member = migrator or connection.info.user
    exist = OWNER in known and (migrator is None or migrator in known)
    if not (exist and _may_become(connection, member, OWNER)):
        steps.append(_plain("GRANT {} TO {}", OWNER, member))
    if OWNER not in known or not _flag(
        connection,
        "SELECT has_database_privilege(%s, current_database(), 'CREATE')",
        [OWNER],
    ):
        steps.append(_plain("GRANT CREATE ON DATABASE {} TO {}", connection.info.dbname, OWNER))
    return steps


def _check_server(connection: psycopg.Connection) -> None:
    major = connection.info.server_version // 10_000
    if major < _OLDEST_POSTGRES:
        raise BootstrapError(
            f"the server runs PostgreSQL {major}; {_OLDEST_POSTGRES} or later is needed"
        )


def _missing_extension(connection: psycopg.Connection) -> list[_BootstrapStep]:
    found = connection.execute(
        "SELECT extversion, extnamespace::regnamespace::text"
        " FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    if found is None:
        if not _flag(
            connection,
            "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')",
        ):
            raise BootstrapError(
                "the database server has no pgvector: install it there (package"
                " postgresql-NN-pgvector, or the image pgvector/pgvector), then run this again"
            )
        return [_plain("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")]
    version, schema = found
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_PGVECTOR:
        raise BootstrapError(
            f"the database has pgvector {version}, too old for halfvec: install a newer one on the"
            " server and run ALTER EXTENSION vector UPDATE"
        )
    if schema != "public":
        raise BootstrapError(
            f"pgvector lies in the schema {schema}, where its types are not found; an"
            " administrator must run: ALTER EXTENSION vector SET SCHEMA public"
        )
    return []


def _login(
    connection: psycopg.Connection, text: LiteralString, role: str, password: str | None
) -> _BootstrapStep:
    secret: sql.Composable = sql.SQL("NULL")
    if password is not None:
        # Hashed here, so that the password itself is in no statement and no log of the server.
        hashed = connection.pgconn.encrypt_password(
            password.encode(), role.encode(), b"scram-sha-256"
        )
        secret = sql.Literal(hashed.decode())
    name = sql.Identifier(role)
    return _BootstrapStep(
        sql.SQL(text).format(name, secret),
        sql.SQL(text).format(name, sql.Literal("choose a password")),
    )


def _may_connect(connection: psycopg.Connection, role: str) -> bool:
    return _flag(
        connection, "SELECT has_database_privilege(%s, current_database(), 'CONNECT')", [role]
    )


def _may_become(connection: psycopg.Connection, member: str, role: str) -> bool:
    """True when `member` may SET ROLE to `role`; since 16 a membership may lack just that."""
    right = "SET" if connection.info.server_version >= 160_000 else "MEMBER"
    return _flag(connection, "SELECT pg_has_role(%s, %s, %s)", [member, role, right])


def _flag(connection: psycopg.Connection, query: str, values: Sequence[object] = ()) -> bool:
    row = connection.execute(query, list(values)).fetchone()
    return row is not None and bool(row[0])


def _plain(text: LiteralString, *names: str) -> _BootstrapStep:
    statement = sql.SQL(text).format(*map(sql.Identifier, names))
    return _BootstrapStep(statement, statement)


def _refusal(
    connection: psycopg.Connection, conninfo: str, steps: Sequence[_BootstrapStep]
) -> BootstrapError:
    database = conninfo_to_dict(conninfo).get("dbname") or connection.info.dbname
    script = "\n".join(f"    {step.shown.as_string(connection)};" for step in steps)
    return BootstrapError(
        f"the role {connection.info.user} may not prepare the database {database}. Have an"
        f" administrator run there, then try again:\n{script}"
    )
