"""The audit log in a real Postgres: nobody changes it, days are signed, changes are found (H6)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from hitherto_client.command import main
from hitherto_extraction.upkeep.audit_digests import AuditDigests
from hitherto_shared.database import audit_log
from hitherto_shared.database.audit_log import close_hours, count_reads
from hitherto_shared.database.connect import Role, with_role
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Database
from hitherto_shared.signing import Signer, load_signer
from hitherto_shared.telemetry import JsonFormatter
from tests.refusing import refusing

ROLES: tuple[Role, ...] = (
    "hitherto_owner",
    "hitherto_read",
    "hitherto_write",
    "hitherto_maintenance",
    "hitherto_removal",
)
TABLES = ("audit_events", "audit_digests")
HASH = "ab" * 32
Verify = Callable[..., Any]


def put(
    conninfo: str, day: str, *, times: int = 3, tenant: str = "default", at: str = "12:00"
) -> None:
    """Entries of a past day, which only an administrator can put there."""
    with psycopg.connect(conninfo, autocommit=True) as admin:
        for i in range(times):
            admin.execute(
                "INSERT INTO audit_events (tenant_id, event_id, created_at, actor, method,"
                " user_hash, resource_ids, count)"
                " VALUES (%s, %s, %s::timestamptz + make_interval(secs => %s), 'key:1:backend',"
                " '/hitherto.v1.MemoryService/SaveMemory', %s, ARRAY[%s]::uuid[], 1)",
                [tenant, uuid4(), f"{day} {at}+00", i, HASH, uuid4()],
            )


def tamper(conninfo: str, statement: str, table: str = "audit_events") -> None:
    """What only the owner of the database can do: take the guard away and rewrite history."""
    with psycopg.connect(conninfo) as admin:
        admin.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
        admin.execute(statement.encode())
        admin.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_only_grow".encode())


def digests_of(conninfo: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo) as admin:
        return admin.execute(
            "SELECT tenant_id, day, count, key_id FROM audit_digests ORDER BY tenant_id, day"
        ).fetchall()


@asynccontextmanager
async def signing(conninfo: str, signer: Signer) -> AsyncIterator[AuditDigests]:
    database = Database(conninfo, "hitherto_maintenance", application="test", max_size=1)
    await database.open()
    try:
        yield AuditDigests(database, signer)
    finally:
        await database.close()


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    """The installation's signer, as the services and the command find it."""
    return load_signer(tmp_path / "signing_key.pem")


