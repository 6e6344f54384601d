"""Settings that hold for one transaction, for poolers and for clusters.

A pooler lends a connection to Postgres for one transaction, to another client for the next: what a
connection otherwise sets once travels at the start of every transaction, with its first statement.
Citus passes on to the nodes only what is set by SET LOCAL within BEGIN and COMMIT: there the
tenant, by which row-level security goes, and the limit of waits for locks are set so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection, postgres, sql
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

SET_LOCAL = """
SELECT set_config(name, value, true)
FROM unnest(%(names)s::text[], %(values)s::text[]) AS setting (name, value)
"""
_OPENINGS = ("BEGIN", "SET TRANSACTION")
"""The beginnings of statements that must come before any other of a transaction."""


def set_on_shards(values: Mapping[str, str]) -> list[bytes]:
    """The statements, without parameters, that set this on all nodes of a cluster."""
    setting = sql.SQL("SET LOCAL {} = {}")
    return [
        setting.format(sql.Identifier(*name.split(".")), sql.Literal(value)).as_bytes(None)
        for name, value in values.items()
    ]


def opens_transaction(statement: str | bytes) -> bool:
    """Whether a statement begins a transaction, or settles its isolation."""
    text = statement.decode(errors="replace") if isinstance(statement, bytes) else statement
    return text.startswith(_OPENINGS)


def read_times_as_utc(connection: AsyncConnection[Any]) -> None:
    """Convert times as if the session's time zone was UTC.

    psycopg goes by the time zone that the server reports between transactions.
    """
    for loader in (_UtcText, _UtcBinary):
        connection.adapters.register_loader("timestamptz", loader)


class _UtcText(Loader):
    format = Format.TEXT

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = postgres.adapters.get_loader(oid, self.format)
        assert usual is not None
        # Without a connection, it assumes UTC.
        self._usual = usual(oid, None)

    def load(self, data: Buffer) -> Any:
        """See psycopg."""
        return self._usual.load(data)


class _UtcBinary(_UtcText):
    format = Format.BINARY
