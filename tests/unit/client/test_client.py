"""The client: what it adds to calls, when it repeats them, how it tells of failures."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    job_pb2,
    retrieval_service_pb2,
)
from hitherto_client import Hitherto, HithertoCallError, RetryPolicy, Violation
from hitherto_client.command import main
from hitherto_client.inputs import TranscriptInput
from tests.certificates import Authority
from tests.refusing import refusing
from tests.unit.client.fake_services import (
    PATIENT_SECONDS,
    Failure,
    Fakes,
    Others,
    Recorder,
    RunCommand,
    connected,
)

QUICK = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.01)

UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE)
WRITE_CONFLICT = Failure(grpc.StatusCode.ABORTED, "WRITE_CONFLICT", retry_after=0.001)


@pytest.fixture
def client(fakes: Fakes) -> Iterator[Hitherto]:
    with Hitherto(api_key="mk_0123456789ab_secret", retry=QUICK, timeout=PATIENT_SECONDS) as client:
        yield connected(client)


TALK: TranscriptInput = {
    "user_id": "sarah",
    "conversation_id": "chat-1",
    "messages": [{"role": "user", "content": "Hi"}],
}


class TestMetadata:
    def test_every_call_carries_credential_request_id_and_deadline(self, fakes: Fakes) -> None:
        with Hitherto(api_key="mk_0123456789ab_secret") as client:
            connected(client).get_context("sarah", "hello")
            client.submit_transcripts([TALK])
        read, write = fakes.calls("GetContext")[0], fakes.calls("SubmitTranscripts")[0]
        assert read.metadata["authorization"] == "Bearer mk_0123456789ab_secret"
        assert write.metadata["authorization"] == "Bearer mk_0123456789ab_secret"
        assert read.metadata["x-request-id"] != write.metadata["x-request-id"]
        assert read.seconds is not None
        assert round(read.seconds) <= 10
        assert write.seconds is not None
        assert 10 < round(write.seconds) <= 30

    def test_a_request_id_of_ones_own_is_kept(self, client: Hitherto, fakes: Fakes) -> None:
        client.connection.retrieval.GetContext(
            retrieval_service_pb2.GetContextRequest(user_id="sarah"),
            metadata=(("x-request-id", "mine-1"),),
        )
        assert fakes.calls("GetContext")[0].metadata["x-request-id"] == "mine-1"

    def test_a_key_that_cannot_be_sent_is_refused_with_words(self) -> None:
        with pytest.raises(ValueError, match="copy it again"):
            Hitherto(api_key="mk_khóa")

    def test_a_missing_tls_authority_is_named(self) -> None:
        with pytest.raises(ValueError, match="HITHERTO_TLS_CA_FILE"):
            Hitherto(tls_ca_file="no-such-file.pem")


class TestIdempotencyKeys:
    def test_another_call_gets_another_one(self, client: Hitherto, fakes: Fakes) -> None:
        request = extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[conversation_pb2.Transcript(user_id="sarah")]
        )
        client.connection.extraction.SubmitTranscripts(request)
        client.connection.extraction.SubmitTranscripts(request)
        first, second = fakes.calls("SubmitTranscripts")
        assert first.request.idempotency_key != second.request.idempotency_key
        assert request.idempotency_key == ""

    def test_ones_own_is_kept(self, client: Hitherto, fakes: Fakes) -> None:
        client.add("sarah", TALK["messages"], conversation="chat-1", idempotency_key="import-7")
        assert fakes.calls("AppendMessages")[0].request.idempotency_key == "import-7"


class TestRetries:
    """test_methods.py asks for everything twice; by which codes, how soon: clients/rules.json."""

    def test_the_number_of_attempts_is_bounded(self, client: Hitherto, fakes: Fakes) -> None:
        fakes.fail("GetContext", *[UNAVAILABLE] * 10)
        with pytest.raises(HithertoCallError) as caught:
            client.get_context("sarah")
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        # Whoever forgot to start the services reads how.
        assert "start it with `hitherto up`, or set HITHERTO_RETRIEVAL_ADDRESS" in str(caught.value)
        assert len(fakes.calls("GetContext")) == QUICK.attempts

    def test_retry_info_is_followed_beyond_the_attempts(
        self, client: Hitherto, fakes: Fakes
    ) -> None:
        busy = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after=0.001)
        fakes.fail("SubmitTranscripts", *[busy] * 6)
        assert len(client.submit_transcripts([TALK])) == 1
        assert len(fakes.calls("SubmitTranscripts")) == 7

    def test_a_wait_beyond_the_deadline_is_not_begun(self, client: Hitherto, fakes: Fakes) -> None:
        full = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after=3600)
        fakes.fail("SubmitTranscripts", full)
        with pytest.raises(HithertoCallError) as caught:
            client.submit_transcripts([TALK])
        assert (caught.value.reason, caught.value.retry_after) == ("QUEUE_FULL", 3600)


def refusal(message: str, *violations: tuple[str, str]) -> Failure:
    """A request that is wrong in these fields."""
    code, field = grpc.StatusCode.INVALID_ARGUMENT, {"field": violations[0][0]}
    return Failure(code, "INVALID_FIELD", message, field, violations)


class TestErrors:
    def test_all_details_are_read(self, client: Hitherto, fakes: Fakes) -> None:
        fakes.fail(
            "SearchMemories",
            refusal(
                "2 fields are wrong",
                ("limit", "should not be negative"),
                ("user_id", "should not be empty"),
            ),
        )
        with pytest.raises(HithertoCallError) as caught:
            client.search("sarah")
        error = caught.value
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (error.reason, error.message) == ("INVALID_FIELD", "2 fields are wrong")
        assert error.metadata == {"field": "limit"}
        assert error.violations == (
            Violation("limit", "should not be negative"),
            Violation("user_id", "should not be empty"),
        )
        assert error.retry_after is None
        assert (error.service, error.address) == ("retrieval", fakes.reads.address)
        assert error.request_id == fakes.calls("SearchMemories")[0].metadata["x-request-id"]
        assert "limit: should not be negative" in str(error)

    def test_what_the_message_names_is_not_said_again(self, client: Hitherto, fakes: Fakes) -> None:
        fakes.fail(
            "SearchMemories",
            refusal(
                "limit: should not be negative (and 1 more)",
                ("limit", "should not be negative"),
                ("user_id", "should be there"),
            ),
        )
        with pytest.raises(HithertoCallError) as caught:
            client.search("sarah")
        assert str(caught.value).splitlines() == [
            "INVALID_ARGUMENT INVALID_FIELD: limit: should not be negative (and 1 more)",
            "user_id: should be there",
        ]

    def test_a_service_that_lacks_the_call_is_named(self, client: Hitherto, fakes: Fakes) -> None:
        """As where the addresses of both services are exchanged."""
        fakes.fail(
            "SearchMemories", Failure(grpc.StatusCode.UNIMPLEMENTED, "", "Method not found!")
        )
        with pytest.raises(HithertoCallError, match="HITHERTO_RETRIEVAL_ADDRESS"):
            client.search("sarah")

    def test_calls_on_a_closed_client_fail(self, fakes: Fakes) -> None:
        client = Hitherto()
        client.close()
        with pytest.raises(ValueError, match="closed"):
            client.get_context("sarah")

    def test_another_process_raises_it_as_it_was(self, client: Hitherto, fakes: Fakes) -> None:
        told = "limit: should not be negative"
        fakes.fail("SearchMemories", refusal(told, ("limit", "should not be negative")))
        with pytest.raises(HithertoCallError) as caught:
            client.search("sarah")
        for again in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
            assert isinstance(again, HithertoCallError)
            assert (vars(again), str(again)) == (vars(caught.value), str(caught.value))


class TestWatch:
    def test_a_broken_stream_is_opened_again(self, client: Hitherto, fakes: Fakes) -> None:
        fakes.fail("WatchJob later", UNAVAILABLE, WRITE_CONFLICT, UNAVAILABLE, UNAVAILABLE)
        job = fakes.extraction.add_job()
        seen = list(client.watch_job(job.id))
        assert [item.state for item in seen] == ["running", "succeeded"]
        assert len(fakes.calls("WatchJob")) == 5

    def test_an_unknown_job_is_final(self, client: Hitherto, fakes: Fakes) -> None:
        with pytest.raises(HithertoCallError) as caught:
            list(client.watch_job("no-such-job"))
        assert caught.value.reason == "JOB_NOT_FOUND"
        assert len(fakes.calls("WatchJob")) == 1

    def test_a_service_that_ends_the_stream_early_is_not_to_be_started(self, fakes: Fakes) -> None:
        fakes.extraction.outcomes["chat-1"] = job_pb2.JOB_STATE_RUNNING
        job = fakes.extraction.add_job(conversation_id="chat-1")
        patient = RetryPolicy(first_wait=PATIENT_SECONDS * 2, longest_wait=PATIENT_SECONDS * 2)
        with Hitherto(retry=patient) as client, pytest.raises(HithertoCallError) as caught:
            list(connected(client).watch_job(job.id, timeout=PATIENT_SECONDS))
        ended = "UNAVAILABLE: the service ended the stream before the job was final"
        assert str(caught.value) == ended


class TestEnhancePrompt:
    def test_any_error_gives_the_base_and_says_so(self, client: Hitherto, fakes: Fakes) -> None:
        fakes.fail("GetContext", Failure(grpc.StatusCode.INTERNAL, "INTERNAL", "a fault"))
        enhanced = client.enhance_prompt("Be kind.", "sarah")
        assert enhanced.text == "Be kind."
        assert not enhanced.enhanced
        assert "a fault" in enhanced.problem

    def test_a_lone_surrogate_from_the_user_is_such_an_error(self, client: Hitherto) -> None:
        enhanced = client.enhance_prompt("Be kind.", "sarah", "\ud800")
        assert enhanced.text == "Be kind."
        assert enhanced.problem

    def test_so_is_a_token_function_that_fails(self) -> None:
        def token() -> str:
            raise OSError("no route to the token server")

        with Hitherto(token=token) as client:
            enhanced = client.enhance_prompt("Be kind.", "sarah")
        assert enhanced.text == "Be kind."
        assert "no route" in enhanced.problem


# TLS: the client trusts the authority it was given, and nobody else.


ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server with TLS, and the file that vouches for it."""
    authority = Authority(tmp_path, "ours")
    pair = authority.pair("server")
    files = pair.key.read_bytes(), pair.certificate.read_bytes()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((Others(Recorder()),))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([files]))
    server.start()
    yield f"127.0.0.1:{port}", authority.file
    server.stop(None).wait(10)


