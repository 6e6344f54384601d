"""A place of the test's own, the services in it, and a model in the test's loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.faults.chaos.promises import TABLES
from tests.faults.ledger import Ledger
from tests.faults.processes import API_KEY, Processes
from tests.faults.submitting import Caller
from tests.scripted_model import ScriptedModel, canary_script


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """Finds one memory per `canary:word`."""
    async with ScriptedModel(canary_script) as server:
        yield server


@pytest.fixture
def private(place: Path, model: ScriptedModel) -> Iterator[Processes]:
    """Services on an embedded Postgres of their own, in a folder that does not exist yet."""
    processes = Processes(place, OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY=API_KEY)
    yield processes
    processes.close()


@pytest.fixture
def shared(place: Path, model: ScriptedModel, conninfo: str) -> Iterator[Processes]:
    """Services on a migrated database of a server that outlives them."""
    processes = Processes(
        place,
        OPENAI_BASE_URL=model.base_url,
        OPENAI_API_KEY=API_KEY,
        DATABASE_URL=conninfo,
        HITHERTO_AUTH="off",
    )
    yield processes
    processes.close()


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Name of a database nobody has migrated."""
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield name
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """What this test's callers were told OK about."""
    return Ledger(tmp_path / "acknowledged.jsonl")


@pytest.fixture
async def caller(ledger: Ledger) -> AsyncIterator[Callable[[Callable[[], str]], Caller]]:
    """Makes callers of an address that may change."""
    made: list[Caller] = []

    def make(address: Callable[[], str]) -> Caller:
        made.append(Caller(address, ledger))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@dataclass(frozen=True)
class Scene:
    """Services on a migrated database, callers of them, and what was acknowledged to these.

    Attributes:
        conninfo: The database as its administrator sees it.
    """

    processes: Processes
    model: ScriptedModel
    caller: Callable[[Callable[[], str]], Caller]
    ledger: Ledger
    conninfo: str

    async def settled(self) -> dict[str, int]:
        """Wait for the acknowledged jobs, and hold them against the database; their states."""
        await self.ledger.settled(self.conninfo)
        return self.ledger.check(self.conninfo, chat_calls=self.model.calls["chat"])


@pytest.fixture
def scene(
    shared: Processes,
    model: ScriptedModel,
    caller: Callable[[Callable[[], str]], Caller],
    ledger: Ledger,
    superuser_conninfo: str,
) -> Scene:
    """See `Scene`."""
    return Scene(shared, model, caller, ledger, superuser_conninfo)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End a run with what it tried and what was lost."""
    for title, text in TABLES:
        terminalreporter.section(title)
        terminalreporter.write_line(text)
