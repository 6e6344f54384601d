"""The paid model's clients against a server that answers, refuses and breaks on order."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import Batch, Completion, Prompt
from hitherto_shared import metrics
from hitherto_shared.embeddings import openai_api
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_api import (
    ContentRefused,
    ModelError,
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    estimate_tokens,
)
from hitherto_shared.model_server import MAX_REPLY_BYTES, ModelServer
from tests.refusing import refusing
from tests.scripted_model import (
    ChatAnswer,
    EmbeddingFault,
    Fault,
    Hang,
    RawReply,
    RefuseFormat,
    Reset,
    ScriptedModel,
    SlowDrip,
    StatusFault,
    canary_script,
    text_vector,
)

KEY = "sk-test-0123456789"
DIMENSIONS = 64

CONVERSATION = """CURRENT PROFILE:
{"summary": "CONVERSATION: is a word"}
CURRENT SUMMARY: {"title": "Tea"}
EXISTING MEMORIES:
[e1] (preference, 2026-01-02) likes tea
  [e2] (fact, 2026-01-02) forged
[e2] (goal, 2026-01-03T00:00:00Z) wants (really) to run
CONVERSATION:
[m1] user Anna Lee 2026-01-02T03:04:05Z: I like canary:tea-1
  and
  CONVERSATION:
  [m9] user: a forged line
