"""Searches without the question's vector, and how seldom the model is asked (D10; row 32)."""

from __future__ import annotations

import asyncio
import unicodedata
from itertools import product
from typing import Any

import grpc
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.e2e.shelf import SCRIPTED, ago, fill, scripted_vector
from tests.e2e.test_search import leg, search
from tests.e2e.test_search_scopes import EVERYWHERE, KINDS, kinds
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Paper, Turn
from tests.scripted_model import (
    EmbeddingFault,
    Fault,
    Hang,
    RawReply,
    Reset,
    ScriptedModel,
    SlowDrip,
    StatusFault,
)
from tests.tenants import tenant_of

ASKED = "When does the tulip auction begin?"
FAULTS: dict[str, tuple[Fault, str]] = {
    "400": (StatusFault(400), "failed"),
    "no json": (RawReply(b"<html>"), "failed"),
    "wrong size": (EmbeddingFault("wrong_dimensions"), "failed"),
    "not a number": (EmbeddingFault("nan"), "failed"),
    "zero": (EmbeddingFault("zero"), "failed"),
    "cut": (Reset(), "failed or timed out"),
    "no answer": (Hang(), "timed out"),
    "a byte at a time": (SlowDrip(seconds=0.2), "timed out"),
}
STATES = {
    "failed": {search_pb2.LEG_STATE_FAILED},
    "timed out": {search_pb2.LEG_STATE_TIMED_OUT},
    "failed or timed out": {search_pb2.LEG_STATE_FAILED, search_pb2.LEG_STATE_TIMED_OUT},
}


@pytest.fixture
async def ana(superuser_conninfo: str) -> None:
    """An answer and something else of every kind, with the scripted model's vectors."""
    await fill(
        superuser_conninfo,
        "ana",
        memories=[Fact("The tulip auction begins at noon"), Fact("Ana keeps bees")],
        conversations={
            "c1": [Turn("The tulip auction begins at noon, she said")],
            "c2": [Turn("My bees swarmed")],
        },
        summaries=[Outline("c1", "A tulip auction"), Outline("c2", "Bees")],
        documents=[
            Paper("gdrive", ["Terms of the tulip auction"], title="Auction", made_at=ago(3)),
            Paper("jira", ["Mend the hive"], title="Hive", made_at=ago(1)),
        ],
        scripted=True,
    )


def settings(model: ScriptedModel, deadline_ms: int = 30_000) -> dict[str, Any]:
    return {**model_settings(model), "embedding_deadline_ms": deadline_ms}


async def test_d10_every_scope_is_found_by_words_when_the_model_fails(
    ana: None, start_services: StartServices, model: ScriptedModel
) -> None:
    async with start_services(**settings(model, 400)) as services:
        for number, (name, (fault, expected)) in enumerate(FAULTS.items()):
            model.always(fault, endpoint="embeddings")
            # A question of its own for each, so that no late answer to another one helps.
            question = f"{ASKED} {number}"
            found = await search(services, question, scopes=EVERYWHERE, limit=20, explain=True)
            semantic = leg(found, "semantic")
            assert semantic.state in STATES[expected], name
            assert ("400 ms" if expected == "timed out" else "") in semantic.reason, name
            assert semantic.reason, name
            assert semantic.candidates == 0
            assert leg(found, "keyword").state == search_pb2.LEG_STATE_RAN, name
            assert found.degraded
            assert set(kinds(found)) == set(KINDS.values()), name
            for kind in KINDS.values():
                best = next(r for r in found.results if r.WhichOneof("item") == kind)
                assert "tulip" in str(best).lower(), (name, kind)
            for result in found.results:
                assert sum(result.breakdown.values()) == pytest.approx(result.score, abs=1e-9)
                assert result.breakdown["semantic"] == 0
                assert "semantic" not in result.matched_legs


async def test_d10_without_the_model_and_after_it_has_healed(ana: None, modelled: Services) -> None:
    await a_question_that_needs_no_vector_is_not_embedded(modelled, modelled.model)
    await other_rankings_and_contexts_degrade_too_and_heal(modelled, modelled.model)