@pytest.fixture
def verify(
    conninfo: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Verify:
    """Runs `hitherto audit verify … --json`; the state of each day."""
    monkeypatch.setenv("DATABASE_URL", conninfo)
    monkeypatch.setenv("HITHERTO_DATA_DIR", str(tmp_path))

    def run(*arguments: str, code: int = 0) -> dict[str, str]:
        assert main(["audit", "verify", "--json", *arguments]) == code, capsys.readouterr().err
        out = capsys.readouterr().out
        return {each["day"]: each["state"] for each in json.loads(out)["days"]}

    return run


def test_nobody_changes_the_log(conninfo: str, superuser_conninfo: str) -> None:
    """Neither a role of ours nor a superuser, not even in a session that plays a replica."""
    put(superuser_conninfo, "2026-01-02")
    changes = [
        change.format(table).encode()
        for table in TABLES
        for change in ("UPDATE {} SET count = 7", "DELETE FROM {}", "TRUNCATE {}")
    ]
    for role in ROLES:
        dsn = with_role(conninfo, role, application="test")
        with psycopg.connect(dsn, autocommit=True) as connection:
            for change in changes:
                with pytest.raises(errors.InsufficientPrivilege), refusing((role, change)):
                    connection.execute(change)
    with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
        for setting in ("origin", "replica"):
            admin.execute(f"SET session_replication_role = {setting}".encode())
            for change in changes:
                told = pytest.raises(errors.InsufficientPrivilege, match="append-only")
                with told, refusing((setting, change)):
                    admin.execute(change)


def test_only_who_writes_the_log_may_add_to_it(conninfo: str) -> None:
    def rights(role: Role, table: str) -> set[str]:
        with psycopg.connect(with_role(conninfo, role, application="test")) as connection:
            found = connection.execute(
                "SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p"
                " WHERE has_table_privilege(current_user, %s, p)",
                [table],
            ).fetchall()
        return {row[0] for row in found}

    assert rights("hitherto_read", "audit_events") == {"INSERT"}
    assert rights("hitherto_write", "audit_events") == {"SELECT", "INSERT"}
    assert rights("hitherto_maintenance", "audit_events") == {"SELECT", "INSERT"}
    assert rights("hitherto_removal", "audit_events") == {"SELECT", "INSERT"}
    assert rights("hitherto_read", "audit_digests") == set()
    assert rights("hitherto_write", "audit_digests") == {"SELECT"}
    assert rights("hitherto_maintenance", "audit_digests") == {"SELECT", "INSERT"}
    assert "DELETE" not in rights("hitherto_read", "audit_read_counts")


async def test_days_that_are_over_are_signed_once_and_told_in_the_log(
    conninfo: str,
    superuser_conninfo: str,
    signer: Signer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_log, "_PAGE", 2)
    caplog.set_level(logging.INFO, logger="hitherto.audit")
    for day in ("2026-01-02", "2026-01-03", "2026-02-01"):
        put(superuser_conninfo, day)
    put(superuser_conninfo, "2026-01-02", tenant="acme", times=1, at="23:59:59")
    with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
        (today,) = admin.execute("SELECT (now() AT TIME ZONE 'UTC')::date::text").fetchone() or ()
    put(superuser_conninfo, str(today), at="00:00")
    async with signing(conninfo, signer) as ours, signing(conninfo, signer) as twin:
        await asyncio.gather(ours.sign(), twin.sign())
        await ours.sign()
    signed = [
        ("acme", date(2026, 1, 2), 1, signer.key_id),
        ("default", date(2026, 1, 2), 3, signer.key_id),
        ("default", date(2026, 1, 3), 3, signer.key_id),
        ("default", date(2026, 2, 1), 3, signer.key_id),
    ]
    assert digests_of(superuser_conninfo) == signed
    told = [record.__dict__["digest"] for record in caplog.records if "digest" in record.__dict__]
    assert sorted((each["tenant_id"], each["day"]) for each in told) == [
        (tenant, day.isoformat()) for tenant, day, _, _ in signed
    ]


async def test_a_day_without_entries_between_others_is_passed_over(
    conninfo: str, superuser_conninfo: str, signer: Signer
) -> None:
    put(superuser_conninfo, "2026-01-02")
    async with signing(conninfo, signer) as digests:
        await digests.sign()
        put(superuser_conninfo, "2026-01-05")
        await digests.sign()
    assert [row[1].day for row in digests_of(superuser_conninfo)] == [2, 5]


def sign(conninfo: str, signer: Signer) -> None:
    async def run() -> None:
        async with signing(conninfo, signer) as digests:
            await digests.sign()

    asyncio.run(run())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit_events SET actor = 'somebody' WHERE created_at::time = '12:00:01'",
        "DELETE FROM audit_events WHERE created_at = '2026-01-02 12:00:02+00'",
        "INSERT INTO audit_events SELECT tenant_id, gen_random_uuid(), created_at, actor, method,"
        " user_hash, resource_ids, count FROM audit_events"
        " WHERE created_at = '2026-01-02 12:00:00+00'",
        "UPDATE audit_events SET resource_ids = '{}' WHERE created_at::date = '2026-01-02'",
        "DELETE FROM audit_events WHERE created_at::date = '2026-01-02'",
    ],
)
def test_whatever_is_changed_of_a_signed_day_is_found(
    conninfo: str, superuser_conninfo: str, signer: Signer, verify: Verify, change: str
) -> None:
    for day in ("2026-01-02", "2026-01-03"):
        put(superuser_conninfo, day)
    sign(conninfo, signer)
    assert verify() == {"2026-01-02": "unchanged", "2026-01-03": "unchanged"}
    tamper(superuser_conninfo, change)
    found = verify(code=1)
    assert found["2026-01-02"] == "changed"


