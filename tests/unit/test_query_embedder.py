"""Calls of the embedder: for questions (D10), for batches (row 32, C7), and what they cost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from hitherto_extraction.pipeline.embedding_loop import embed
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.query import QueryEmbedder
from hitherto_retrieval.usage_counts import QueryUsageCounter
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.model_api import ModelMisbehaved, ModelRefused, ModelUnavailable
from tests.refusing import refusing


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


# Which texts of a batch get vectors if the embedder refuses some, or goes away (row 32, C7).


_ANSWERS = 1_000


class Moody(OfflineEmbedder):
    """Refuses texts with some word in them, and is away after so many answers."""

    def __init__(self, answers: int = _ANSWERS, refused: str = "bad") -> None:
        self.answers = answers
        self.refused = refused
        self.calls = 0

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        self.calls += 1
        if any(self.refused in text for text in texts):
            raise ModelRefused("not this")
        if not self.answers:
            raise ModelUnavailable("away")
        self.answers -= 1
        return EmbeddingBatch((await super().embed(texts)).vectors, 1, len(texts))


def batch(count: int, *bad: int) -> dict[int, tuple[str, ...]]:
    return {place: (f"{'bad' if place in bad else 'good'} {place}",) for place in range(count)}


async def test_every_text_but_those_that_are_refused_gets_its_vector() -> None:
    for bad in [(), (0,), (63,), (0, 1, 2, 3), (60, 61, 62, 63), (5, 17, 40)]:
        embedder = Moody()
        texts = batch(64, *bad)
        made = await embed(embedder, texts)
        assert (sorted(made.refused), set(made.vectors)) == (list(bad), set(texts) - set(bad))
        assert made.outage is None, bad
        for place, (vector,) in made.vectors.items():
            (own,) = (await OfflineEmbedder().embed(texts[place])).vectors
            assert (vector == own).all(), bad
        assert (made.calls, made.tokens) == (_ANSWERS - embedder.answers, 64 - len(bad))


async def test_texts_that_are_all_refused_are_told_from_an_embedder_that_refuses_all() -> None:
    for count in [1, 2, 3, 4, 64]:
        embedder = Moody()
        made = await embed(embedder, batch(count, *range(count)))
        assert (sorted(made.refused), made.vectors) == (list(range(count)), {})
        assert embedder.answers == _ANSWERS - 1, count
        with pytest.raises(ModelRefused), refusing(count):
            await embed(Moody(refused=""), batch(count))


async def test_what_came_before_an_outage_is_kept() -> None:
    made = await embed(Moody(answers=2), batch(64, 63))
    assert isinstance(made.outage, ModelUnavailable)
    assert 0 < len(made.vectors) < 63
    assert made.calls == 2
    with pytest.raises(ModelUnavailable):
        await embed(Moody(answers=0), batch(64))


async def test_a_spoiled_answer_counts_as_a_refusal() -> None:
    class Spoiling(Moody):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            try:
                return await super().embed(texts)
            except ModelRefused as error:
                raise ModelMisbehaved("not a number") from error

    assert (await embed(Spoiling(), batch(8, 3))).refused == [3]
    with pytest.raises(ModelMisbehaved):
        await embed(Spoiling(refused=""), batch(8))


# The cost of a call that embeds questions of several tenants: divided, and nothing of it lost.


def test_the_shares_of_the_tenants_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = QueryUsageCounter(cast(Database, None))
    counted: dict[str, Counter[str]] = {}

    def add(tenant_id: str, counts: dict[Any, int]) -> None:
        counted[tenant_id] = Counter({what: number for (_, what), number in counts.items()})

    monkeypatch.setattr(counter._counts, "add", add)
    for lengths in (
        {"a": 3, "b": 3, "c": 3},
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a": 50, "b": 1, "c": 7},
        {"a": 5},
    ):
        texts = [(tenant, "x" * length) for tenant, length in lengths.items()]
        for tokens in (0, 1, 2, 10, 11, 100, 101):
            case = (lengths, tokens)
            counted.clear()
            counter.embedded("m", EmbeddingBatch([], 1, tokens), texts)
            assert counted.keys() == lengths.keys(), case
            assert sum(each["calls"] for each in counted.values()) == 1, case
            assert sum(each["tokens"] for each in counted.values()) == tokens, case
            assert all(share["tokens"] >= 0 for share in counted.values()), case
