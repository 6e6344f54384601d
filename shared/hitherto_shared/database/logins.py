"""The services' database logins: their passwords, and a check that none exceeds its role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

import psycopg

from hitherto_shared.database.connect import (
    EXTRACTION_LOGINS,
    LOGINS,
    OWNER,
    RETRIEVAL_LOGINS,
    SCHEMA,
    DatabaseUnreachable,
    Role,
    connected,
    logging_in,
    service_passwords,
    with_role,
)

PASSWORD_VARIABLES = ("HITHERTO_RETRIEVAL_PASSWORD", "HITHERTO_EXTRACTION_PASSWORD")
"""Settings with the password of all logins of a service."""

# Roles that this session has or may assume, and that grants or row-level security do not restrict,
# or only as another role.
_TOO_STRONG = """
SELECT r.rolname::text
FROM pg_roles AS r
WHERE pg_has_role(session_user, r.oid, 'MEMBER')
  AND (
    r.rolsuper OR r.rolbypassrls OR r.rolcreaterole
    OR (r.rolname = ANY (%(ours)s) AND r.rolname <> session_user)
    OR r.rolname IN (
        'pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files',
        'pg_execute_server_program')
    OR r.oid IN (
        SELECT datdba FROM pg_database WHERE datname = current_database()
        UNION ALL
        SELECT nspowner FROM pg_namespace WHERE nspname = %(schema)s))
ORDER BY r.rolname <> session_user, r.rolname
LIMIT 3
"""

_TAKEN = ("SUPERUSER", "CREATEROLE", "BYPASSRLS")
_ATTRIBUTES: LiteralString = (
    "SELECT rolsuper, rolcreaterole, rolbypassrls FROM pg_roles WHERE rolname = %s"
)


class LoginTooStrong(PermissionError):
    """A service's login could bypass its restrictions.

    The text has the SQL for an administrator.
    """


def passwords_for(
    conninfo: str, *, retrieval: str | None, extraction: str | None
) -> Mapping[Role, str | None]:
    """The password of every login: one per service as given, else derived from `conninfo`."""
    known = dict(service_passwords(conninfo))
    if retrieval is not None:
        known.update(dict.fromkeys(RETRIEVAL_LOGINS, retrieval))
    if extraction is not None:
        known.update(dict.fromkeys(EXTRACTION_LOGINS, extraction))
    return known


def require_no_more(connection: psycopg.Connection, role: Role) -> None:
    """Raise LoginTooStrong if this connection can assume another role."""
    rows = connection.execute(_TOO_STRONG, {"ours": [OWNER, *LOGINS], "schema": SCHEMA}).fetchall()
    names = [row[0] for row in rows]
    if not names:
        return
    if names[0] == role:
        raise LoginTooStrong(
            f"the database login {role} has more rights than a service may have; an administrator"
            f" must run: {_remedy(connection, role)}"
        )
    raise LoginTooStrong(
        f"the database login {role} can become {names[0]}, and a service's login must not be able "
        f'to become another role; an administrator must run: REVOKE "{names[0]}" FROM {role}'
    )


def _remedy(connection: psycopg.Connection, role: Role) -> str:
    """What takes a login's rights; it names only those that it has.

    Since Postgres 16, an administrator without SUPERUSER may not even take that away.
    """
    row = connection.execute(_ATTRIBUTES, [role]).fetchone()
    held = [f"NO{name}" for name, has in zip(_TAKEN, row or (), strict=False) if has]
    if held:
        return f"ALTER ROLE {role} {' '.join(held)}"
    return (
        f"ALTER DATABASE {connection.info.dbname} OWNER TO somebody else, and likewise"
        f" ALTER SCHEMA {SCHEMA} if {role} owns it"
    )


def refused(conninfo: str, passwords: Mapping[Role, str | None]) -> list[Role]:
    """The logins that are refused with these passwords."""
    return [
        role
        for role, password in passwords.items()
        if not _lets_in(
            with_role(logging_in(conninfo, role, password), role, application="hitherto-login")
        )
    ]


def _lets_in(conninfo: str) -> bool:
    try:
        connected(conninfo).close()
    except DatabaseUnreachable:
        return False
    return True
