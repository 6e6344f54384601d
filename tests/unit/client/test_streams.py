"""Bulk imports: bounded memory, retries that double nothing, places of refusals (G3, B1)."""

from __future__ import annotations

import hashlib
import io
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto_client import Hitherto, HithertoCallError, Progress, RetryPolicy
from hitherto_client.batches import MAX_ERRORS
from hitherto_client.export import ExportBroken
from hitherto_client.inputs import MemoryInput, TranscriptInput
from hitherto_client.tools import Toolbox
from tests.unit.client.fake_services import PATIENT_SECONDS, Failure, Fakes, connected

QUICK = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.01)
UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE)
REFUSED_TOKEN = Failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CONSISTENCY_TOKEN")
QUEUE_FULL = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after=0.001)


@pytest.fixture
def client(fakes: Fakes) -> Iterator[Hitherto]:
    fakes.others.replies["StreamTranscripts"] = take_transcripts
    fakes.others.replies["StreamMemories"] = save_memories
    with Hitherto(retry=QUICK, timeout=PATIENT_SECONDS) as client:
        yield connected(client)


def take_transcripts(
    requests: list[extraction.StreamTranscriptsRequest],
) -> extraction.StreamTranscriptsResponse:
    """Refuses what is of the user `bad`."""
    reply = extraction.StreamTranscriptsResponse(consistency_token=f"t{len(requests)}")
    for index, request in enumerate(requests):
        if request.transcript.user_id == "bad":
            reply.rejected_count += 1
            reply.errors.add(index=index, code=3, reason="INVALID_FIELD")
        else:
            reply.accepted_count += 1
            reply.job_ids.append(f"job of {request.transcript.conversation_id}")
    return reply


def save_memories(requests: list[memory.StreamMemoriesRequest]) -> memory.StreamMemoriesResponse:
    """Knows what says `known` already."""
    return memory.StreamMemoriesResponse(
        saved_count=len(requests),
        deduplicated_count=sum(request.item.content == "known" for request in requests),
        memory_ids=[request.item.content for request in requests],
    )


def talks(count: int, bad: tuple[int, ...] = ()) -> Iterator[TranscriptInput]:
    for number in range(count):
        user = "bad" if number in bad else "ana"
        yield {"user_id": user, "conversation_id": f"c{number}", "messages": []}


def large(size: int) -> TranscriptInput:
    messages: Any = [{"role": "user", "content": "x" * size}]
    return {"user_id": "ana", "conversation_id": "c", "messages": messages}


def sent(fakes: Fakes, method: str = "StreamTranscripts") -> list[int]:
    return [len(asked.request) for asked in fakes.calls(method)]


def test_windows_cover_everything_in_order(client: Hitherto, fakes: Fakes) -> None:
    told: list[Progress] = []
    reply = client.import_transcripts(talks(250, bad=(0, 120, 249)), progress=told.append)
    assert sent(fakes) == [100, 100, 50]
    assert (reply.accepted_count, reply.rejected_count) == (247, 3)
    assert [error.index for error in reply.errors] == [0, 120, 249]
    assert (len(reply.job_ids), reply.job_ids[-1]) == (247, "job of c248")
    client.get_context("ana")
    assert fakes.calls("GetContext")[0].request.consistency_token == "t50"
    assert told == [Progress(100, 99, 1), Progress(200, 198, 2), Progress(250, 247, 3)]


def test_only_a_window_is_held(client: Hitherto, fakes: Fakes) -> None:
    """The next item is asked for when the window before it is taken."""
    ahead: list[int] = []

    def counting() -> Iterator[TranscriptInput]:
        for number, transcript in enumerate(talks(300)):
            ahead.append(number - sum(sent(fakes)))
            yield transcript

    client.import_transcripts(counting())
    assert max(ahead) <= 100


def test_errors_are_told_up_to_a_bound(client: Hitherto, fakes: Fakes) -> None:
    reply = client.import_transcripts(talks(1_200, bad=tuple(range(1_200))))
    assert reply.rejected_count == 1_200
    assert [error.index for error in reply.errors] == list(range(MAX_ERRORS))


def test_memories_are_summed_up_and_keep_keys_of_their_own(client: Hitherto, fakes: Fakes) -> None:
    words: list[Any] = ["known" if number % 10 == 0 else f"m{number}" for number in range(150)]
    items: list[MemoryInput] = [{"user_id": "ana", "content": word} for word in words]
    items[7]["idempotency_key"] = "mine"
    reply = client.import_memories(items)
    assert (reply.saved_count, reply.deduplicated_count, list(reply.memory_ids)) == (150, 15, words)
    keys = [request.item.idempotency_key for request in fakes.calls("StreamMemories")[0].request]
    assert (keys[7], len(set(keys))) == ("mine", 100)


def test_large_items_make_small_windows(client: Hitherto, fakes: Fakes) -> None:
    client.import_transcripts(large(3_000_000) for _ in range(7))
    assert sent(fakes) == [3, 3, 1]


