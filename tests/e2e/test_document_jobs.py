"""Jobs that read documents, under everything that happens meanwhile (B16).

Rows of the fault catalogue: 1 (crash), 57 (erase), and outages of the embedder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from hitherto.v1 import job_pb2
from hitherto_extraction.documents.runner import Ingestion
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts, UnusableReplies
from hitherto_extraction.prices import load_prices
from hitherto_extraction.queue import claims, jobs
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage.corpora.documents import DOCUMENTS
from hitherto_extraction.storage.corpora.vectors import find_pending
from hitherto_shared.database.pool import Database
from hitherto_shared.database.tenancy import act_for
from hitherto_shared.embeddings import active_embedder
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.startup import configure_vectors
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import change
from tests.e2e.handing_over import (
    check_index,
    chunks,
    delete,
    document,
    entities,
    hand_over,
    taken_in,
    vector_states,
)
from tests.e2e.learning import ended, rows
from tests.e2e.methods import ask
from tests.scripted_model import Hang, ScriptedModel, StatusFault

LONG = " ".join(f"Sentence number {n} is about tea." for n in range(100))
_BOUND = 180.0


async def test_until_the_job_is_done_the_old_chunks_are_there(modelled: Services) -> None:
    await taken_in(modelled, document("d1", "The old text.", author="Bo"))
    modelled.model.queue(Hang(), endpoint="embeddings")
    anew = document("d1", "The new text.", author="Ann")
    reply = await hand_over(modelled, anew)
    async with asyncio.timeout(_BOUND):
        await modelled.model.called(2, endpoint="embeddings")
    assert chunks(modelled.conninfo) == ["The old text."]
    assert set(entities(modelled.conninfo)) == {"Bo"}
    check_index(modelled.conninfo)
    # A waiting job is the answer for what is unchanged.
    again = await hand_over(modelled, anew)
    assert (again.job.id, again.unchanged_count) == (reply.job.id, 1)
    await ask(modelled, "CancelJob", job_id=reply.job.id)
    # Left unread by a job that ended early: handing it over again is unchanged, and queues a job.
    again = await hand_over(modelled, anew)
    assert (again.unchanged_count, again.job.id != reply.job.id) == (1, True)
    assert (await ended(modelled, again.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert chunks(modelled.conninfo) == ["The new text."]
    assert set(entities(modelled.conninfo)) == {"Ann"}


async def test_without_the_embedder_words_find_the_document_at_once(
    modelled: Services, superuser_conninfo: str, conninfo: str
) -> None:
    """The chunks wait for their vectors; the job does not."""
    modelled.model.always(StatusFault(503), endpoint="embeddings")
    _, job = await taken_in(modelled, document("d1", "Some tea.", title="About"))
    assert job.result.counts["chunks"] == 1
    check_index(superuser_conninfo)
    states = vector_states(superuser_conninfo)
    assert states.total() == 1
    async with OpenDatabase(conninfo, "hitherto_maintenance") as database:
        found = await database.run(
            lambda connection: find_pending(connection, DOCUMENTS, limit=10), timeout=_BOUND
        )
    assert [chunk.contents for chunk in found] == [("About\nSome tea.",)]
    assert modelled.model.calls["chat"] == 0


async def test_two_replicas_taking_one_document(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """For one of them it is new; it is embedded once. With different contents, whatever the order,
    chunks and words are in the end those of the content that was kept."""
    settings = model_settings(model)
    async with start_services(**settings) as one, start_services(**settings) as two:
        replies = await asyncio.gather(
            *(hand_over(at, document("d1", LONG, author="Bo")) for at in (one, two) * 4)
        )
        assert sum(reply.new_count for reply in replies) == 1
        assert sum(reply.unchanged_count for reply in replies) == 7
        assert len({reply.document_ids[0] for reply in replies}) == 1
        assert len({reply.job.id for reply in replies}) == 1
        await ended(one, replies[0].job.id)
        assert model.calls["embeddings"] == 1
        assert entities(two.conninfo) == {"Bo": ("person", 1, "")}
        check_index(two.conninfo)

        replies = await asyncio.gather(
            *(
                hand_over(at, document("d1", f"Version {n}. {LONG}", author=f"Author {n}"))
                for n, at in enumerate((one, two) * 4)
            )
        )
        assert sum(reply.replaced_count for reply in replies) == 8
        for reply in replies:
            assert (await ended(one, reply.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
    ((content, author),) = rows(two.conninfo, "SELECT content, author FROM documents")
    assert " ".join(chunks(two.conninfo)) == content
    assert entities(two.conninfo) == {author: ("person", 1, "")}
    check_index(two.conninfo)


# The runner by itself, with an embedder that lets something happen in its call.


class Meddling(OfflineEmbedder):
    """Does something before it answers the call of this number."""

    def __init__(self, meddle: Callable[[], Awaitable[object]], *, at: int = 1) -> None:
        super().__init__()
        self.meddle = meddle
        self.at = at
        self.calls = 0

    async def embed(self, texts: Any, *, timeout: float | None = None) -> EmbeddingBatch:
        self.calls += 1
        if self.calls == self.at:
            await self.meddle()
        return await super().embed(texts, timeout=timeout)


class OpenDatabase:
    def __init__(self, conninfo: str, role: Any) -> None:
        self._database = Database(conninfo, role, application="test", configure=configure_vectors)

    async def __aenter__(self) -> Database:
        await self._database.open()
        return self._database

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()


class Bench:
    """Documents accepted by a service whose worker takes no jobs, and a runner of one's own."""

    def __init__(self, services: Services, maintenance: Database, write: Database) -> None:
        self.services = services
        self.maintenance = maintenance
        self.write = write

    async def claim(self) -> Claim:
        async with self.maintenance.connection() as connection:
            await active_embedder.register(connection, OfflineEmbedder())
            (held,) = await claims.claim(
                connection, worker="t", kinds=["document-ingestion"], limit=1, lease_seconds=60
            )
        # As the worker does for each of its jobs.
        act_for(held.tenant_id)
        return held

    def runner(self, embedder: Any) -> Ingestion:
        prices = load_prices(None)
        account = FailedAttempts(self.write, prices, UnusableReplies(bytes(32)))
        return Ingestion(self.write, embedder, prices, account, memory_enabled=True)

    async def job(self, held: Claim) -> Any:
        async with self.maintenance.connection() as connection:
            return await jobs.get_job(connection, held.tenant_id, held.job_id)