def test_another_one_is_not(
    secure: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_command: RunCommand,
) -> None:
    address, _ = secure
    other = Authority(tmp_path, "other").file
    with (
        Hitherto(address, tls_ca_file=other, retry=ONCE) as client,
        pytest.raises(HithertoCallError) as caught,
    ):
        client.get_context("sarah")
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    monkeypatch.setenv("HITHERTO_TLS_CA_FILE", str(other))
    assert (
        "HITHERTO_TLS_CA_FILE" in run_command(3, ["context", "sarah", "--retrieval", address]).err
    )


# A token in place of a key: given, from the environment, or made anew for every call.


def sent(fakes: Fakes) -> list[str]:
    return [str(call.metadata["authorization"]) for call in fakes.calls("GetContext")]


def test_a_provider_is_asked_for_every_call(fakes: Fakes) -> None:
    tokens = iter(["a.b.c", "d.e.f"])
    with Hitherto(token=lambda: next(tokens)) as client:
        client.get_context("sarah")
        client.get_context("sarah")
    assert sent(fakes) == ["Bearer a.b.c", "Bearer d.e.f"]


@pytest.mark.parametrize("token", ["", "a b", "kh\u00f3a", "a\nb"])
def test_a_provider_that_gives_no_token_ends_the_call(fakes: Fakes, token: str) -> None:
    with Hitherto(token=lambda: token) as client, pytest.raises(ValueError, match="token"):
        client.get_context("sarah")
    assert fakes.calls("GetContext") == []


