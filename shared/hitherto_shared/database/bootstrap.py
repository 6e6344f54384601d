"""Creates roles and extension: what must exist in a database before the first migration.

Four roles are the logins of the services, members of nothing (`connect`); the login that migrates
assumes the fifth, the owner, as whom the nodes of a Citus cluster log in to each other. Only what
is missing is created, in one transaction, so that this may run at every start, concurrently, and
after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from hitherto_shared.database.connect import (
    LOGINS,
    OWNER,
    VECTOR_SCHEMA,
    VECTOR_SCHEMAS,
    Role,
    connected,
    holds,
    owner_password,
    service_passwords,
)
from hitherto_shared.database.distribution import is_together, on_citus
from hitherto_shared.database.logins import PASSWORD_VARIABLES

_OLDEST_POSTGRES = 15
_OLDEST_PGVECTOR = (0, 7)  # the first with halfvec
_NEW_DATABASE = "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
_ATTEMPTS = 10
_PATIENCE = 3
"""Attempts after which an internal error at a password is no concurrent change of the role."""
_CONCURRENT = (errors.DuplicateObject, errors.UniqueViolation, errors.InternalError_)
_HASH_REFUSED = (
    errors.InternalError_,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidPassword,
    errors.InvalidParameterValue,
    errors.FeatureNotSupported,
)
"""How servers refuse a password that is hashed already."""
_NO_HASHES = (
    "refuses passwords that are hashed already, and over a connection without TLS they are not sent"
    " in clear. Connect with TLS (sslmode=require), or"
)
_NEW_LOGIN: LiteralString = "CREATE ROLE {} LOGIN NOINHERIT PASSWORD {}"
_LET_IN: LiteralString = "ALTER ROLE {} LOGIN PASSWORD {}"


class BootstrapError(PermissionError):
    """The login lacks a right, or the server lacks a feature; the text says which."""


@dataclass(frozen=True, slots=True)
class _BootstrapStep:
    """One statement, its form for an administrator (without a password), and with it in clear."""

    statement: sql.Composed
    shown: sql.Composed
    in_clear: sql.Composed | None = None


def bootstrap(
    conninfo: str,
    *,
    passwords: Mapping[Role, str | None] | None = None,
    set_passwords: bool = False,
    migrator: str | None = None,
    migrator_password: str | None = None,
) -> None:
    """Create roles, extension and rights in the database of `conninfo`.

    Args:
        conninfo: A database and a login. A superuser has every right; any other login suffices if
            nothing is missing or it has the rights to create it.
        passwords: The passwords of the services' logins that are created; None derives them from
            `conninfo` (`service_passwords`).
        set_passwords: Whether to set them for existing logins as well.
        migrator: The login that migrates, created if missing; None means that of `conninfo`.
        migrator_password: Password for `migrator` when it is created.

    Raises:
        BootstrapError: A right is missing (the text has the SQL for an administrator), the server
            is too old or has no pgvector, or the database is not in UTF-8.
        DatabaseUnreachable: No connection could be made.
    """
    given = service_passwords(conninfo) if passwords is None else passwords
    with connected(conninfo) as connection:
        if connection.info.user in LOGINS:
            raise BootstrapError(
                f"{connection.info.user} is a login of a service and may not prepare or migrate"
                " the database: name a login in DATABASE_URL that is a member of"
                f" {OWNER}, or an administrator's"
            )
        given = {**_of_nodes(connection, conninfo), **given}
        in_clear = False
        for attempt in range(_ATTEMPTS):
            step: _BootstrapStep | None = None
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
                        clear = step.in_clear if in_clear else None
                        connection.execute(clear or step.statement)
            except errors.InsufficientPrivilege as error:
                raise _refusal(connection, conninfo, steps) from error
            except (errors.DuplicateObject, errors.UniqueViolation, *_HASH_REFUSED) as error:
                # A concurrent process does the same: roles belong to the whole server, so a lock in
                # this database would not prevent that.
                concurrent = isinstance(error, _CONCURRENT)
                if isinstance(error, _HASH_REFUSED) and _is_hashed(step, in_clear):
                    # Or the server takes no hash: it checks passwords, or keeps them elsewhere.
                    if concurrent and attempt < _PATIENCE:
                        time.sleep(0.1)
                        continue
                    if not _is_private(connection):
                        raise _refusal(connection, conninfo, steps, _NO_HASHES) from error
                    in_clear = True
                    continue
                if not concurrent or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1)
                continue
            # A grant by somebody who may not pass the right on is only a warning.
            if ungranted := _ungranted_usage(connection):
                raise _refusal(connection, conninfo, ungranted)
            return


def missing_statements(connection: psycopg.Connection) -> list[str]:
    """What `bootstrap` would run in the database of the connection, without passwords.

    Raises:
        BootstrapError: The server is too old or has no pgvector, or the database is not in UTF-8.
    """
    passwords: dict[Role, str | None] = dict.fromkeys(LOGINS)
    passwords |= _of_nodes(connection, "")
    return [
        step.shown.as_string(connection) for step in _missing(connection, passwords, None, None)
    ]


def _of_nodes(connection: psycopg.Connection, conninfo: str) -> dict[Role, str | None]:
    """The password of the login that only nodes of a cluster have; empty where there is none."""
    distributed = on_citus(connection) and not is_together(connection)
    return {OWNER: owner_password(conninfo)} if distributed else {}


def _missing(
    connection: psycopg.Connection,
    passwords: Mapping[Role, str | None],
    migrator: str | None,
    migrator_password: str | None,
) -> list[_BootstrapStep]:
    """The missing statements, in the order in which they must run."""
    major = connection.info.server_version // 10_000
    if major < _OLDEST_POSTGRES:
        raise BootstrapError(
            f"the server runs PostgreSQL {major}; {_OLDEST_POSTGRES} or later is needed"
        )
    # Not every pooler names it when a connection begins. In SQL_ASCII, text comes as bytes anyway.
    asked = "SELECT current_setting('server_encoding')::bytea"
    [(encoding,)] = connection.execute(asked).fetchall()
    if encoding != b"UTF8":
        raise BootstrapError(
            f"the database has the encoding {encoding.decode()}, and texts of all languages need"
            f" UTF8: create another one with {_NEW_DATABASE} or another UTF-8 locale of that"
            " server, and name it in DATABASE_URL. If this one is in use, dump it and restore it"
            " into the other"
        )
    steps = _missing_extension(connection)
    # The existing roles, and whether they may log in.
    known: dict[str, bool] = dict(
        connection.execute(
            "SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname = ANY (%s)",
            [[OWNER, *LOGINS, migrator or ""]],
        ).fetchall()
    )
    if OWNER not in known:
        steps.append(_plain("CREATE ROLE {} NOLOGIN", OWNER))
    if OWNER in passwords and not known.get(OWNER):
        steps.append(_login(connection, _LET_IN, OWNER, passwords[OWNER]))
    for role in LOGINS:
        if role not in known:
            steps.append(_login(connection, _NEW_LOGIN, role, passwords[role]))
        elif not known[role]:
            steps.append(_login(connection, _LET_IN, role, passwords[role]))
        if role not in known or not _may_in_database(connection, role, "CONNECT"):
            steps.append(_plain("GRANT CONNECT ON DATABASE {} TO {}", connection.info.dbname, role))
    steps += _ungranted_usage(connection)
    if migrator is not None and migrator not in known:
        steps.append(_login(connection, _NEW_LOGIN, migrator, migrator_password))
    member = migrator or connection.info.user
    exist = OWNER in known and (migrator is None or migrator in known)
    if not (exist and _may_become(connection, member, OWNER)):
        steps.append(_plain("GRANT {} TO {}", OWNER, member))
    if OWNER not in known or not _may_in_database(connection, OWNER, "CREATE"):
        steps.append(_plain("GRANT CREATE ON DATABASE {} TO {}", connection.info.dbname, OWNER))
    return steps


def _missing_extension(connection: psycopg.Connection) -> list[_BootstrapStep]:
    found = _pgvector(connection)
    if found is None:
        if not holds(
            connection, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
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
    if schema not in VECTOR_SCHEMAS:
        raise BootstrapError(
            f"pgvector is in the schema {schema}, where its types are not found: set"
            f" {VECTOR_SCHEMA}={schema} for this command and for both services, or an administrator"
            " must run: ALTER EXTENSION vector SET SCHEMA public"
        )
    return []


def _pgvector(connection: psycopg.Connection) -> tuple[str, str] | None:
    """The version of pgvector and the schema of its types; None if it is still to be created."""
    return connection.execute(
        "SELECT e.extversion, n.nspname FROM pg_extension AS e"
        " JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()


def _ungranted_usage(connection: psycopg.Connection) -> list[_BootstrapStep]:
    """What lets our roles use the types of pgvector, where everybody may not."""
    _, schema = _pgvector(connection) or ("", "public")
    held: dict[str, bool] = dict(
        connection.execute(
            "SELECT rolname, has_schema_privilege(rolname, %s, 'USAGE') FROM pg_roles"
            " WHERE rolname = ANY (%s)",
            [schema, [OWNER, *LOGINS]],
        ).fetchall()
    )
    # A new role has what everybody has.
    everybody = holds(connection, "SELECT has_schema_privilege('public', %s, 'USAGE')", [schema])
    return [
        _plain("GRANT USAGE ON SCHEMA {} TO {}", schema, role)
        for role in (OWNER, *LOGINS)
        if not held.get(role, everybody)
    ]


def _login(
    connection: psycopg.Connection, text: LiteralString, role: str, password: str | None
) -> _BootstrapStep:
    secret: sql.Composable = sql.SQL("NULL")
    clear = None
    name = sql.Identifier(role)
    if password is not None:
        clear = sql.SQL(text).format(name, sql.Literal(password))
        # Hashed here, so that the password itself is in no statement and no log of the server.
        hashed = connection.pgconn.encrypt_password(
            password.encode(), role.encode(), b"scram-sha-256"
        )
        secret = sql.Literal(hashed.decode())
    return _BootstrapStep(
        sql.SQL(text).format(name, secret),
        sql.SQL(text).format(name, sql.Literal("choose a password")),
        clear,
    )


def _may_in_database(connection: psycopg.Connection, role: str, right: str) -> bool:
    query = "SELECT has_database_privilege(%s, current_database(), %s)"
    return holds(connection, query, [role, right])


def _may_become(connection: psycopg.Connection, member: str, role: str) -> bool:
    """Whether `member` may SET ROLE to `role`; since Postgres 16 a membership may lack that."""
    right = "SET" if connection.info.server_version >= 160_000 else "MEMBER"
    return holds(connection, "SELECT pg_has_role(%s, %s, %s)", [member, role, right])


def _plain(text: LiteralString, *names: str) -> _BootstrapStep:
    statement = sql.SQL(text).format(*map(sql.Identifier, names))
    return _BootstrapStep(statement, statement)


def _is_hashed(step: _BootstrapStep | None, in_clear: bool) -> bool:
    """Whether a step that failed carried a hash."""
    return step is not None and step.in_clear is not None and not in_clear


def _is_private(connection: psycopg.Connection) -> bool:
    """Whether nobody can read along: TLS, or a socket of this machine."""
    return bool(connection.pgconn.ssl_in_use) or connection.info.host.startswith("/")


def _refusal(
    connection: psycopg.Connection,
    conninfo: str,
    steps: Sequence[_BootstrapStep],
    why: str = "",
) -> BootstrapError:
    database = conninfo_to_dict(conninfo).get("dbname") or connection.info.dbname
    script = "\n".join(f"    {step.shown.as_string(connection)};" for step in steps)
    names = " and ".join(PASSWORD_VARIABLES)
    about = (
        f"the server of the database {database} {why} have an administrator run there, with"
        f" passwords of your own, which {names} then name"
        if why
        else f"the role {connection.info.user} may not prepare the database {database}. Have an"
        " administrator run there, then try again"
    )
    return BootstrapError(f"{about}:\n{script}")