@pytest.fixture
async def bench(start_services: StartServices, conninfo: str, monkeypatch: Any) -> Any:
    async def idle(_self: Any) -> None:
        """The worker of the service claims nothing."""

    monkeypatch.setattr("hitherto_extraction.worker.Worker.start", idle)
    async with (
        start_services() as services,
        OpenDatabase(conninfo, "hitherto_maintenance") as maintenance,
        OpenDatabase(conninfo, "hitherto_write") as write,
    ):
        yield Bench(services, maintenance, write)


async def test_what_changed_or_was_deleted_meanwhile(bench: Bench, superuser_conninfo: str) -> None:
    """It is done with its newest content, or passed over.

    The job that came with a change has nothing left to embed.
    """
    await hand_over(bench.services, document("d1", "Old."), document("d2", "Two."))
    held = await bench.claim()

    embedder = Meddling(lambda: hand_over(bench.services, document("d1", "New.")))
    await bench.runner(embedder).run(held)
    job = await bench.job(held)
    assert (job.state, embedder.calls) == ("succeeded", 2)
    assert job.result["counts"] == {"documents": 2, "chunks": 2, "entities": 0}
    assert chunks(superuser_conninfo) == ["New."]
    assert vector_states(superuser_conninfo) == {"stored": 2}
    later = await bench.claim()
    await bench.runner(embedder).run(later)
    job = await bench.job(later)
    assert (job.state, embedder.calls) == ("succeeded", 2)
    assert job.result["counts"] == {"documents": 0, "chunks": 0, "entities": 0}
    check_index(superuser_conninfo)

    reply = await hand_over(bench.services, document("d3", "Three."), document("d4", "Four."))
    held = await bench.claim()
    await bench.runner(Meddling(lambda: delete(bench.services, reply.document_ids[0]))).run(held)
    job = await bench.job(held)
    assert job.result["counts"] == {"documents": 1, "chunks": 1, "entities": 0}
    found = (chunks(superuser_conninfo, "d3"), chunks(superuser_conninfo, "d4"))
    assert found == ([], ["Four."])
    check_index(superuser_conninfo)


