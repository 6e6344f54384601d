"""H4, rows 60 and 62: Postgres itself keeps tenants apart, for the statement that forgets to.

The cases come from the catalogue: a new table with a tenant is held by them, or fails here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import psycopg
import pytest
from psycopg import errors, sql

from hitherto_shared.database.connect import Role, with_role
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import act_for, acting_for
from tests.e2e.conftest import Services
from tests.e2e.curating import save, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import learn, memories, rows, talk
from tests.e2e.methods import ask
from tests.e2e.sessions import update as update_session

WALLED: tuple[Role, ...] = ("hitherto_read", "hitherto_write", "hitherto_removal")
OPEN = {"api_keys"}
"""A key is looked up before its tenant is known; the table holds hashes."""

_TABLES = """
SELECT c.relname, c.relrowsecurity,
       ARRAY(SELECT p.polname::text FROM pg_policy AS p WHERE p.polrelid = c.oid ORDER BY 1)
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
ORDER BY c.relname
"""
_READABLE = "SELECT has_table_privilege(%s, 'hitherto.' || %s, 'SELECT')"
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = 'hitherto' AND table_name = %s AND is_generated = 'NEVER'
  AND is_identity = 'NO' AND column_name <> 'tenant_id'
"""


def tables(conninfo: str) -> list[str]:
    """Every table with a tenant that must be walled."""
    return [str(name) for name, _, _ in rows(conninfo, _TABLES) if name not in OPEN]


