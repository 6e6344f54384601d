"""An embedder that fails on one text, or takes less than OpenAI's: faults.md rows 78 and 82.

The text that it fails on is found by its words; all others get their vectors, and nobody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.scripted_model import ChatAnswer, ChatRequest, StatusFault, text_vector
from tests.scripted_model.answers import memory
from tests.scripted_model.server import Vector

# Services remember what a server refused.
pytestmark = pytest.mark.usefixtures("frequent_sweeps", "apart")

STATES = "SELECT content, embedding_state FROM memories"
NAN = '{"error":{"message":"failed to encode response: json: unsupported value: NaN"}}'
Embed = Callable[[list[str]], Awaitable[list[Vector] | StatusFault]]


@pytest.fixture
def services(modelled: Services) -> Services:
    return modelled


def failing(status: int, fails: Callable[[list[str]], bool]) -> Embed:
    async def embed(texts: list[str]) -> list[Vector] | StatusFault:
        if fails(texts):
            return StatusFault(status, body=NAN.encode())
        return [text_vector(text, 64) for text in texts]

    return embed


def poisoned(texts: list[str]) -> bool:
    return any("poison" in text for text in texts)


def as_said(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer.of(
        new_memories=[memory(line.content, [line.local_id]) for line in request.messages]
    )


async def states(tenant_conninfo: str, count: int, pending: bool = False) -> dict[str, str]:
    """The states of the memories' vectors, once none is pending."""
    async with asyncio.timeout(120):
        while True:
            found = dict(rows(tenant_conninfo, STATES))
            if len(found) == count and (pending or "pending" not in found.values()):
                return found
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("status", [500, 413])
async def test_row_78_one_text_that_the_embedder_fails_on_stops_no_other(
    services: Services, status: int
) -> None:
    services.model.script = as_said
    services.model.embed = failing(status, poisoned)
    lines = ["I own a poison ring", "I own a sundial", "I own a canoe", "I keep bees"]
    await learn(services, talk(*lines))
    await learn(services, talk("I live in Ghent", user="bo", conversation="c2"))

    found = await states(services.conninfo, 5)
    assert {text for text, state in found.items() if state == "refused"} == {lines[0]}
    assert set(found.values()) == {"stored", "refused"}
    stub: Any = health_pb2_grpc.HealthStub(services.extraction_channel)
    health = await stub.Check(health_pb2.HealthCheckRequest(service="embedder"))
    assert health.status == health_pb2.HealthCheckResponse.SERVING


async def test_row_78_a_text_that_was_refused_holds_up_no_back_fill(services: Services) -> None:
    """The texts wait during an outage, and the poison is the oldest of them."""
    services.model.script = as_said
    services.model.always(StatusFault(503), endpoint="embeddings")
    await learn(services, talk("I own a poison ring"))
    await learn(services, talk("I keep bees in Ghent", user="bo", conversation="c2"))
    services.model.embed = failing(500, poisoned)
    services.model.always(None, endpoint="embeddings")

    found = await states(services.conninfo, 2)
    assert found == {"I own a poison ring": "refused", "I keep bees in Ghent": "stored"}


async def test_row_82_a_long_source_costs_a_short_memory_no_vector(services: Services) -> None:
    services.model.script = lambda request: ChatAnswer.of(
        new_memories=[memory("The user repaired a canoe with Ilse")]
    )
    services.model.embed = failing(413, lambda texts: any(len(text) > 2_000 for text in texts))
    await learn(services, talk("I have repaired a canoe with Ilse. " + "And so on. " * 300))

    assert set((await states(services.conninfo, 1)).values()) == {"stored"}
    vectors = "SELECT count(*) FROM memory_source_embeddings"
    assert rows(services.conninfo, vectors) == [(1,)]


async def test_row_82_a_server_that_takes_ten_texts_a_call_makes_no_duplicates(
    services: Services,
) -> None:
    services.model.script = as_said
    services.model.embed = failing(400, lambda texts: len(texts) > 10)
    lines = [f"I own a sundial since {1980 + n}" for n in range(16)]
    first = await learn(services, talk(*(f"{line}." for line in lines)))
    calls = services.model.calls["embeddings"]
    second = await learn(services, talk(*(f"{line}!" for line in lines), conversation="c2"))

    assert (first.memories_created, second.memories_created) == (16, 0)
    assert len(await memories(services)) == 16
    assert services.model.calls["embeddings"] - calls <= 4, "the limit is remembered"


FILTERED: dict[str, ChatAnswer | StatusFault] = {
    "400": StatusFault(400, code="content_filter"),
    "400 of Azure": StatusFault(400, message="triggering Azure OpenAI's content management policy"),
    "empty": ChatAnswer("", finish_reason="content_filter"),
    "refusal": ChatAnswer(None, refusal="I cannot help with that."),
}


async def test_what_a_content_filter_refuses_is_skipped_and_counted(services: Services) -> None:
    lines = [f"I own a boat number {n}" for n in range(7)]
    for user, refusal in FILTERED.items():
        services.model.script = lambda request, refusal=refusal: (  # type: ignore[misc]
            refusal
            if any("poison" in line.content for line in request.messages)
            else as_said(request)
        )
        said = talk(*lines[:3], "Mix me a poison", *lines[3:], user=user)
        job = await ended(services, (await submit(services, said))[0])

        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, (user, job.error)
        found = (job.attempt, job.result.memories_created, job.result.dropped_items)
        assert found == (1, 7, 1), user
        assert sorted(m.content for m in await memories(services, user=user)) == sorted(lines)


async def test_row_80_what_is_cut_off_is_halved_whatever_the_server_calls_it(
    services: Services,
) -> None:
    for user, finish in (("u1", None), ("u2", "stop"), ("u3", "max_tokens")):
        services.model.calls.clear()

        def script(request: ChatRequest, finish: Any = finish) -> ChatAnswer:
            whole = as_said(request)
            if len(request.messages) <= 2:
                return whole
            return ChatAnswer((whole.content or "")[:150], finish_reason=finish)

        services.model.script = script
        said = talk(*(f"I own a boat number {n}" for n in range(8)), user=user)

        assert (await learn(services, said)).memories_created == 8, finish
        assert services.model.calls["chat"] == 7, finish