def test_an_item_that_no_service_takes_is_refused_here(client: Hitherto, fakes: Fakes) -> None:
    """Row 43: one item that is too large does not end the import."""
    reply = client.import_transcripts([*talks(1), large(5 * 2**20), *talks(1, bad=(0,))])
    assert (reply.accepted_count, reply.rejected_count) == (1, 2)
    assert [(error.index, error.reason) for error in reply.errors] == [
        (1, "REQUEST_TOO_LARGE"),
        (2, "INVALID_FIELD"),
    ]
    assert sent(fakes) == [2]


@pytest.mark.parametrize("failure", [UNAVAILABLE, QUEUE_FULL])
def test_a_window_that_breaks_off_is_sent_again_with_its_keys(
    client: Hitherto, fakes: Fakes, failure: Failure
) -> None:
    fakes.fail("StreamTranscripts", failure, failure)
    reply = client.import_transcripts(talks(3))
    assert reply.accepted_count == 3
    attempts = [
        [request.idempotency_key for request in asked.request]
        for asked in fakes.calls("StreamTranscripts")
    ]
    assert len(attempts) == 3
    assert attempts[0] == attempts[1] == attempts[2]
    assert len(set(attempts[0])) == 3
    assert all(attempts[0])


def test_a_service_that_took_a_window_is_waited_for(client: Hitherto, fakes: Fakes) -> None:
    """It restarts, which takes longer than a few attempts."""

    def once(requests: list[extraction.StreamTranscriptsRequest]) -> Any:
        fakes.others.replies["StreamTranscripts"] = take_transcripts
        fakes.fail("StreamTranscripts", *[UNAVAILABLE] * 9)
        return take_transcripts(requests)

    fakes.others.replies["StreamTranscripts"] = once
    assert client.import_transcripts(talks(150)).accepted_count == 150
    assert sent(fakes) == [100, *[50] * 10]


def test_a_service_that_took_a_piece_of_an_export_is_waited_for(
    client: Hitherto, fakes: Fakes
) -> None:
    """As above, for one call that the next attempt continues."""

    def once(_: list[privacy.ImportUserRequest]) -> privacy.ImportUserResponse:
        return privacy.ImportUserResponse(imported_counts={"users": 1})

    fakes.others.replies["ImportUser"] = once
    fakes.fail("ImportUser", *[UNAVAILABLE] * 9)
    assert client.import_user("ana", io.BytesIO(b"{}")).imported_counts == {"users": 1}


def test_an_export_that_cannot_be_read_again_is_sent_once(client: Hitherto, fakes: Fakes) -> None:
    class OneWay(io.BytesIO):
        def seekable(self) -> bool:
            return False

    fakes.fail("ImportUser", UNAVAILABLE)
    with pytest.raises(HithertoCallError):
        client.import_user("ana", OneWay(b"{}"))
    assert len(fakes.calls("ImportUser")) == 1


def test_an_export_is_held_against_its_manifest(client: Hitherto, fakes: Fakes) -> None:
    told = privacy.ExportUserResponse(manifest=privacy_pb2.ExportManifest(total_bytes=3))
    fakes.others.replies["ExportUser"] = told
    with pytest.raises(ExportBroken):
        client.export_user("ana", io.BytesIO())


def test_an_export_is_made_again_without_a_refused_token(client: Hitherto, fakes: Fakes) -> None:
    digest = hashlib.sha256().hexdigest()
    told = privacy.ExportUserResponse(manifest=privacy_pb2.ExportManifest(sha256=digest))
    fakes.others.replies["ExportUser"] = told
    fakes.answer("SaveMemory", {"consistencyToken": "t-1"})
    client.save_memory("ana", "x")
    fakes.fail("ExportUser", REFUSED_TOKEN)
    assert client.export_user("ana", io.BytesIO()).sha256 == digest
    sent = [call.request.consistency_token for call in fakes.recorder.calls["ExportUser"]]
    assert (bool(sent[0]), sent[1:]) == (True, [""])


def test_a_tool_is_run_again_without_a_refused_token(client: Hitherto, fakes: Fakes) -> None:
    fakes.answer("SaveMemory", {"consistencyToken": "t-1"})
    toolbox = Toolbox(client, "ana", allow_unbound=True)
    assert not toolbox.call("save_memory", {"content": "x"}).is_error
    fakes.fail("SearchMemories", REFUSED_TOKEN)
    assert not toolbox.call("search_memory", {"query": "x"}).is_error
    sent = [call.request.consistency_token for call in fakes.recorder.calls["SearchMemories"]]
    assert sent == ["t-1", ""]


def test_a_service_that_takes_nothing_is_not_waited_for() -> None:
    # A port that nobody else can take meanwhile, and at which nobody listens.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        began = time.monotonic()
        with (
            Hitherto(extraction=address, retry=QUICK) as client,
            pytest.raises(HithertoCallError) as raised,
        ):
            client.import_user("ana", io.BytesIO(b"{}"), timeout=PATIENT_SECONDS)
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    assert time.monotonic() - began < PATIENT_SECONDS / 2