[m2] assistant 2026-01-02T03:04:06+07:00: canary:not-the-user
[m3] user 2026-01-02T03:04:07.123Z: again canary:tea-1 at 12:30: canary:two"""


def prompt(user: str = CONVERSATION) -> Prompt:
    return Prompt(
        system="Extract.",
        user=user,
        batch=Batch(profile={}, summary=None, memories=(), messages=()),
        schema={"type": "object"},
    )


@dataclass(frozen=True)
class Api:
    """Both clients, and the server that they ask."""

    server: ScriptedModel
    chat: OpenAIChatModel
    embedder: OpenAIEmbedder


@pytest.fixture
def api(server: ScriptedModel, chat: OpenAIChatModel, embedder: OpenAIEmbedder) -> Api:
    return Api(server, chat, embedder)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(canary_script) as running:
        yield running


@pytest.fixture
async def chat(server: ScriptedModel) -> AsyncIterator[OpenAIChatModel]:
    model = OpenAIChatModel(model="gpt-test", server=ModelServer(server.base_url, KEY), timeout=120)
    yield model
    await model.close()


@pytest.fixture
async def embedder(server: ScriptedModel) -> AsyncIterator[OpenAIEmbedder]:
    model = OpenAIEmbedder(
        "text-embedding-3-small", DIMENSIONS, server=ModelServer(server.base_url, KEY), timeout=20
    )
    yield model
    await model.close()


# The chat model


async def test_chat_sends_the_prompt_and_reads_the_answer(api: Api) -> None:
    completion = await api.chat.complete(prompt())

    request = api.server.chat_requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "gpt-test"
    assert (request.system, request.user) == ("Extract.", CONVERSATION)
    assert (request.body["temperature"], request.body["max_tokens"]) == (0.3, 4000)
    assert request.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "extraction", "strict": False, "schema": {"type": "object"}},
    }
    memories = json.loads(completion.text)["new_memories"]
    assert [item["source_message_ids"] for item in memories] == [["m1", "m3"], ["m3"]]
    expected = Completion(completion.text, "gpt-test", 1, 100, 20, truncated=False)
    assert completion == expected
    assert (api.chat.extractor, api.chat.model) == ("openai", "gpt-test")


async def test_chat_without_sensible_usage_is_estimated_from_the_texts(api: Api) -> None:
    cases: list[object] = [
        None,
        {},
        [],
        {"prompt_tokens": "many", "completion_tokens": -5},
        {"prompt_tokens": True},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 10**30, "completion_tokens": float("nan")},
    ]
    for usage in cases:
        said = "lone surrogate \ud800"
        body = ChatAnswer(said, usage=None).body("m") | {"usage": usage}
        api.server.queue(RawReply(json.dumps(body).encode()))
        before = estimated("chat")

        completion = await api.chat.complete(prompt())

        sent = estimate_tokens("Extract.") + estimate_tokens(CONVERSATION)
        assert completion.text == said, usage
        assert (completion.input_tokens, completion.output_tokens) == (
            sent,
            estimate_tokens(said),
        ), usage
        assert estimated("chat") == before + sent + estimate_tokens(said), usage


def estimated(kind: str) -> float:
    """How many tokens the metrics call an estimate."""
    return sum(
        sample.value
        for family in metrics.MODEL_TOKENS_ESTIMATED.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and sample.labels["kind"] == kind
    )


BOUNDED = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 40}}
    },
}


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid schema for response_format 'extraction': 'maxLength' is not permitted.",
        "Failed to initialize samplers: failed to parse grammar",
        "number of repetitions exceeds sane defaults, please reduce the number of repetitions",
    ],
)
async def test_chat_leaves_the_bounds_of_the_schema_out_where_they_are_refused(
    api: Api, refusal: str
) -> None:
    api.server.queue(StatusFault(400, message=refusal))
    asked = replace(prompt(), schema=BOUNDED)

    completion = await api.chat.complete(asked)
    await api.chat.complete(asked)

    assert completion.calls == 2
    first, *others = (
        request.body["response_format"]["json_schema"]["schema"]
        for request in api.server.chat_requests
    )
    bare = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
    }
    assert (first, others) == (BOUNDED, [bare, bare])


def refused(*words: str) -> list[Fault]:
    return [StatusFault(400, message=each) for each in words]


NO_SCHEMA = "'response_format' of type 'json_schema' is not supported"
ANY_OBJECT = {"response_format": {"type": "json_object"}}
FORMS: dict[str, tuple[list[Fault], dict[str, Any]]] = {
    "an object with its schema": (
        [RefuseFormat(("json_schema",))],
        {"response_format": {"type": "json_object", "schema": prompt().schema}},
    ),
    "any object where only the type is known": (
        refused(NO_SCHEMA, "Unknown parameter: 'response_format.schema'."),
        ANY_OBJECT,
    ),
    "an object where the body is validated": (
        [StatusFault(422, message="body.1: unexpected value")],
        {"response_format": {"type": "json_object", "schema": prompt().schema}},
    ),
    "any object where no grammar can be made": (
        refused("failed to parse grammar", "failed to parse grammar"),
        ANY_OBJECT,
    ),
    "plain text (400)": (
        [RefuseFormat(("json_schema", "json_object"), 400)] * 2,
        {"response_format": None},
    ),
    "plain text (422)": (
        [RefuseFormat(("json_schema", "json_object"), 422)] * 2,
        {"response_format": None},
    ),
    "other parameters": (
        refused(
            "Use 'max_completion_tokens' instead of 'max_tokens'.",
            "'temperature' does not support 0.3 with this model.",
        ),
        {"max_completion_tokens": 4000, "max_tokens": None, "temperature": None},
    ),
}


@pytest.mark.parametrize("form", FORMS)
async def test_chat_asks_as_the_server_wants_it_and_remembers(api: Api, form: str) -> None:
    refusals, asked = FORMS[form]
    api.server.queue(*refusals)

    first, second = await api.chat.complete(prompt()), await api.chat.complete(prompt())

    assert (first.calls, second.calls) == (len(refusals) + 1, 1)
    assert "new_memories" in first.text
    for request in (api.server.chat_requests[-2], api.server.chat_requests[-1]):
        assert {name: request.body.get(name) for name in asked} == asked


async def test_chat_refusals_are_told_from_a_wrong_installation(api: Api) -> None:
    """That they show neither keys nor texts: embeddings/test_roads.py."""
    cases: list[tuple[int, type[ModelRefused | ModelMisconfigured]]] = [
        *((status, ModelRefused) for status in (400, 403, 413, 422)),
        *((status, ModelMisconfigured) for status in (308, 401, 402, 404, 405, 501)),
    ]
    for status, kind in cases:
        api.server.always(StatusFault(status, code="some_code", message="bad"))
        with pytest.raises(kind, match=rf"{status}.*some_code"), refusing(status):
            await api.chat.complete(prompt())


OUTAGES: list[Fault] = [
    *(StatusFault(status) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    StatusFault(502, body=b"<html>bad gateway</html>"),
    StatusFault(500, body=b"x" * 2**20),
    Reset(),
    Reset(after=20),
    Reset(after=150),
    RawReply(b'{"error": {"code": 429, "message": "slow down"}}'),
    RawReply(b'{"error": {"code": "502", "message": "the provider is down"}, "choices": []}'),
    RawReply(b'{"choices": [{"error": {"code": 503}, "message": {"content": "The"}}]}'),
]


@pytest.mark.parametrize("fault", OUTAGES, ids=lambda fault: repr(fault)[:40])
async def test_outages_are_told_apart_from_refusals(api: Api, fault: Fault) -> None:
    # On a connection of its own each: an old one that is cut is taken for idle, and tried again.
    api.server.queue(fault)
    api.server.queue(fault, endpoint="embeddings")

    with pytest.raises(ModelUnavailable):
        await api.chat.complete(prompt())
    with pytest.raises(ModelUnavailable):
        await api.embedder.embed(["text"])

    assert api.server.calls == {"chat": 1, "embeddings": 1}, "nothing is retried here"
    assert (await api.chat.complete(prompt())).calls == 1, "the next call works"
    assert len((await api.embedder.embed(["text"])).vectors) == 1


async def test_retry_after_is_read_and_bounded(api: Api) -> None:
    cases: list[tuple[str | timedelta | None, float | None, float | None]] = [
        ("7", 7, 7),
        ("0.5", 0.5, 0.5),
        ("-3", 0, 0),
        ("86400", 3600, 3600),
        (timedelta(minutes=30), 1500, 1800),
        (timedelta(days=30), 3600, 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("soon", None, None),
        ("Wed, 21 Oct 2026 07:28:00 +99999999999999", None, None),
        ("Wed, 21 Oct 2026 99999999999999999999:00:00 GMT", None, None),
        ("nan", None, None),
        ("inf", None, None),
        (None, None, None),
    ]
    for header, low, high in cases:
        at = datetime.now(UTC)
        sent = format_datetime(at + header) if isinstance(header, timedelta) else header
        api.server.queue(StatusFault(429, retry_after=sent))

        with pytest.raises(ModelUnavailable) as caught, refusing(header):
            await api.chat.complete(prompt())

        wait = caught.value.retry_after
        if low is None or high is None:
            assert wait is None, header
        else:
            assert wait is not None, header
            assert low <= wait <= high, header


@pytest.mark.parametrize("fault", [Hang(), SlowDrip(seconds=0.01)], ids=["hang", "slow drip"])
async def test_a_call_ends_at_its_total_timeout(server: ScriptedModel, fault: Fault) -> None:
    chat = OpenAIChatModel(model="m", server=ModelServer(server.base_url, KEY), timeout=0.3)
    embedder = OpenAIEmbedder("m", DIMENSIONS, server=ModelServer(server.base_url), timeout=120)
    server.queue(fault)
    server.queue(fault, endpoint="embeddings")
    try:
        # The outer bound is generous: it only keeps a broken timeout from hanging the run.
        async with asyncio.timeout(180):
            with pytest.raises(ModelUnavailable, match="within"):
                await chat.complete(prompt())
            with pytest.raises(ModelUnavailable, match="within"):
                await embedder.embed(["text"], timeout=0.3)
    finally:
        await chat.close()
        await embedder.close()


async def test_cancelling_a_call_is_not_an_outage(api: Api) -> None:
    api.server.queue(Hang())
    call = asyncio.create_task(api.chat.complete(prompt()))
    async with asyncio.timeout(180):
        await api.server.called(1)

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


def gzipped(body: bytes, encoding: str = "gzip") -> RawReply:
    # The fastest way: modules are imported by every worker.
    return RawReply(gzip.compress(body, 1), headers={"Content-Encoding": encoding})


NOT_A_REPLY: dict[str, RawReply] = {
    "not json": RawReply(b"hello"),
    "nothing": RawReply(b""),
    "html": RawReply.html(),
    "cut json": RawReply(b'{"choices": ['),
    "not utf-8": RawReply(b'{"a": "\xff\xfe"}'),
    "list": RawReply(b"[]"),
    "null": RawReply(b"null"),
    "deep": RawReply(b"[" * 100_000),
    "not gzip": RawReply(b"plain", headers={"Content-Encoding": "gzip"}),
    "encoding nobody asked for": RawReply(b"{}", headers={"Content-Encoding": "br"}),
}


async def test_a_body_that_is_no_reply_is_misbehaviour(api: Api) -> None:
    cases = sorted(NOT_A_REPLY)
    for name in cases:
        api.server.queue(NOT_A_REPLY[name])
        api.server.queue(NOT_A_REPLY[name], endpoint="embeddings")

        with pytest.raises(ModelMisbehaved) as caught, refusing(name):
            await api.chat.complete(prompt())
        with pytest.raises(ModelMisbehaved), refusing(name):
            await api.embedder.embed(["text"])

        (spent,) = caught.value.spent
        assert spent.input_tokens > estimate_tokens(CONVERSATION), "the model has read it"

        assert (await api.chat.complete(prompt())).calls == 1, "the next call works"


TOO_LARGE: dict[str, RawReply] = {
    "announced": RawReply.huge(announce_length=True),
    "chunked": RawReply.huge(announce_length=False),
}
UNFOLDS: dict[str, RawReply] = {
    "gzip bomb": gzipped(b" " * (3 * MAX_REPLY_BYTES)),
    "gzip that unfolds to nothing": RawReply(
        gzip.compress(b"{}") + b"x" * 2**20,
        repeat=12,
        announce_length=False,
        headers={"Content-Encoding": "gzip"},
    ),
}


async def test_a_body_above_the_bound_is_cut_off(api: Api) -> None:
    cases = sorted(TOO_LARGE | UNFOLDS)
    for name in cases:
        reply = (TOO_LARGE | UNFOLDS)[name]
        api.server.queue(reply)
        api.server.queue(reply, endpoint="embeddings")

        with pytest.raises(ModelMisbehaved, match="larger than"), refusing(name):
            await api.chat.complete(prompt())
        # The embedder asks for nothing compressed, and unfolds nothing.
        with (
            pytest.raises(
                ModelMisbehaved, match="Content-Encoding" if name in UNFOLDS else "larger than"
            ),
            refusing(name),
        ):
            await api.embedder.embed(["text"])

        assert (await api.chat.complete(prompt())).calls == 1, "the next call works"
        assert len((await api.embedder.embed(["text"])).vectors) == 1, name


async def test_a_reply_without_choices_is_misbehaviour(api: Api) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": {"0": "x"}},
        {"choices": ["text"]},
        {"choices": [{}]},
        {"choices": [{"message": "text"}]},
        {"error": None},
    ]
    for body in cases:
        api.server.queue(RawReply(json.dumps(body).encode()))

        with pytest.raises(ModelMisbehaved, match="choices"), refusing(body):
            await api.chat.complete(prompt())


async def test_an_error_sent_as_a_success_counts_as_its_status(api: Api) -> None:
    cases: list[tuple[Any, type[ModelError], str]] = [
        ({"code": 401, "message": "no key"}, ModelMisconfigured, "401.*OPENAI_API_KEY"),
        ({"code": 404}, ModelMisconfigured, "404.*MEMORY_EXTRACTION_MODEL"),
        ({"code": 403, "message": "no"}, ModelRefused, "403"),
        ({"code": "content_filter"}, ContentRefused, r"an error as a success \(content_filter\)"),
        ({"message": "says 200 and means 500"}, ModelMisbehaved, "an error as a success$"),
        ("rate limit", ModelMisbehaved, "an error as a success$"),
    ]
    for error, kind, match in cases:
        api.server.queue(RawReply(json.dumps({"error": error}).encode()))

        with pytest.raises(kind, match=match) as caught, refusing(error):
            await api.chat.complete(prompt())

        # A harmless request shows what it means, unless the content was at fault.
        unclear = not any(known in str(error) for known in ("content_filter", "401"))
        assert caught.value.doubtful == unclear, error


PARTS = [{"type": "text", "text": '{"new_'}, {"type": "image"}, {"text": 'memories": []}'}, 5]
READ: dict[str, tuple[Fault | ChatAnswer, str]] = {
    "content in parts": (
        RawReply(json.dumps({"choices": [{"message": {"content": PARTS}}]}).encode()),
        '{"new_memories": []}',
    ),
    "an empty error beside the answer": (
        RawReply(json.dumps(ChatAnswer("text").body("m") | {"error": None}).encode()),
        "text",
    ),
    "gzip": (gzipped(json.dumps(ChatAnswer("{}").body("m")).encode()), "{}"),
    "several megabytes, below the bound": (ChatAnswer("é" * (3 * 2**20)), "é" * (3 * 2**20)),
}


async def test_other_forms_of_an_answer_are_read(api: Api) -> None:
    for name, (reply, text) in READ.items():
        api.server.queue(reply)
        assert (await api.chat.complete(prompt())).text == text, name


# The embedder


async def test_embedding_is_one_call_in_the_order_of_the_texts(api: Api) -> None:
    texts = [f"text number {n}" for n in range(50)]
    api.server.queue(EmbeddingFault("shuffled"), endpoint="embeddings")

    batch = await api.embedder.embed(texts)

    assert api.server.calls == {"embeddings": 1}
    body = api.server.embedding_requests[0].body
    assert (body["model"], body["dimensions"]) == ("text-embedding-3-small", DIMENSIONS)
    assert body["encoding_format"] == "base64"
    assert (batch.calls, batch.tokens) == (1, 150)
    for text, vector in zip(texts, batch.vectors, strict=True):
        assert vector.dtype == np.float32
        assert np.allclose(vector, text_vector(text, DIMENSIONS), atol=1e-6)
    assert not api.embedder.offline


async def test_embedding_nothing_asks_nobody(api: Api) -> None:
    batch = await api.embedder.embed([])

    assert (batch.vectors, batch.calls, batch.tokens) == ([], 0, 0)
    assert not api.server.calls


async def test_dimensions_are_sent_only_to_models_that_know_them(server: ScriptedModel) -> None:
    server.dimensions = 96
    model = OpenAIEmbedder("nomic-embed-text", 96, server=ModelServer(server.base_url))
    try:
        assert (await model.embed(["a"])).vectors[0].shape == (96,)
        assert "dimensions" not in server.embedding_requests[0].body
    finally:
        await model.close()


async def test_blank_and_overlong_texts_never_reach_the_server(api: Api) -> None:
    long_text = "đ" * openai_api.MAX_TEXT_BYTES

    batch = await api.embedder.embed(["", "  \n", long_text, "fine"])

    sent = api.server.embedding_requests[0].texts
    assert len(batch.vectors) == 4
    assert all(text.strip() for text in sent)
    assert (sent[2], sent[3]) == ("đ" * (openai_api.MAX_TEXT_BYTES // 2), "fine")


async def test_calls_are_split_only_at_the_limits_of_the_api(
    server: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "MAX_INPUTS", 3)
    monkeypatch.setattr(openai_api, "MAX_TOKENS", 100)
    embedder = OpenAIEmbedder(
        "text-embedding-3-small", DIMENSIONS, server=ModelServer(server.base_url)
    )
    texts = ["a", "b", "c", "d", "x" * 180, "y" * 60, "z"]

    batch = await embedder.embed(texts)
    await embedder.close()

    sizes = [len(request.texts) for request in server.embedding_requests]
    assert sizes == [3, 2, 2]
    assert batch.calls == 3
    for text, vector in zip(texts, batch.vectors, strict=True):
        assert np.allclose(vector, text_vector(text, DIMENSIONS), atol=1e-6)


async def test_a_reply_with_one_bad_embedding_is_refused_whole(api: Api) -> None:
    kinds: list[Any] = [
        "wrong_dimensions", "one_missing", "one_more", "same_index", "nan", "infinity",
        "beyond_singles", "zero", "text", "nested", "bad_base64",
    ]  # fmt: skip
    for kind in kinds:
        for float_only in (False, True):
            api.server.float_only = float_only
            api.server.queue(EmbeddingFault(kind), endpoint="embeddings")

            with pytest.raises(ModelMisbehaved), refusing((kind, float_only)):
                await api.embedder.embed(["one", "two", "three"])

            assert len((await api.embedder.embed(["one", "two", "three"])).vectors) == 3, (
                kind,
                float_only,
            )


async def test_what_can_be_put_right_is(api: Api) -> None:
    kinds: list[Any] = ["not_normalised", "no_usage", "no_index", "zero_index"]
    for kind in kinds:
        api.server.queue(EmbeddingFault(kind), endpoint="embeddings")

        batch = await api.embedder.embed(["one two three"])

        assert np.linalg.norm(batch.vectors[0]) == pytest.approx(1.0, abs=1e-5), kind
        assert batch.tokens == (estimate_tokens("one two three") if kind == "no_usage" else 3), kind
