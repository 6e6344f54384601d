"""Reads all rows of a user as JSON, in one snapshot and in bounded memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from hitherto_extraction.storage import erased, users
from hitherto_extraction.storage.holdings import UserTable
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import WrongState
from hitherto_shared.work_record import Waiting

_FETCHED_AT_ONCE = 50
"""Rows in memory at a time; the largest is a message with its metadata."""

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_ROWS = """
SELECT row_to_json(shown)::text, {sealed}
FROM {table} AS held CROSS JOIN LATERAL (SELECT {columns}) AS shown
WHERE held.tenant_id = %(tenant_id)s AND held.{by} = %(user)s
ORDER BY {key}
"""

# Idempotency keys belong to callers and list their users. In a call about several users, the
# others' jobs are left out; not every id is a UUID like a job's.
_CALLS = """
SELECT row_to_json(held)::text, NULL
FROM (SELECT k.tenant_id, k.rpc, k.key, ARRAY[%(user)s::text] AS user_ids,
             ARRAY(SELECT made.id
                   FROM unnest(k.resource_ids) WITH ORDINALITY AS made (id, place)
                   WHERE NOT EXISTS (
                       SELECT FROM jobs AS j
                       WHERE j.job_id =
                           CASE WHEN made.id ~
                                   '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'
                               THEN made.id::uuid END
                         AND j.tenant_id = %(tenant_id)s AND j.user_id <> %(user)s)
                   ORDER BY made.place) AS resource_ids,
             k.created_at
      FROM idempotency_keys AS k
      WHERE k.tenant_id = %(tenant_id)s AND k.user_ids @> ARRAY[%(user)s::text]
      ORDER BY k.rpc, k.key) AS held
"""

# For a key of several users, the others are left out, as are secrets.
_LISTS = """
SELECT row_to_json(held)::text, NULL
FROM (SELECT key_id, tenant_id, name, scopes, user_id, ARRAY[%(user)s::text] AS user_ids,
             departments, capabilities, created_at, expires_at, revoked_at
      FROM api_keys
      WHERE tenant_id = %(tenant_id)s AND user_ids @> ARRAY[%(user)s::text]
        AND user_id IS DISTINCT FROM %(user)s
      ORDER BY key_id) AS held
"""

_PERSON = """
SELECT created_at, audit_key, erased_at IS NOT NULL
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

MANIFEST = "manifest"
"""What the last line of an export names in place of a table."""
CALLS = "idempotency_keys"
CREDENTIALS = "api_keys"

# Numbers computed by a model from a text that is exported itself.
_DERIVED_TYPES = frozenset({"halfvec", "vector", "sparsevec", "bit", "bit varying"})
DERIVED_TABLES = frozenset({"sealed_embeddings"})
"""Tables in which only such numbers are sealed."""
# Ciphertext: an export contains the text instead.
_SEALED = "sealed"
# With these, an attacker could act as the user or the tenant, or link what an erasure unlinks.
_SECRETS = frozenset(
    {
        ("api_keys", "secret_hash"),
        ("users", "audit_key"),
        ("webhooks", "secret_token"),
        ("webhooks", "url"),
    }
)


async def take_snapshot(connection: Connection) -> datetime:
    """Pin the transaction to one moment, which is returned. Must be its first statement."""
    await connection.execute(_SNAPSHOT, {})
    return await users.database_now(connection)


@dataclass(frozen=True, slots=True)
class UserStatus:
    """The state of a user.

    Attributes:
        may_be_read: False for a user who is erased or being erased, about whom nothing is revealed.
        since: When the user's row was created, and its key, which differs if the user was erased
            and imported since; None if there is none.
    """

    may_be_read: bool
    since: tuple[datetime, bytes | None] | None

    def ended_by(self, now: UserStatus) -> bool:
        """Whether the user was erased between this and `now`, even if reinstated since."""
        return not now.may_be_read or (self.since is not None and now.since != self.since)


async def read_standing(user: UserRows) -> UserStatus:
    """The present state of the user."""
    row = await user.fetch_row(_PERSON)
    if row is not None:
        return UserStatus(not row[2], (row[0], row[1]))
    try:
        await erased.refuse_erased(user)
    except WrongState:
        return UserStatus(False, None)
    return UserStatus(True, None)


def shown_columns(holding: UserTable) -> list[str]:
    """The columns of a table that an export contains."""
    return [
        name
        for name, kind in holding.columns.items()
        if kind not in _DERIVED_TYPES and name != _SEALED and (holding.name, name) not in _SECRETS
    ]


async def rows(
    user: UserRows, holding: UserTable, user_hash: str
) -> AsyncGenerator[tuple[str, bytes | None]]:
    """Every row of the user in a table: a JSON object on one line, and its sealed values."""
    shown = shown_columns(holding)
    opens = _SEALED in holding.columns and holding.name not in DERIVED_TABLES
    statement = sql.SQL(_ROWS).format(
        columns=sql.SQL(", ").join(sql.Identifier("held", name) for name in shown),
        sealed=sql.Identifier("held", _SEALED) if opens else sql.NULL,
        table=sql.Identifier(holding.name),
        by=sql.Identifier(holding.by),
        key=sql.SQL(", ").join(sql.Identifier("held", name) for name in holding.key),
    )
    owner = user.scope.user_id if holding.by == "user_id" else user_hash
    async for row in _fetched(user, statement, owner):
        yield row


async def shared_rows(user: UserRows) -> AsyncGenerator[tuple[str, str]]:
    """The user's part of API keys that list the user, and of idempotency records: table and row."""
    for table, statement in ((CREDENTIALS, _LISTS), (CALLS, _CALLS)):
        composed = sql.SQL(statement).format()
        async for row, _ in _fetched(user, composed, user.scope.user_id):
            yield table, row


async def _fetched(
    user: UserRows, statement: sql.Composed, name: str
) -> AsyncGenerator[tuple[str, bytes | None]]:
    await user.connection.flush()
    async with user.connection.cursor(name="hitherto_export") as cursor:
        cursor.itersize = _FETCHED_AT_ONCE
        with Waiting("sql", "export"):
            await cursor.execute(statement, {"tenant_id": user.scope.tenant_id, "user": name})
        async for row in cursor:
            yield row[0], row[1]