def test_a_digest_that_was_replaced_or_removed_is_found_by_the_copy_in_the_log(
    conninfo: str,
    superuser_conninfo: str,
    signer: Signer,
    verify: Verify,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="hitherto.audit")
    for day in ("2026-01-02", "2026-01-03"):
        put(superuser_conninfo, day)
    sign(conninfo, signer)
    copy = tmp_path / "service.log"
    lines = [JsonFormatter("hitherto-extraction").format(record) for record in caplog.records]
    copy.write_text("starting\n" + "\n".join(lines) + "\n", "utf-8")
    assert set(verify("--digests", str(copy)).values()) == {"unchanged"}
    # Whoever has the database and the key can rewrite a day so that the database alone fits.
    tamper(superuser_conninfo, "DELETE FROM audit_events WHERE created_at::date = '2026-01-02'")
    put(superuser_conninfo, "2026-01-02", times=2)
    tamper(superuser_conninfo, "DELETE FROM audit_digests", "audit_digests")
    sign(conninfo, signer)
    assert set(verify().values()) == {"unchanged"}
    assert verify("--digests", str(copy), code=1) == {
        "2026-01-02": "changed",
        "2026-01-03": "unchanged",
    }
    tamper(superuser_conninfo, "DELETE FROM audit_digests", "audit_digests")
    assert verify("--digests", str(copy), code=1)["2026-01-03"] == "missing"


def test_a_digest_of_another_key_is_not_believed(
    conninfo: str, superuser_conninfo: str, signer: Signer, verify: Verify, tmp_path: Path
) -> None:
    put(superuser_conninfo, "2026-01-02")
    other = load_signer(tmp_path / "other.pem")
    sign(conninfo, other)
    assert verify(code=1) == {"2026-01-02": "unknown_key"}
    assert verify("--public-key", str(tmp_path / "other.pem")) == {"2026-01-02": "unchanged"}
    tamper(
        superuser_conninfo, f"UPDATE audit_digests SET key_id = '{signer.key_id}'", "audit_digests"
    )
    assert verify(code=1) == {"2026-01-02": "forged"}


def test_the_command_says_what_it_needs(
    verify: Verify, signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify() == {}
    empty = tmp_path / "empty.log"
    empty.write_text("nothing\n", "utf-8")
    for wrong in (
        ["--digests", str(empty)],
        ["--digests", str(tmp_path / "nowhere")],
        ["--public-key", str(empty)],
    ):
        assert main(["audit", "verify", *wrong]) == 2
        assert str(wrong[1]) in capsys.readouterr().err


async def test_reads_of_an_hour_are_added_up(superuser_conninfo: str) -> None:
    async with await PipelineConnection.connect(superuser_conninfo, autocommit=True) as connection:
        for times in (2, 3):
            await count_reads(connection, "default", {("a", "m", ""): times})
        total = "SELECT sum(count)::int FROM audit_read_counts"
        assert await connection.fetch_value(total) == 5


async def test_an_hour_moves_once_whoever_moves_it(conninfo: str, superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
        for user in range(51):
            admin.execute(
                "INSERT INTO audit_read_counts (tenant_id, hour, actor, method, user_hash,"
                " event_id, created_at, count) VALUES ('default', date_trunc('hour', now(), 'UTC')"
                " - make_interval(hours => %s), 'a', 'm', %s, gen_random_uuid(),"
                " now() - interval '2 hours', 4)",
                [3 if user else 0, f"{user:064x}"],
            )
        dsn = with_role(conninfo, "hitherto_maintenance", application="test")
        async with (
            await PipelineConnection.connect(dsn, autocommit=True) as first,
            await PipelineConnection.connect(dsn, autocommit=True) as second,
        ):
            moved = await asyncio.gather(close_hours(first), close_hours(second))
        # The present hour goes on, unless it has ended meanwhile.
        going_on = "hour = date_trunc('hour', clock_timestamp(), 'UTC')"
        left = admin.execute(f"SELECT {going_on} FROM audit_read_counts").fetchall()
        assert left == [(True,)] or datetime.now(UTC).minute == 0
        closed = 51 - len(left)
        assert sum(moved) == closed
        assert admin.execute("SELECT count(*), sum(count) FROM audit_events").fetchone() == (
            closed,
            4 * closed,
        )