async def test_a_crash_between_embedding_and_commit_repeats_the_call_and_nothing_else(
    bench: Bench, superuser_conninfo: str
) -> None:
    """Row 1; what was committed before the crash is not done again."""
    await hand_over(
        bench.services, *(document(f"d{n}", f"{n} {LONG * 8}", author="Bo") for n in range(40))
    )
    held = await bench.claim()

    async def crash() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await bench.runner(Meddling(crash, at=2)).run(held)
    done = len(rows(superuser_conninfo, "SELECT 1 FROM documents WHERE ingested_hash IS NOT NULL"))
    assert 0 < done < 40
    before = rows(superuser_conninfo, "SELECT chunk_id FROM document_chunks ORDER BY 1")
    change(superuser_conninfo, "UPDATE jobs SET lease_until = now() - interval '1 s'")
    again = await bench.claim()
    assert again.done_to == done
    with pytest.raises(ClaimLost):
        await bench.runner(OfflineEmbedder()).run(held)
    await bench.runner(OfflineEmbedder()).run(again)
    job = await bench.job(again)
    assert job.result["counts"]["documents"] == 40
    after = rows(superuser_conninfo, "SELECT chunk_id FROM document_chunks ORDER BY 1")
    assert set(before) < set(after)
    assert job.result["counts"]["chunks"] == len(after)
    assert entities(superuser_conninfo) == {"Bo": ("person", 40, "")}
    assert vector_states(superuser_conninfo) == {"stored": len(after)}
    check_index(superuser_conninfo)


async def test_what_was_embedded_for_a_document_that_cannot_be_written_is_charged(
    bench: Bench, superuser_conninfo: str
) -> None:
    await hand_over(bench.services, document("d1", "One."), document("d2", "Two."))
    held = await bench.claim()

    async def refuse() -> None:
        change(superuser_conninfo, "ALTER TABLE document_chunks ADD CHECK (content <> 'Two.')")

    with pytest.raises(psycopg.errors.CheckViolation):
        await bench.runner(Meddling(refuse)).run(held)
    change(superuser_conninfo, "UPDATE jobs SET lease_until = now() - interval '1 s'")
    with pytest.raises(psycopg.errors.CheckViolation):
        await bench.runner(OfflineEmbedder()).run(await bench.claim())
    charged = "SELECT user_id, kind, calls FROM usage_ledger"
    assert rows(superuser_conninfo, charged) == [("ana", "document-ingestion", 2)]
    assert (await bench.job(held)).result["usage"]["embedding_calls"] == 2


async def test_a_person_or_a_model_that_is_another_by_the_time_of_the_commit(
    bench: Bench, superuser_conninfo: str
) -> None:
    """Row 57, between embedding and commit: of whoever is not to be remembered any more, the late
    answer is discarded."""
    for user, decided, state, reason in (
        ("off", "memory_enabled = false", "cancelled", "MEMORY_DISABLED"),
        ("gone", "erased_at = now()", "", "USER_ERASED"),
    ):
        await hand_over(bench.services, document("d1", "One."), user=user)
        held = await bench.claim()

        async def decide(user: str = user, decided: str = decided) -> None:
            statement = f"UPDATE users SET {decided} WHERE user_id = %(user)s"
            change(superuser_conninfo, statement, user=user)

        with pytest.raises(ClaimLost):
            await bench.runner(Meddling(decide)).run(held)
        job = await bench.job(held)
        assert job.error.partition(":")[0] == reason
        assert job.state == (state or job.state)
        assert chunks(superuser_conninfo) == [], user
        # What is left of the job would be claimed again.
        change(superuser_conninfo, "DELETE FROM jobs")
    # Vectors of another model than the active one are of no use: the chunks wait for its own.
    await hand_over(bench.services, document("d1", "One."))
    held = await bench.claim()

    async def switch() -> None:
        change(superuser_conninfo, "UPDATE embedding_models SET active = false")
        change(
            superuser_conninfo,
            "INSERT INTO embedding_models (model, dimensions, active) VALUES ('b', 8, true)",
        )

    await bench.runner(Meddling(switch)).run(held)
    assert vector_states(superuser_conninfo) == {"pending": 1}
