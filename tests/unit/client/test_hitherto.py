"""What the client does by itself: consistency tokens, retries, deadlines; with fake services."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import grpc
import pytest
import uvloop

from hitherto.v1 import retrieval_service_pb2
from hitherto_client import AsyncHitherto, Hitherto, HithertoCallError, RetryPolicy
from hitherto_client.inputs import TranscriptInput
from hitherto_client.integrations.recollection import Recollection
from hitherto_client.tokens import OwnWrites
from tests.faults.relay import Relay
from tests.listening import Listener
from tests.unit.client.fake_services import PATIENT_SECONDS, Failure, Fakes, connected

FAST = RetryPolicy(first_wait=0.01, longest_wait=0.02)

SUBMITTED: TranscriptInput = {
    "user_id": "ana",
    "conversation_id": "c1",
    "messages": [{"role": "user", "content": "I live in Porto."}],
}

Scenario = Callable[[Any], Any]


def run_blocking(scenario: Scenario, **options: Any) -> Any:
    with Hitherto(retry=FAST, **{"timeout": PATIENT_SECONDS, **options}) as client:
        return scenario(connected(client))


def run_waiting(scenario: Scenario, **options: Any) -> Any:
    async def main() -> Any:
        async with AsyncHitherto(retry=FAST, **{"timeout": PATIENT_SECONDS, **options}) as client:
            async with asyncio.timeout(PATIENT_SECONDS):
                for channel in client.connection.channels.values():
                    await channel.channel_ready()
            found = scenario(client)
            if hasattr(found, "__aiter__"):
                return [item async for item in found]
            return await found

    return asyncio.run(main())


both = pytest.mark.parametrize("run", [run_blocking, run_waiting], ids=["sync", "async"])
Run = Callable[..., Any]


def test_a_write_is_retried_with_the_same_key(fakes: Fakes) -> None:
    """The client that does not wait: test_methods.py asks every RPC of the other one twice."""
    fakes.recorder.fail("EndConversation", *[Failure(grpc.StatusCode.UNAVAILABLE)] * 2)
    run_waiting(lambda m: m.end_conversation("ana", "c1"))
    keys = [call.request.idempotency_key for call in fakes.recorder.calls["EndConversation"]]
    assert (len(keys), len(set(keys))) == (3, 1)


@both
def test_an_error_says_nothing_twice(run: Run, fakes: Fakes) -> None:
    late = Failure(grpc.StatusCode.DEADLINE_EXCEEDED, reason="DEADLINE_EXCEEDED", message="slow")
    fakes.recorder.fail("GetContext", late)
    with pytest.raises(HithertoCallError) as failed:
        run(lambda m: m.get_context("ana"))
    assert str(failed.value) == "DEADLINE_EXCEEDED: slow"


def test_pages_are_fetched_as_they_are_needed(fakes: Fakes) -> None:
    fakes.pages("ListMemories", *({"memories": [{"id": str(page)}]} for page in range(3)))
    asked = fakes.recorder.calls["ListMemories"]
    found = run_waiting(lambda m: m.memories("ana", page_size=1))
    assert ([memory.id for memory in found], len(asked)) == (["0", "1", "2"], 3)
    with Hitherto() as client:
        memories = client.memories("ana", page_size=1)
        assert (next(memories).id, len(asked)) == ("0", 4)
        assert ([memory.id for memory in memories], len(asked)) == (["1", "2"], 6)
        assert [memory.id for memory in memories.page().items] == ["0"]


def test_reads_carry_the_tokens_of_own_writes(fakes: Fakes) -> None:
    with Hitherto() as client:
        client.get_context("ana")
        (job,) = client.submit_transcripts([SUBMITTED])
        client.get_context("ana")
        client.get_context("rui")
        client.wait_for_job(job, timeout=PATIENT_SECONDS)
        client.search("ana", "x")
        sent = [call.request.consistency_token for call in fakes.recorder.calls["GetContext"]]
        learnt = fakes.recorder.calls["SearchMemories"][0].request.consistency_token.split(" ")
        # A token is no reason to repeat what was refused for another one.
        other = Failure(grpc.StatusCode.INVALID_ARGUMENT, reason="INVALID_FIELD")
        fakes.recorder.fail("GetContext", other)
        with pytest.raises(HithertoCallError, match="INVALID_FIELD"):
            client.get_context("ana")
    assert sent == ["", "t-1", ""]
    assert learnt == ["t-1", "t-2"]


def test_only_the_service_itself_can_say_that_there_is_none(fakes: Fakes) -> None:
    """A proxy that knows no such path says the same without a reason."""
    missing = grpc.StatusCode.NOT_FOUND
    fakes.recorder.fail("GetMemory", Failure(missing, reason="MEMORY_NOT_FOUND"), Failure(missing))
    with Hitherto() as client:
        assert client.get_memory("ana", "m") is None
        with pytest.raises(HithertoCallError):
            client.get_memory("ana", "m")


def test_messages_go_on_where_a_service_gives_fewer_than_were_asked_for(fakes: Fakes) -> None:
    def page(request: Any) -> dict[str, Any]:
        if request.before_message_id:
            return {"messages": [{"id": "first"}]}
        return {"messages": [{"id": f"m{place}"} for place in range(200)]}

    fakes.answer("GetConversation", page)
    with Hitherto() as client:
        assert len(list(client.messages("ana", "c1", page_size=500))) == 201


def test_reads_include_the_changes_that_a_watcher_was_told(fakes: Fakes) -> None:
    told = retrieval_service_pb2.WatchMemoriesResponse(token="t", consistency_token="t-9")
    told.changes.add(user_id="ana")
    fakes.others.replies["WatchMemories"] = told
    with Hitherto() as client:
        next(client.watch_memories())
        client.get_context("ana")
    assert fakes.recorder.calls["GetContext"][0].request.consistency_token == "t-9"


def test_a_watcher_goes_on_where_a_stream_ended(fakes: Fakes) -> None:
    fakes.others.replies["WatchMemories"] = retrieval_service_pb2.WatchMemoriesResponse(token="t")
    with Hitherto(retry=FAST) as client:
        watched = client.watch_memories(after="s", timeout=PATIENT_SECONDS)
        assert [next(watched).token for _ in range(2)] == ["t", "t"]
        assert [call.request.after for call in fakes.calls("WatchMemories")] == ["s", "t"]


def test_a_preview_reads_the_writes_of_the_user_of_its_transcript(fakes: Fakes) -> None:
    with Hitherto() as client:
        client.submit_transcripts([SUBMITTED])
        client.preview_extraction(SUBMITTED)
        client.preview_extraction({**SUBMITTED, "user_id": "rui"})
        sent = [c.request.consistency_token for c in fakes.recorder.calls["PreviewExtraction"]]
    assert sent == ["t-1", ""]


async def test_a_service_whose_answers_take_long_is_reached(fakes: Fakes) -> None:
    """Across an ocean, with TLS, connecting takes some round trips of 100 ms and more."""
    async with Relay(int(fakes.reads.address.rpartition(":")[2])) as relay:
        relay.delay = 0.3
        once = RetryPolicy(attempts=1)
        async with AsyncHitherto(relay.address, fakes.writes.address, retry=once) as client:
            await client.get_context("ana", timeout=PATIENT_SECONDS)
    assert len(fakes.recorder.calls["GetContext"]) == 1


@both
def test_a_token_that_is_no_longer_valid_is_dropped(run: Run, fakes: Fakes) -> None:
    """As after the services' secret was replaced."""
    refusal = Failure(grpc.StatusCode.INVALID_ARGUMENT, reason="INVALID_CONSISTENCY_TOKEN")

    def scenario(m: Any) -> Any:
        if isinstance(m, Hitherto):
            m.submit_transcripts([SUBMITTED])
            fakes.recorder.fail("GetContext", refusal)
            return [m.get_context("ana"), m.get_context("ana")]

        async def waiting() -> None:
            await m.submit_transcripts([SUBMITTED])
            fakes.recorder.fail("GetContext", refusal)
            await m.get_context("ana")
            await m.get_context("ana")

        return waiting()

    run(scenario)
    sent = [call.request.consistency_token for call in fakes.recorder.calls["GetContext"]]
    assert sent[0]
    assert sent[1:] == ["", ""]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_asyncio_calls_go_on_side_by_side_and_can_be_cancelled(
    fakes: Fakes, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    fakes.extraction.release.clear()

    async def main() -> None:
        async with AsyncHitherto() as client:
            (job,) = await client.submit_transcripts([SUBMITTED])
            waiting = asyncio.create_task(client.wait_for_job(job))
            await asyncio.gather(*(client.get_context("ana") for _ in range(20)))
            assert await asyncio.to_thread(fakes.extraction.running.wait, 60)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await client.get_job(job)).state == "running"

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert len(fakes.recorder.calls["GetContext"]) == 20


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.get_context("ana"),
        lambda m: m.save_memory("ana", "x"),
        lambda m: m.wait_for_job("00000000-0000-7000-8000-000000000000"),
        lambda m: m.export_user("ana", io.BytesIO()),
        lambda m: m.import_user("ana", io.BytesIO(b"{}")),
    ],
    ids=["read", "write", "watch", "export", "import"],
)
async def test_closing_ends_running_calls_with_an_error(call: Scenario) -> None:
    """A task that nobody cancelled must not end as if somebody had: groups would ignore it."""
    called = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Settings of HTTP/2, all defaults.
        writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        seen = b""
        while data := await reader.read(65_536):
            seen += data
            if b"hitherto.v1" in seen:
                called.set()

    async with Listener(listen) as silent, asyncio.timeout(PATIENT_SECONDS):
        address = f"127.0.0.1:{silent.port}"
        client = AsyncHitherto(address, address)
        running = asyncio.create_task(call(client))
        await called.wait()
        await client.close()
        with pytest.raises(HithertoCallError) as failed:
            await running
        assert failed.value.code is grpc.StatusCode.CANCELLED
        async with AsyncHitherto(address, address) as client:
            called.clear()
            cancelled = asyncio.create_task(call(client))
            await called.wait()
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled


@both
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.search("ana", timeout="5"), "timeout should be a number of seconds"),
        (lambda m: m.wait_for_job("j1", timeout="5"), "timeout should be a number of seconds"),
        (lambda m: m.wait_for_job(7), "job_id should be text"),
        (lambda m: m.update_memory("ana", "m1", clear="tags"), "clear should be a list"),
        (lambda m: m.update_profile("ana", clear=7), "clear should be a list"),
        (lambda m: m.update_user_settings("ana", clear=["time_zone", 7]), r"clear\[1\] should be"),
    ],
    ids=["timeout", "watch", "job", "text", "number", "entry"],
)
def test_an_argument_of_a_wrong_type_is_named(
    run: Run, fakes: Fakes, call: Scenario, said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        run(call)
    assert not fakes.recorder.calls


def test_a_timeout_that_is_no_number_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="timeout should be a number of seconds, and is str"):
        Hitherto(timeout="5")  # type: ignore[arg-type]


@both
@pytest.mark.parametrize("seconds", [0, -1])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, seconds: type(m)(timeout=seconds),
        lambda m, seconds: m.search("ana", timeout=seconds),
        lambda m, seconds: m.save_memory("ana", "Ana drinks tea.", timeout=seconds),
        lambda m, seconds: m.wait_for_job("j1", timeout=seconds),
        lambda m, seconds: m.export_user("ana", io.BytesIO(), timeout=seconds),
        lambda m, seconds: m.import_user("ana", io.BytesIO(b"{}"), timeout=seconds),
        lambda m, seconds: m.import_memories([{"user_id": "ana", "content": "x"}], timeout=seconds),
        lambda m, seconds: m.health(timeout=seconds),
        lambda _, seconds: Recollection(Hitherto(), timeout=seconds, max_tokens=None),
    ],
    ids=["client", "read", "write", "job", "export", "import", "stream", "health", "assistant"],
)
def test_a_timeout_without_any_time_is_refused(
    run: Run, fakes: Fakes, call: Callable[[Any, float], Any], seconds: float
) -> None:
    with pytest.raises(ValueError, match=f"timeout should be more than 0 .*, and is {seconds}: "):
        run(lambda m: call(m, seconds))
    assert not fakes.recorder.calls


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.get_context("ana"),
        lambda m: m.wait_for_job("j1"),
        lambda m: m.end_conversation("ana", "c1"),
    ],
    ids=["read", "watch", "write"],
)
def test_a_client_of_another_event_loop_says_so(fakes: Fakes, call: Scenario) -> None:
    client = AsyncHitherto()

    async def first() -> None:
        await client.get_context("ana")

    async def second() -> None:
        await call(client)

    asyncio.run(first())
    with pytest.raises(RuntimeError, match="belongs to the event loop of its first call"):
        asyncio.run(second())


class TestTokens:
    def test_they_do_not_grow_without_end(self) -> None:
        tokens = OwnWrites()
        for number in range(12_000):
            tokens.note(f"user {number}", f"{number}")
        assert (tokens.of("user 0"), tokens.of("user 11999")) == ("", "11999")
        assert len(tokens.of("").split(" ")) == 16


def test_the_client_needs_grpcio_and_protobuf_only() -> None:
    """As `pip install hitherto` leaves an environment."""
    program = """
import sys
blocked = {"google.rpc", "grpc_status", "grpc_health", "rich", "pydantic", "psycopg", "openai"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name in blocked:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Block())
from hitherto_client import AsyncHitherto, Hitherto
Hitherto().close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
