"""StreamTranscripts: bulk import, each transcript by itself (B1, B4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import grpc
import pytest

from hitherto.v1 import conversation_pb2, extraction_service_pb2, job_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, memories, rows, talk

Request = extraction_service_pb2.StreamTranscriptsRequest
Response = extraction_service_pb2.StreamTranscriptsResponse


def item(transcript: conversation_pb2.Transcript, key: str = "") -> Request:
    return Request(transcript=transcript, idempotency_key=key)


async def stream(services: Services, requests: Iterable[Request]) -> Response:
    async def sent() -> AsyncIterator[Request]:
        for request in requests:
            yield request

    return await services.extraction.StreamTranscripts(sent())


async def test_b1_every_transcript_of_a_stream_is_learnt(modelled: Services) -> None:
    requests = [
        item(talk(f"canary:w{n}", user=f"user{n % 7}", conversation=f"c{n}")) for n in range(40)
    ]
    reply = await stream(modelled, requests)
    assert (reply.accepted_count, reply.rejected_count, len(reply.errors)) == (40, 0, 0)
    assert reply.consistency_token
    assert len(set(reply.job_ids)) == 40
    for job_id in reply.job_ids:
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    found = [m.content for n in range(7) for m in await memories(modelled, user=f"user{n}")]
    assert sorted(found) == sorted(f"The user mentioned canary:w{n}." for n in range(40))


async def test_b1_a_bad_transcript_is_refused_by_itself(modelled: Services) -> None:
    good = [talk("hello", conversation=f"c{n}") for n in range(3)]
    reused = talk("something else", conversation="c0")
    bad = conversation_pb2.Transcript(user_id="", conversation_id="c9", time_zone="Mars/Olympus")
    reply = await stream(
        modelled,
        [
            item(good[0]), item(bad), item(good[1], key="k" * 129), item(reused), Request(),
            item(good[2], key="once"), item(good[1], key="once"),
        ],
    )  # fmt: skip
    assert (reply.accepted_count, reply.rejected_count) == (2, 5)
    told = {error.index: error for error in reply.errors}
    assert [told[n].reason for n in (1, 2, 3, 4, 6)] == [
        "INVALID_FIELD", "INVALID_FIELD", "MESSAGE_ID_REUSED", "INVALID_FIELD",
        "IDEMPOTENCY_KEY_REUSED",
    ]  # fmt: skip
    assert [told[n].code for n in (1, 2, 3, 4, 6)] == [3, 3, 9, 3, 6]
    assert {v.field for v in told[1].field_violations} == {
        "transcript.user_id", "transcript.messages", "transcript.time_zone",
    }  # fmt: skip
    assert [v.field for v in told[2].field_violations] == ["idempotency_key"]
    assert [v.field for v in told[4].field_violations] == ["transcript"]
    assert rows(modelled.conninfo, "SELECT conversation_id FROM conversations ORDER BY 1") == [
        ("c0",), ("c2",),
    ]  # fmt: skip


async def test_b4_a_stream_that_broke_off_is_sent_again_from_the_start(modelled: Services) -> None:
    requests = [item(talk(f"canary:w{n}", conversation=f"c{n}")) for n in range(20)]

    async def broken() -> AsyncIterator[Request]:
        for request in requests[:8]:
            yield request
        # The state to wait for is in the database.
        while rows(modelled.conninfo, "SELECT count(*) FROM conversations") != [(8,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        raise RuntimeError("the network is gone")

    with pytest.raises((RuntimeError, grpc.aio.AioRpcError, asyncio.CancelledError)):
        async with asyncio.timeout(180):
            await modelled.extraction.StreamTranscripts(broken())
    # What was accepted before the break is kept, and once is enough.
    reply = await stream(modelled, requests)
    assert (reply.accepted_count, reply.rejected_count) == (20, 0)
    for job_id in reply.job_ids:
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert rows(modelled.conninfo, "SELECT count(*), count(DISTINCT content) FROM messages") == [
        (20, 20)
    ]
    assert len(await memories(modelled)) == 20


async def test_b4_a_key_returns_the_first_job_again(modelled: Services) -> None:
    """And an empty stream is an empty import."""
    assert await stream(modelled, []) == Response()
    request = item(talk("canary:tea"), key="once")
    first, again = await stream(modelled, [request]), await stream(modelled, [request, request])
    assert list(again.job_ids) == [first.job_ids[0]] * 2


async def test_b1_errors_and_ids_of_a_long_stream_are_bounded(
    modelled: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitherto_extraction.handlers.importing.MAX_ERRORS", 3)
    monkeypatch.setattr("hitherto_extraction.handlers.extraction.MAX_IDS", 2)
    good = [item(talk("hello", conversation=f"c{n}")) for n in range(4)]
    reply = await stream(modelled, [*good, *[Request()] * 5])
    assert (reply.accepted_count, reply.rejected_count) == (4, 5)
    assert (len(reply.job_ids), [error.index for error in reply.errors]) == (2, [4, 5, 6])
