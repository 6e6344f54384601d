"""A tenant of a test's own at services that many tests share: its credential and its rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.token_issuer import AUDIENCE, ISSUER, TokenIssuer, key_set

ISSUED = TokenIssuer()
SUBJECT = "jwt:test"
"""Who history and audit say it was that called the shared services."""
ROLE = "hitherto_test"
"""Reads and changes every table, and is held by the policies of row-level security."""
YIELDED_TO = "-c deadlock_timeout=120s"
"""Of a session that changes rows by hand, which locks them in another order than the services do.

Where both wait for each other, the service notices after a second, or its work runs out of time; it
then tries again. The hand-made change never fails.
"""


def token_settings(folder: Path) -> dict[str, Any]:
    """Settings by which a service admits whoever `ISSUED` signed for; the keys lie in `folder`."""
    keys = folder / "keys.json"
    keys.write_bytes(key_set(ISSUED.pair))
    return {
        "auth": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_jwks": str(keys),
    }


@dataclass(frozen=True)
class Tenant:
    """Whom a test calls for. Nothing else is known about this tenant before the test."""

    tenant_id: str = field(default_factory=lambda: f"t-{uuid4().hex}")

    @functools.cached_property
    def token(self) -> str:
        """A credential that may do everything within the tenant."""
        return ISSUED.token(
            sub="test",
            tenant=self.tenant_id,
            scope="read write maintenance admin",
            hitherto_user_scope="any",
            hitherto_capabilities=["profiles.manage"],
        )

    def rows_of(self, conninfo: str) -> str:
        """The administrator's `conninfo` for a session to which no other tenant's rows exist."""
        return make_conninfo(
            conninfo,
            options=f"-c search_path=hitherto,public {YIELDED_TO} -c role={ROLE}"
            f" -c hitherto.tenant_id={self.tenant_id}",
        )

    @property
    def alone_in_transaction(self) -> sql.Composed:
        """For the rest of an administrator's transaction, no other tenant's rows exist."""
        return sql.SQL("SET LOCAL ROLE {}; SET LOCAL hitherto.tenant_id = {}").format(
            sql.Identifier(ROLE), sql.Literal(self.tenant_id)
        )


def admit_test_role(conninfo: str) -> None:
    """Let `ROLE` into a migrated database, and into every copy of it; may be repeated.

    Args:
        conninfo: The database, as its administrator.
    """
    role = sql.Identifier(ROLE)
    with psycopg.connect(conninfo) as connection:
        # Workers of one run come here at once, and roles belong to the whole server.
        connection.execute("SELECT pg_advisory_xact_lock(4711)")
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
            # The policies of the roles that work for one tenant are those of their members too.
            connection.execute(sql.SQL("GRANT hitherto_write TO {}").format(role))
        for rights in ("USAGE ON SCHEMA", "ALL ON ALL TABLES IN SCHEMA"):
            connection.execute(sql.SQL(f"GRANT {rights} hitherto TO {{}}").format(role))


def credential(tenant: Tenant, user: str, scope: str = "read write") -> str:
    """A token that is bound to one person."""
    return ISSUED.token(sub=user, tenant=tenant.tenant_id, scope=scope)


def without_row_security(conninfo: str) -> None:
    """Leave it to the statements of a database of a test's own to keep tenants apart.

    Args:
        conninfo: The database, as its administrator.
    """
    with psycopg.connect(conninfo) as connection:
        walled = connection.execute(
            "SELECT relname::text FROM pg_class"
            " WHERE relnamespace = 'hitherto'::regnamespace AND relrowsecurity"
        ).fetchall()
        assert walled
        for (table,) in walled:
            connection.execute(
                sql.SQL("ALTER TABLE hitherto.{} DISABLE ROW LEVEL SECURITY").format(
                    sql.Identifier(table)
                )
            )


def tenant_of(conninfo: str) -> str:
    """The tenant whose rows a session of `conninfo` sees: that of `rows_of`, or the default one."""
    options = str(psycopg.conninfo.conninfo_to_dict(conninfo).get("options") or "")
    _, _, told = options.partition("hitherto.tenant_id=")
    return told.partition(" ")[0] or "default"


class Admitted:
    """A channel whose every call carries a tenant's credential, unless the call brings its own."""

    def __init__(self, channel: grpc.aio.Channel, tenant: Tenant) -> None:
        self._channel = channel
        self._credential = ("authorization", f"Bearer {tenant.token}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def unary_unary(self, *given: Any, **named: Any) -> Callable[..., Any]:
        return self._carrying(self._channel.unary_unary(*given, **named))

    def unary_stream(self, *given: Any, **named: Any) -> Callable[..., Any]:
        return self._carrying(self._channel.unary_stream(*given, **named))

    def stream_unary(self, *given: Any, **named: Any) -> Callable[..., Any]:
        return self._carrying(self._channel.stream_unary(*given, **named))

    def stream_stream(self, *given: Any, **named: Any) -> Callable[..., Any]:
        return self._carrying(self._channel.stream_stream(*given, **named))

    def _carrying(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(
            *given: Any, metadata: Sequence[tuple[str, str | bytes]] | None = None, **named: Any
        ) -> Any:
            sent = list(metadata or ())
            if all(key != "authorization" for key, _ in sent):
                sent.append(self._credential)
            return method(*given, metadata=sent, **named)

        return call