def doubled(conninfo: str) -> None:
    """Give the tenant `other` a copy of every row, as far as keys allow."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in tables(conninfo):
            columns = [name for (name,) in connection.execute(_COLUMNS, [table])]
            listed = sql.SQL(", ").join(map(sql.Identifier, columns))
            # Some keys, a job's id for one, are nobody's alone.
            with suppress(errors.UniqueViolation):
                connection.execute(
                    sql.SQL(
                        "INSERT INTO hitherto.{table} (tenant_id, {columns})"
                        " SELECT 'other', {columns} FROM hitherto.{table}"
                    ).format(table=sql.Identifier(table), columns=listed)
                )


def counted(connection: psycopg.Connection, table: str, where: str = "true") -> int:
    row = connection.execute(f"SELECT count(*) FROM hitherto.{table} WHERE {where}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
async def lived_in(services: Services, superuser_conninfo: str) -> None:
    """A user who has used everything, and a copy of all of it with another tenant."""
    await learn(services, talk("I live in Lisbon.", "I work with Marco at Acme."))
    made = (await save(services, "Anna likes tea 🍵")).memory
    await update(
        services, made.id, "content", "entities", content="Anna likes Huế", entities=["Huế"]
    )
    await taken_in(services, document("d1", "All about tea"))
    await update_session(services, context={"last_message": "tea"})
    await ask(services, "GetContext", query="tea")
    doubled(superuser_conninfo)


def test_every_table_with_a_tenant_is_walled(superuser_conninfo: str) -> None:
    found = rows(superuser_conninfo, _TABLES)
    assert len(found) > 20
    for name, enabled, policies in found:
        walled = name not in OPEN
        assert (enabled, policies) == (
            walled,
            ["across_tenants", "one_tenant"] if walled else [],
        ), name


async def test_row_62_roles_and_pooled_connections_act_for_one_tenant(
    services: Services, lived_in: None, conninfo: str, superuser_conninfo: str
) -> None:
    await a_role_sees_the_rows_of_its_tenant_and_without_one_none(conninfo, superuser_conninfo)
    await nobody_writes_into_another_tenant(services, conninfo)
    # Nor do many tasks at once over two connections.
    for size in (1, 2):
        await carries_nobody_else(
            Database(conninfo, "hitherto_read", application="test", max_size=size)
        )


async def a_role_sees_the_rows_of_its_tenant_and_without_one_none(
    conninfo: str, superuser_conninfo: str
) -> None:
    """What was never set is NULL, and what was reset is empty: neither may mean everything."""
    looked = filled = 0
    with psycopg.connect(superuser_conninfo, autocommit=True) as everything:
        for role in WALLED:
            readable = [
                table
                for table in tables(superuser_conninfo)
                if everything.execute(_READABLE, [role, table]).fetchone() == (True,)
            ]
            with psycopg.connect(
                with_role(conninfo, role, application="test"), autocommit=True
            ) as ours:
                for table in readable:
                    assert counted(ours, table) == 0, (role, table)
                    looked += 1
                unset = ours.execute("SELECT current_setting('hitherto.tenant_id', true)")
                assert unset.fetchone() == (None,)
                for table in readable:
                    ours.execute("RESET hitherto.tenant_id")
                    assert counted(ours, table) == 0, (role, table)
                    for tenant in ("default", "other", "", "nobody"):
                        ours.execute("SELECT set_config('hitherto.tenant_id', %s, false)", [tenant])
                        held = counted(everything, table, f"tenant_id = '{tenant}'")
                        assert counted(ours, table) == held, (role, table, tenant)
                        filled += held > 0
    assert looked > 20
    assert filled > 50


async def tenants(connection: Connection) -> Sequence[str]:
    """Whose memories a statement sees that forgot to name anybody."""
    return await connection.fetch_values("SELECT DISTINCT tenant_id FROM memories ORDER BY 1")


async def nobody_writes_into_another_tenant(services: Services, conninfo: str) -> None:
    """And a forged second tenant changes nothing for the first."""
    with psycopg.connect(
        with_role(conninfo, "hitherto_write", application="test"), autocommit=True
    ) as ours:
        ours.execute("SELECT set_config('hitherto.tenant_id', 'default', false)")
        with pytest.raises(errors.InsufficientPrivilege):
            ours.execute("INSERT INTO users (tenant_id, user_id) VALUES ('other', 'eve')")
        with pytest.raises(errors.InsufficientPrivilege):
            ours.execute("UPDATE users SET tenant_id = 'other'")
        changed = ours.execute("UPDATE memories SET importance = 0 WHERE tenant_id = 'other'")
        assert changed.rowcount == 0
        ours.execute("RESET hitherto.tenant_id")
        with pytest.raises(errors.InsufficientPrivilege):
            ours.execute("INSERT INTO users (tenant_id, user_id) VALUES ('default', 'eve')")
    assert "Anna likes Huế" in {each.content for each in await memories(services)}
    assert (await ask(services, "ListJobs")).jobs


async def carries_nobody_else(database: Database) -> None:
    """A pooled connection never carries another tenant."""
    await database.open()
    try:

        async def fail(connection: Connection) -> None:
            async with connection.transaction():
                assert await tenants(connection) == ["default"]
                await connection.execute("SELECT 1 / 0")

        async def hang(connection: Connection) -> None:
            await connection.execute("SELECT pg_sleep(60)")

        async def look(tenant: str) -> Sequence[str]:
            act_for(tenant)
            return await database.run(tenants, timeout=120)

        assert await database.run(tenants, timeout=120) == []
        with acting_for("default"):
            assert await database.run(tenants, timeout=120) == ["default"]
            with pytest.raises(errors.DivisionByZero):
                await database.run(fail, timeout=120)
        assert await database.run(tenants, timeout=120) == []
        with acting_for("other"):
            assert await database.run(tenants, timeout=120) == ["other"]
            cut_off = asyncio.create_task(database.run(hang, timeout=120))
            await asyncio.sleep(0)
            cut_off.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cut_off
        with acting_for("default"):
            assert await database.run(tenants, timeout=120) == ["default"]
        assert await database.run(tenants, timeout=120) == []
        asked = ["default", "other", "nobody"] * 40
        found = await asyncio.gather(*(asyncio.create_task(look(tenant)) for tenant in asked))
        for tenant, seen in zip(asked, found, strict=True):
            assert seen == ([] if tenant == "nobody" else [tenant])
    finally:
        await database.close()