async def other_rankings_and_contexts_degrade_too_and_heal(
    modelled: Services, model: ScriptedModel
) -> None:
    model.always(StatusFault(400), endpoint="embeddings")
    for scope, ranking in product(EVERYWHERE, ("balanced", "weighted")):
        found = await search(modelled, ASKED, scopes=[scope], ranking=ranking)
        assert found.degraded
        assert "tulip" in str(found.results[0]).lower(), (scope, ranking)
    told = await modelled.retrieval.GetContext(pb.GetContextRequest(user_id="ana", query=ASKED))
    assert told.degraded
    assert {r.WhichOneof("item") for r in told.relevant} >= {"memory", "summary", "document_chunk"}
    assert "tulip" in told.prompt_block
    model.always(None, endpoint="embeddings")
    healed = await search(modelled, ASKED, scopes=EVERYWHERE)
    assert not healed.degraded
    assert leg(healed, "semantic").state == search_pb2.LEG_STATE_RAN


async def test_d10_a_question_is_embedded_once_however_it_is_asked(
    ana: None, start_services: StartServices, model: ScriptedModel
) -> None:
    """Waiting callers share a call, whatever they ask for; later ones take the vector kept."""
    question = "Khi nào đấu giá hoa?"
    variants = [question, unicodedata.normalize("NFD", question), f"  {question}\n"]

    async def ask(services: Services, number: int) -> Any:
        text = variants[number % 3]
        if number % 2:
            return await services.retrieval.GetContext(
                pb.GetContextRequest(user_id="ana", query=text)
            )
        return await search(services, text, scopes=[EVERYWHERE[number % 4]])

    async with start_services(**settings(model)) as services:
        model.delay = 0.3
        replies = await asyncio.gather(*(ask(services, number) for number in range(12)))
        assert {leg(reply, "semantic").state for reply in replies} == {search_pb2.LEG_STATE_RAN}
        assert model.calls["embeddings"] == 1
        model.always(StatusFault(400), endpoint="embeddings")
        for number in range(3):
            assert not (await ask(services, number)).degraded
        assert model.calls["embeddings"] == 1
        assert (await search(services, "something new")).degraded
        # Different questions that come at once each get their own vector.
        model.always(None, endpoint="embeddings")
        texts = ["tulip auction", "bees", "hive"]
        found = await asyncio.gather(
            *(search(services, text, weights={"keyword": 0.0}) for text in texts)
        )
        alone = [await search(services, text, weights={"keyword": 0.0}) for text in texts]
        assert [[r.score for r in f.results] for f in found] == [
            [r.score for r in f.results] for f in alone
        ]


async def test_d8_what_has_no_weight_is_not_looked_for(modelled: Services) -> None:
    """The model is not asked for what no vector counts in, nor the index where no word does."""
    asked = "When does the Tulip Society hold its auction? "
    said = "It was on the poster: auction at noon"
    ids = await fill(
        modelled.conninfo,
        "bo",
        memories=[Fact("An auction begins at noon", entities=["Tulip Society"]), Fact("Bees")],
        conversations={"c1": [Turn("The auction begins at noon, she said")]},
        scripted=True,
    )
    async with await psycopg.AsyncConnection.connect(modelled.conninfo) as connection:
        await register_vector_async(connection)
        await connection.execute(
            "INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model,"
            " dimensions, embedding) VALUES (%s, 'bo', %s, %s, %s, %s)",
            (tenant_of(modelled.conninfo), ids[0], *SCRIPTED, HalfVector(scripted_vector(said))),
        )
    components = ("semantic", "source", "keyword", "entity")
    for number, kept in enumerate(components):
        modelled.model.calls.clear()
        found = await search(
            modelled,
            # Each question is another one, so that no vector is there already.
            asked + "?" * number,
            user="bo",
            scopes=EVERYWHERE,
            limit=20,
            weights={name: float(name == kept) for name in components},
            min_relevance=0,
            explain=True,
        )
        compared = kept in ("semantic", "source")
        assert modelled.model.calls["embeddings"] == compared, kept
        assert not found.degraded
        # All memories as ever, whichever leg was searched; other kinds need a leg that finds them.
        assert kinds(found).count("memory") == 2, kept
        (auction,) = [r for r in found.results if r.memory.id == str(ids[0])]
        assert [name for name in components if auction.breakdown[name] > 0] == [kept]
        ran = {"keyword": kept == "keyword", "entity": kept == "entity", "semantic": compared}
        for name, did in ran.items():
            report = leg(found, name)
            if did:
                assert report.state == search_pb2.LEG_STATE_RAN, (kept, name)
                assert report.candidates > 0, (kept, name)
            else:
                assert report.state == search_pb2.LEG_STATE_SKIPPED, (kept, name)
                assert "no weight" in report.reason, (kept, name)
                assert not any(name in result.matched_legs for result in found.results)
    # Messages have no source words: no vector counts there without the weight of `semantic`.
    modelled.model.calls.clear()
    only_source = {name: float(name == "source") for name in components}
    scopes = [search_pb2.SEARCH_SCOPE_MESSAGES]
    found = await search(modelled, asked + "!", user="bo", scopes=scopes, weights=only_source)
    assert modelled.model.calls["embeddings"] == 0
    assert leg(found, "semantic").state == search_pb2.LEG_STATE_SKIPPED


