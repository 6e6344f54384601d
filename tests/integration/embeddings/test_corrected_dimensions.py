"""The registered length of the active model's vectors at a start (requirement C7)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import psycopg
import pytest

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.reembedding import phases
from hitherto_extraction.storage import reembedding
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings import active_embedder
from hitherto_shared.embeddings.active_embedder import ActiveEmbedder, active_model, register_model
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.errors import TooLate

CONFIGURED = OfflineEmbedder()
MISTAKEN = CONFIGURED.dimensions + 1
_ACTIVATE = "UPDATE embedding_models SET active = true WHERE model = %(model)s"


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    """With a mistaken length of the configured model."""
    opened = Database(conninfo, "hitherto_maintenance", application="test", max_size=2)
    await opened.open()
    try:
        await opened.run(
            lambda connection: register_model(connection, CONFIGURED.name, MISTAKEN), timeout=60
        )
        yield opened
    finally:
        await opened.close()


async def activate(database: Database, model: str) -> None:
    """Make a registered model the active one."""

    async def act(connection: Connection) -> None:
        await connection.execute(_ACTIVATE, {"model": model})

    await database.run(act, timeout=60)


async def start(database: Database) -> None:
    """What a service does at its start, and nothing after it."""
    starting = ActiveEmbedder(database, Embedders(CONFIGURED, None))
    try:
        await starting.start()
    finally:
        await starting.stop()


async def test_c7_a_service_starts_though_looking_for_vectors_takes_long(
    database: Database,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A lock stands for millions of vectors of other models."""
    await activate(database, CONFIGURED.name)
    monkeypatch.setattr(active_embedder, "_CORRECT_SECONDS", 0.5)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute("LOCK TABLE hitherto.summary_embeddings IN ACCESS EXCLUSIVE MODE")
        with caplog.at_level(logging.ERROR, "hitherto.embeddings"):
            await start(database)
        assert await database.run(active_model, timeout=60) == (CONFIGURED.name, MISTAKEN)
    assert "memories will be stored without vectors" in caplog.text


async def test_c7_a_model_that_is_not_active_delays_no_start(
    database: Database, superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reembed corrects its length, if it is moved to."""
    other_model = "other"
    await database.run(lambda connection: register_model(connection, other_model, 8), timeout=60)
    await activate(database, other_model)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute("LOCK TABLE hitherto.summary_embeddings IN ACCESS EXCLUSIVE MODE")
        # Without the time limit, which would let the service start all the same.
        monkeypatch.setattr(active_embedder, "_CORRECT_SECONDS", 600.0)
        await start(database)


@pytest.fixture
async def other_active(database: Database) -> None:
    """Another model than the configured one is active."""
    await database.run(lambda connection: register_model(connection, "other", 8), timeout=60)
    await activate(database, "other")


async def moved(database: Database, *, by_itself: bool = True) -> None:
    """What a service does when it starts with another model; `by_itself` on an embedded one."""
    await phases.move_to_configured(
        database, Embedders(CONFIGURED, None), JobQueue(4), tenant_id="default", by_itself=by_itself
    )


@pytest.mark.usefixtures("other_active")
async def test_c7_a_service_starts_though_its_change_of_model_cannot_begin(
    database: Database,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The mistaken length of the new model would take long to correct."""
    monkeypatch.setattr(phases, "_LOOK_SECONDS", 0.5)
    monkeypatch.setattr(phases, "_BEGIN_SECONDS", 0.5)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute("LOCK TABLE hitherto.summary_embeddings IN ACCESS EXCLUSIVE MODE")
        await moved(database)
    assert f"from other to {CONFIGURED.name} did not begin" in caplog.text
    assert f"`hitherto reembed start {CONFIGURED.name}` and then `hitherto reembed switch`" in (
        caplog.text
    )
    monkeypatch.undo()
    await moved(database)
    known = await database.run(reembedding.models, timeout=60)
    assert known["target"].dimensions == CONFIGURED.dimensions


@pytest.mark.parametrize("active", ["other", CONFIGURED.name])
async def test_c7_a_look_that_takes_long_is_not_called_a_change(
    database: Database,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    active: str,
) -> None:
    """There may be nothing to change, and elsewhere than in the embedded database nobody does."""
    await database.run(lambda connection: register_model(connection, active, 8), timeout=60)
    await activate(database, active)
    monkeypatch.setattr(phases, "_LOOK_SECONDS", 0.5)
    monkeypatch.setattr(phases, "_BEGIN_SECONDS", 0.5)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute("LOCK TABLE hitherto.embedding_models IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TooLate):
            await moved(database, by_itself=False)
    assert "begin" not in caplog.text
    monkeypatch.undo()
    await moved(database, by_itself=False)
    assert ("then `hitherto reembed switch`" in caplog.text) == (active == "other")


@pytest.mark.usefixtures("other_active")
async def test_c7_no_text_is_counted_at_the_start(
    database: Database, superuser_conninfo: str
) -> None:
    await moved(database)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute("LOCK TABLE hitherto.messages IN ACCESS EXCLUSIVE MODE")
        await moved(database)
