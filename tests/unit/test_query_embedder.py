"""The vector of a question (D10): cached, coalesced, never later than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.query import QueryEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.model_api import ModelMisbehaved, ModelUnavailable


class Model:
    """An embedder whose calls wait until they are let go."""

    name = "model"
    dimensions = 8
    dedupe_threshold = 0.9
    offline = True

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.free = asyncio.Event()
        self.error: Exception | None = None
        self.closed = False

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        self.calls.append(list(texts))
        try:
            async with asyncio.timeout(timeout):
                await self.free.wait()
        except TimeoutError:
            raise ModelUnavailable("no answer") from None
        if self.error is not None:
            raise self.error
        vectors = [np.full(8, len(text), dtype=np.float32) for text in texts]
        return EmbeddingBatch(vectors, calls=1, tokens=0)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
async def model() -> Model:
    return Model()


@pytest.fixture
async def queries(model: Model) -> AsyncIterator[QueryEmbedder]:
    embedder = QueryEmbedder(model, cache_size=2, call_seconds=30.0)
    yield embedder
    await embedder.close()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_twenty_who_ask_the_same_share_one_call(model: Model, queries: QueryEmbedder) -> None:
    first = asyncio.create_task(queries.embed("where?", timeout=30))
    await settled()
    # The call is on its way: those who come now join it.
    others = [asyncio.create_task(queries.embed(" where? ", timeout=30)) for _ in range(19)]
    await settled()
    model.free.set()
    answers = await asyncio.gather(first, *others)
    assert model.calls == [["where?"]]
    assert {answer.state for answer in answers} == {"ran"}


async def test_an_answer_is_kept_and_the_least_used_goes(
    model: Model, queries: QueryEmbedder
) -> None:
    model.free.set()
    for text in ("a", "b", "a", "c", "a", "b"):
        assert (await queries.embed(text, timeout=30)).state == "ran"
    assert model.calls == [["a"], ["b"], ["c"], ["b"]]


async def test_what_comes_while_all_calls_are_busy_travels_together(
    model: Model, queries: QueryEmbedder
) -> None:
    asked = []
    for n in range(40):
        asked.append(asyncio.create_task(queries.embed(f"question {n}", timeout=30)))
        await settled()
    model.free.set()
    answers = await asyncio.gather(*asked)
    assert [len(call) for call in model.calls] == [*[1] * 32, 8]
    assert all(answer.vector is not None for answer in answers)


async def test_what_waits_for_a_call_is_not_sent_once_all_who_asked_have_left(
    model: Model, queries: QueryEmbedder
) -> None:
    busy = []
    for n in range(32):
        busy.append(asyncio.create_task(queries.embed(f"busy {n}", timeout=30)))
        await settled()
    leaves = asyncio.create_task(queries.embed("left", timeout=30))
    one, other = (asyncio.create_task(queries.embed("shared", timeout=30)) for _ in range(2))
    assert (await queries.embed("late", timeout=0.01)).state == "timed_out"
    stays = asyncio.create_task(queries.embed("stays", timeout=30))
    await settled()
    for left in (leaves, one):
        left.cancel()
    await asyncio.wait((leaves, one))
    model.free.set()
    assert {answer.state for answer in await asyncio.gather(*busy, other, stays)} == {"ran"}
    assert model.calls[32:] == [["shared", "stays"]]
    assert (await queries.embed("left", timeout=30)).state == "ran"


async def test_a_call_that_hangs_holds_up_only_its_own_askers(
    model: Model, queries: QueryEmbedder
) -> None:
    late = await queries.embed("hangs", timeout=0.01)
    assert (late.vector, late.state) == (None, "timed_out")
    assert "10 ms" in late.reason
    model.free.set()
    assert (await queries.embed("hangs not", timeout=30)).state == "ran"


async def test_a_failure_is_told_and_not_kept(model: Model, queries: QueryEmbedder) -> None:
    model.free.set()
    model.error = ModelMisbehaved("the vectors are too short")
    failed = await queries.embed("q", timeout=30)
    assert (failed.state, failed.reason) == ("failed", "the vectors are too short")
    model.error = None
    assert (await queries.embed("q", timeout=30)).state == "ran"


async def test_a_call_that_never_answers_frees_its_place(model: Model) -> None:
    queries = QueryEmbedder(model, cache_size=2, call_seconds=0.01)
    for n in range(6):  # more than may run at once
        assert (await queries.embed(f"q{n}", timeout=30)).state == "failed"
    model.free.set()
    assert (await queries.embed("q0", timeout=30)).state == "ran"
    await queries.close()


async def test_closing_ends_calls_on_their_way(model: Model) -> None:
    queries = QueryEmbedder(model, cache_size=2, call_seconds=30.0)
    asked = asyncio.create_task(queries.embed("q", timeout=30))
    await settled()
    await queries.close()
    assert model.closed
    assert (await asked).state == "failed"


def test_names_are_seen_in_questions() -> None:
    for question, name in [
        ("Does Node.js run there?", "node.js"), ("What about Node.js?", "node.js"),
        ("Is it written in C++?", "c++"), ("When did she leave Hà Nội, and why?", "ha noi"),
        ("What is Anna's plan", "anna"), ("(Project Blue Heron)", "project blue heron"),
        ("東京にはいつ行きましたか", "東京"),
    ]:  # fmt: skip
        assert name in names_in(question)
