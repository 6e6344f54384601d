"""What a server accepts is found out, and remembered: faults.md row 82."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_api import ModelMisbehaved, ModelRefused, ModelUnavailable
from hitherto_shared.model_server import ModelServer
from tests.scripted_model import text_vector

SIZE = 8
Body = dict[str, Any]


class Server:
    """Refuses what `refuses` says with a status and words, and answers the rest."""

    def __init__(
        self,
        refuses: Callable[[Body], tuple[int, str] | None] = lambda _: None,
        *,
        size: int = SIZE,
        index: Callable[[int, int], Any] = lambda place, _: place,
        shortens: bool = True,
    ) -> None:
        self.refuses, self.size, self.index = refuses, size, index
        self.shortens = shortens
        self.bodies: list[Body] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        refusal = self.refuses(body)
        if refusal is not None:
            return web.json_response({"error": {"message": refusal[1]}}, status=refusal[0])
        size = body.get("dimensions", self.size) if self.shortens else self.size
        texts = body["input"]
        as_text = body.get("encoding_format") == "base64"
        data = []
        for place, text in enumerate(texts):
            vector = text_vector(text, size)
            value: Any = base64.b64encode(vector.tobytes()).decode() if as_text else vector.tolist()
            item = {"embedding": value, "index": self.index(place, len(texts))}
            data.append({key: each for key, each in item.items() if each != "missing"})
        return web.json_response({"data": data})

    @property
    def sizes(self) -> list[int]:
        return [len(body["input"]) for body in self.bodies]


@asynccontextmanager
async def asking(server: Server, name: str = "m") -> AsyncIterator[OpenAIEmbedder]:
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/embeddings", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    embedder = OpenAIEmbedder(name, SIZE, server=ModelServer(url), timeout=30)
    try:
        yield embedder
    finally:
        await embedder.close()
        await runner.cleanup()


async def right(embedder: OpenAIEmbedder, texts: Sequence[str]) -> None:
    vectors = (await embedder.embed(texts)).vectors
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose(vector, text_vector(text, SIZE), atol=1e-6)


TEXTS = [f"text number {n}" for n in range(64)]


@pytest.mark.parametrize("most", [10, 1])
@pytest.mark.parametrize("status", [400, 413, 500])
async def test_the_most_texts_in_a_call_are_remembered(most: int, status: int) -> None:
    server = Server(lambda b: (status, "no") if len(b["input"]) > most else None)
    async with asking(server) as embedder:
        # One error 500 may be of the moment.
        for _ in range(2 if status == 500 else 1):
            await right(embedder, TEXTS)
        server.bodies.clear()
        await right(embedder, TEXTS)

    assert max(server.sizes) <= most
    assert len(server.sizes) <= 2 * -(-len(TEXTS) // most)


async def test_one_failure_is_not_taken_for_a_limit() -> None:
    failures = [(500, "panic")]
    server = Server(lambda b: failures.pop() if failures and len(b["input"]) > 1 else None)
    async with asking(server) as embedder:
        await right(embedder, TEXTS)
        server.bodies.clear()
        await right(embedder, TEXTS)

    assert server.sizes == [64]


async def test_an_outage_does_not_divide_the_texts() -> None:
    server = Server(lambda b: (500, "panic"))
    async with asking(server) as embedder:
        with pytest.raises(ModelUnavailable):
            await embedder.embed(TEXTS)

    assert server.sizes == [64, 1, 1]


async def test_one_text_that_is_refused_is_not_taken_for_a_limit() -> None:
    server = Server(lambda b: (400, "no") if "bad" in b["input"] else None)
    async with asking(server) as embedder:
        with pytest.raises(ModelRefused):
            await embedder.embed([*TEXTS[:20], "bad", *TEXTS[20:]])
        server.bodies.clear()
        await right(embedder, TEXTS)

    assert server.sizes == [64]


async def test_long_texts_that_are_too_much_together_leave_short_ones_together() -> None:
    def too_much(body: Body) -> tuple[int, str] | None:
        return (413, "too many tokens") if sum(map(len, body["input"])) > 20_000 else None

    server = Server(too_much)
    async with asking(server) as embedder:
        await right(embedder, [f"{n} " + "word " * 1_000 for n in range(16)])
        server.bodies.clear()
        await right(embedder, TEXTS)

    assert server.sizes == [64]


@pytest.mark.parametrize(
    ("status", "words", "remembered"),
    [
        (413, "Payload Too Large", True),
        (400, "maximum context length is 512 tokens", True),
        (500, "input is too large to process. increase the physical batch size", True),
        (400, "invalid input", False),
    ],
)
async def test_of_a_text_that_is_too_long_the_beginning_counts(
    status: int, words: str, remembered: bool
) -> None:
    server = Server(lambda b: (status, words) if len(b["input"][0]) > 1_100 else None)
    long = "đà nẵng " * 500
    async with asking(server) as embedder:
        (vector,) = (await embedder.embed([long])).vectors
        assert np.allclose(vector, text_vector(long[:1_000], SIZE), atol=1e-6)
        server.bodies.clear()
        await embedder.embed([long])

    assert (len(server.bodies) == 1) == remembered


async def test_a_text_that_no_beginning_of_passes_stays_refused() -> None:
    server = Server(lambda b: (400, "maximum context length") if "x" in b["input"][0] else None)
    async with asking(server) as embedder:
        with pytest.raises(ModelRefused):
            await embedder.embed(["x" * 8_000])
        assert len(server.bodies) < 12
        await right(embedder, ["y" * 8_000])


@pytest.mark.parametrize(
    "index",
    [
        lambda place, _: place or "missing",
        lambda place, _: place or None,
        lambda _place, _: "missing",
        lambda _place, _: None,
        lambda _place, _: 0,
    ],
    ids=["0 missing", "0 null", "all missing", "all null", "all 0"],
)
async def test_where_a_vector_belongs_follows_from_its_position(
    index: Callable[[int, int], Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with asking(Server(index=index)) as embedder:
        await right(embedder, TEXTS[:3])
        await right(embedder, TEXTS[:3])
    assert len(caplog.records) == (index(2, 3) == 0)


@pytest.mark.parametrize(
    "index",
    [
        lambda place, _: max(place, 1),
        lambda place, _: place + 1,
        lambda place, _: (place + 1) % 3 or "missing",
        lambda place, _: str(place),
        lambda place, _: -place,
    ],
)
async def test_a_contradictory_index_is_refused(index: Callable[[int, int], Any]) -> None:
    async with asking(Server(index=index)) as embedder:
        with pytest.raises(ModelMisbehaved):
            await embedder.embed(["one", "two", "three"])


async def test_longer_vectors_are_asked_to_be_shortened_and_that_is_remembered() -> None:
    server = Server(size=4096)
    async with asking(server) as embedder:
        await right(embedder, TEXTS)
        await right(embedder, TEXTS)

    assert ["dimensions" in body for body in server.bodies] == [False, True, True]


@pytest.mark.parametrize("shortens", [True, False])
async def test_a_server_that_does_not_shorten_is_asked_once(shortens: bool) -> None:
    def refuses(body: Body) -> tuple[int, str] | None:
        return (400, "matryoshka is not supported") if "dimensions" in body else None

    server = Server(refuses if shortens else lambda _: None, size=32, shortens=False)
    async with asking(server) as embedder:
        for _ in range(3):
            with pytest.raises(ModelMisbehaved, match=r"32 numbers instead of 8.*DIMENSIONS"):
                await embedder.embed(["a"])

    assert sum("dimensions" in body for body in server.bodies) == 1


async def test_shorter_vectors_are_not_asked_to_grow() -> None:
    server = Server(size=4)
    async with asking(server) as embedder:
        with pytest.raises(ModelMisbehaved):
            await embedder.embed(["a"])
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [400, 404, 501])
async def test_base64_that_is_refused_in_unknown_words_is_given_up(status: int) -> None:
    server = Server(lambda b: (status, "no") if "encoding_format" in b else None)
    async with asking(server) as embedder:
        await right(embedder, ["a"])
        await right(embedder, ["a"])
    assert [body.get("encoding_format") for body in server.bodies] == ["base64", None, None]


@pytest.mark.parametrize("refused", [{"dimensions"}, {"encoding_format", "dimensions"}])
async def test_dimensions_that_are_refused_are_left_out(refused: set[str]) -> None:
    """Some servers refuse every field that they do not know."""
    server = Server(lambda b: (422, "extra fields not permitted") if refused & b.keys() else None)
    async with asking(server, name="text-embedding-3-small") as embedder:
        await right(embedder, ["a"])
        server.bodies.clear()
        await right(embedder, ["a"])

    (body,) = server.bodies
    assert {"dimensions", "encoding_format"} - body.keys() == refused


async def test_base64_that_a_server_fails_on_is_given_up_at_the_second_failure() -> None:
    server = Server(lambda b: (500, "panic") if "encoding_format" in b else None)
    async with asking(server) as embedder:
        with pytest.raises(ModelUnavailable):
            await embedder.embed(["a"])
        await right(embedder, ["a"])
        await right(embedder, ["a"])
    asked = [body.get("encoding_format") for body in server.bodies]
    assert asked == ["base64", "base64", None, None]


async def test_base64_that_has_worked_is_not_given_up_in_an_outage() -> None:
    down = False
    server = Server(lambda _: (500, "panic") if down else None)
    async with asking(server) as embedder:
        await right(embedder, ["a"])
        down = True
        for _ in range(4):
            with pytest.raises(ModelUnavailable):
                await embedder.embed(["a"])
        down = False
        await right(embedder, ["a"])
    assert {body.get("encoding_format") for body in server.bodies} == {"base64"}


@pytest.mark.parametrize(
    ("name", "size", "threshold"),
    [
        ("text-embedding-3-small", 1536, 0.85),
        ("openai/text-embedding-3-small", 1536, 0.85),
        ("azure/openai/text-embedding-3-large", 3072, 0.85),
        ("openai/text-embedding-ada-002", 1536, 0.93),
    ],
)
def test_a_known_model_is_known_behind_its_vendor(name: str, size: int, threshold: float) -> None:
    embedder = OpenAIEmbedder(name, server=ModelServer("http://h/v1"))
    assert (embedder.name, embedder.dimensions, embedder.dedupe_threshold) == (
        name,
        size,
        threshold,
    )