def test_what_cannot_be_a_token_is_refused_at_once() -> None:
    for token in ["a b", "kh\u00f3a", "a\nb"]:
        with pytest.raises(ValueError, match="token") as caught, refusing(token):
            Hitherto(token=token)
        assert token not in str(caught.value)


@pytest.mark.parametrize("name", ["HITHERTO_API_KEY", "HITHERTO_TOKEN"])
def test_the_environment_names_the_key_or_the_token(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, " a.b.c\n")
    with Hitherto() as client:
        client.get_context("sarah")
    assert main(["context", "sarah", "--json"]) == 0
    # What is given is meant more than what lies about.
    with Hitherto(api_key="mk_x_y") as client:
        client.get_context("sarah")
    assert sent(fakes) == ["Bearer a.b.c", "Bearer a.b.c", "Bearer mk_x_y"]


def test_a_key_and_a_token_are_one_too_many(
    monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    with pytest.raises(ValueError, match="HITHERTO_TOKEN"):
        Hitherto(api_key="mk_x_y", token="a.b.c")
    monkeypatch.setenv("HITHERTO_TOKEN", "a.b.c")
    monkeypatch.setenv("HITHERTO_API_KEY", "mk_x_y")
    assert "HITHERTO_TOKEN" in run_command(2, ["context", "sarah"]).err