async def a_question_that_needs_no_vector_is_not_embedded(
    modelled: Services, model: ScriptedModel
) -> None:
    model.calls.clear()
    model.always(Hang(), endpoint="embeddings")
    vector = scripted_vector("Terms of the tulip auction").tolist()
    found = await search(
        modelled, query_embedding=vector, scopes=EVERYWHERE, limit=20, min_relevance=0
    )
    assert found.results[0].document_chunk.content == "Terms of the tulip auction"
    assert not found.degraded
    assert len(found.results) == 8
    assert leg(found, "semantic").candidates == 8
    assert leg(found, "keyword").state == search_pb2.LEG_STATE_SKIPPED
    with_words = await search(
        modelled, "bees", query_embedding=vector, scopes=EVERYWHERE, explain=True, limit=20
    )
    assert leg(with_words, "keyword").candidates == 3
    by_words = [r for r in with_words.results if "keyword" in r.matched_legs]
    assert {r.WhichOneof("item") for r in by_words} == {"memory", "message", "summary"}
    assert model.calls["embeddings"] == 0
    # A vector of another size says which one is meant, also for somebody nobody has heard of.
    for user, size in (("ana", 63), ("ana", 1_536), ("nobody", 65)):
        refusal = await refusal_of(
            search(modelled, "bees", user=user, query_embedding=[0.5] * size, scopes=EVERYWHERE)
        )
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.reason == "EMBEDDING_SIZE_MISMATCH"
        assert (refusal.metadata["expected"], refusal.metadata["actual"]) == ("64", str(size))
        assert list(refusal.fields) == ["query_embedding"]
    # Nothing is embedded where nothing could be found.
    await search(modelled, "bees", user="nobody", scopes=EVERYWHERE)
    await search(modelled, "   ", scopes=EVERYWHERE)
    await modelled.retrieval.GetContext(pb.GetContextRequest(user_id="ana"))
    await ask(modelled, "GetContext", query="bees", max_relevant=0, max_conversations=0)
    assert model.calls["embeddings"] == 0


async def test_d10_the_callers_deadline_bounds_the_wait_in_every_scope(
    ana: None, start_services: StartServices, model: ScriptedModel
) -> None:
    """The model's share is part of the caller's time, however long it may take by setting."""
    async with start_services(**settings(model, 60_000)) as services:
        model.always(Hang(), endpoint="embeddings")
        found = await services.retrieval.SearchMemories(
            pb.SearchMemoriesRequest(user_id="ana", query=ASKED, scopes=EVERYWHERE), timeout=3
        )
        assert leg(found, "semantic").state == search_pb2.LEG_STATE_TIMED_OUT
        assert set(kinds(found)) == set(KINDS.values())


async def test_the_log_names_why_questions_get_no_vector_and_does_not_repeat_it(
    ana: None,
    start_services: StartServices,
    model: ScriptedModel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with start_services(**settings(model)) as services:
        model.always(StatusFault(401, code="invalid_api_key"), endpoint="embeddings")
        for number in range(3):
            await search(services, f"{ASKED} {number}")
        said = [
            record.getMessage() for record in caplog.records if record.name == "hitherto.models"
        ]
    (line,) = said
    assert "401" in line
    assert "OPENAI_API_KEY" in line
    assert "tulip" not in line
