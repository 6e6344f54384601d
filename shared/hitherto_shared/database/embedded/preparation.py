"""Prepares a new cluster for the services: their database, its roles and the extension.

It is checked at each acquisition, so that a process killed midway leaves nothing incomplete.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import LOGINS, OWNER, service_passwords
from hitherto_shared.database.embedded.credentials import Credentials

DATABASE = "hitherto"
LOGIN_ROLE = "hitherto"
"""The login that migrates. The passwords of the services' logins are derived from its password."""


def prepare(superuser_conninfo: Callable[[str], str], credentials: Credentials) -> None:
    """Create what is missing as superuser (under the startup lock).

    Raises:
        psycopg.Error: The server does not answer, or ended meanwhile.
    """
    with psycopg.connect(superuser_conninfo("postgres"), autocommit=True) as connection:
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    inside = superuser_conninfo(DATABASE)
    bootstrap(
        inside,
        passwords=service_passwords(
            make_conninfo(user=LOGIN_ROLE, password=credentials.login_password)
        ),
        migrator=LOGIN_ROLE,
        migrator_password=credentials.login_password,
    )
    with psycopg.connect(inside, autocommit=True) as connection:
        row = connection.execute(
            "SELECT pg_get_userbyid(datdba) = %s,"
            " NOT EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba)))"
            " WHERE grantee = 0 AND privilege_type = 'CONNECT'),"
            " has_database_privilege(%s, oid, 'CONNECT')"
            " FROM pg_database WHERE datname = current_database()",
            [OWNER, LOGIN_ROLE],
        ).fetchone()
        if row == (True, True, True):
            return
        names = {
            "database": sql.Identifier(DATABASE),
            "owner": sql.Identifier(OWNER),
            "logins": sql.SQL(", ").join(map(sql.Identifier, (LOGIN_ROLE, *LOGINS))),
        }
        with connection.transaction():
            for statement in (
                "ALTER DATABASE {database} OWNER TO {owner}",
                "REVOKE CONNECT ON DATABASE {database} FROM PUBLIC",
                "GRANT CONNECT ON DATABASE {database} TO {logins}",
                "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            ):
                connection.execute(sql.SQL(statement).format(**names))
