"""Errors as callers and logs see them: a reason of the contract, and never a user's words.

Rows of the fault catalogue: 51 (cancelled and late calls free their slot), 63 (nothing in logs).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import error_reason_pb2
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto_extraction.handlers.extraction import ExtractionHandlers
from hitherto_retrieval.handlers.retrieval import RetrievalHandlers
from tests.e2e.conftest import Services, StartServices
from tests.e2e.methods import METHODS, Method, ask, call, refused
from tests.e2e.requests import valid
from tests.e2e.sessions import refusal_of
from tests.e2e.test_logs_of_work import Log, log  # noqa: F401 - `log` is a fixture

ROOT = Path(__file__).parents[2]
SECRET = "canary-of-a-user"
GET_PROFILE = METHODS["RetrievalService/GetProfile"]
GET_CONTEXT = METHODS["RetrievalService/GetContext"]
GET_JOB = METHODS["ExtractionService/GetJob"]
WATCH_JOB = METHODS["ExtractionService/WatchJob"]
APPEND = METHODS["ExtractionService/AppendMessages"]


def test_every_reason_in_the_source_is_in_the_contract() -> None:
    known = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()}  # noqa: SIM118
    found: dict[str, str] = {}
    for folder in ("shared/hitherto_shared", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            for reason in re.findall(r"""reason\s*=\s*["']([^"']*)["']""", path.read_text("utf-8")):
                found.setdefault(reason, path.name)
    errors = {reason: where for reason, where in found.items() if re.fullmatch("[A-Z_]+", reason)}
    assert len(errors) > 15
    assert {reason: where for reason, where in errors.items() if reason not in known} == {}


async def _raise(*_: Any) -> Any:
    raise RuntimeError(f"row ({SECRET}) is odd")


async def _raise_in_stream(*_: Any) -> AsyncIterator[Any]:
    yield extraction.WatchJobResponse()
    raise KeyError(SECRET)


async def _violate_a_check(handlers: Any, *_: Any) -> Any:
    """What a missing check at the border would lead to: Postgres quotes the whole row."""
    async with handlers.answering.database.connection() as connection:
        await connection.execute(
            "INSERT INTO users (tenant_id, user_id, audit_key) VALUES ('t', %s, %s)",
            [SECRET * 100, b"k"],
        )


async def _not_even_text(handlers: Any, *_: Any) -> Any:
    async with handlers.answering.database.connection() as connection:
        await connection.execute("SELECT %s::text", [f"{SECRET}\x00"])


FAULTS: list[tuple[type, Method, Any]] = [
    (RetrievalHandlers, GET_PROFILE, _raise),
    (ExtractionHandlers, GET_JOB, _raise),
    (ExtractionHandlers, WATCH_JOB, _raise_in_stream),
    (ExtractionHandlers, METHODS["ExtractionService/CancelJob"], _violate_a_check),
    (ExtractionHandlers, METHODS["ExtractionService/RetryJob"], _not_even_text),
]


async def test_a_fault_of_ours_tells_nothing_but_its_id(
    start_services: StartServices,
    monkeypatch: pytest.MonkeyPatch,
    log: Log,  # noqa: F811
) -> None:
    """Row 63: neither the caller nor the log is told what an exception says."""
    for handlers, method, fault in FAULTS:
        monkeypatch.setattr(handlers, method.name.partition("/")[2], fault)
    async with start_services() as services:
        for _, method, _ in FAULTS:
            refusal = await refused(
                services, method, valid(method), metadata=[("x-request-id", method.name)]
            )
            assert refusal.reason == "INTERNAL", method.name
            assert refusal.metadata == {"error_id": method.name}
            assert SECRET not in refusal.everything, method.name
    assert SECRET not in log.written.getvalue()
    told = [entry for entry in log.lines if "exception" in entry]
    assert [entry["request_id"] for entry in told] == [method.name for _, method, _ in FAULTS]
    # Where it happened is told.
    assert all("test_errors.py" in entry["exception"] for entry in told)


def _stall_writes(superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER stall BEFORE INSERT ON conversations"
            " FOR EACH ROW EXECUTE FUNCTION stall()"
        )


async def _statements(watcher: psycopg.AsyncConnection[Any]) -> int:
    """Statements of the services that run at this moment in this test's database."""
    cursor = await watcher.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND state <> 'idle' AND wait_event = 'PgSleep'"
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def test_a_write_that_is_given_up_leaves_no_statement(
    services: Services, superuser_conninfo: str
) -> None:
    """Row 51: the statement is ended, and the slot is free for the next call."""
    _stall_writes(superuser_conninfo)
    connecting = psycopg.AsyncConnection.connect(superuser_conninfo, autocommit=True)
    async with await connecting as watcher:

        async def until(wanted: bool) -> None:
            async with asyncio.timeout(180):  # the statement alone would take ten minutes
                while True:
                    if (await _statements(watcher) > 0) is wanted:
                        return
                    await asyncio.sleep(0.02)

        # Of each kind more than the pool has connections.
        for end in ["cancel"] * 12 + ["deadline"] * 12:
            going = asyncio.ensure_future(
                call(services, APPEND, valid(APPEND), timeout=0.05 if end == "deadline" else 60)
            )
            if end == "cancel":
                await until(True)
                going.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await going
            else:
                assert (await refusal_of(going)).code is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(False)
    await ask(services, "ListJobs", user_id="")
