"""`hitherto submit`, `watch`, `jobs` and `health`: output for both readers, and exit codes."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client.command import jobs as job_commands
from hitherto_client.command import main
from tests.unit.client.command_samples import NOWHERE, lines_file
from tests.unit.client.fake_services import Failure, Fakes


class TestSubmit:
    def test_it_hands_over_follows_and_tells(
        self, fakes: Fakes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["submit", lines_file(tmp_path, "chat-1", "chat-2")]) == 0
        out, err = capsys.readouterr()
        assert "2 conversations read: 4 learnt" in out
        assert "$0.0250" in out
        assert "100 %  8 of 8 messages, 2 of 2 jobs" in err
        assert "\r" not in err
        assert "\x1b" not in err + out

    @pytest.mark.parametrize("state", [job_pb2.JOB_STATE_DEAD, job_pb2.JOB_STATE_CANCELLED])
    def test_a_job_that_does_not_succeed_shows(
        self,
        fakes: Fakes,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        state: job_pb2.JobState.ValueType,
    ) -> None:
        fakes.extraction.outcomes["chat-2"] = state
        assert main(["submit", lines_file(tmp_path, "chat-1", "chat-2")]) == 1
        out, err = capsys.readouterr()
        assert job_pb2.JobState.Name(state).removeprefix("JOB_STATE_").lower() in out
        assert "MODEL_UNUSABLE" in err

    def test_violations_name_file_and_line(
        self, fakes: Fakes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = lines_file(tmp_path, "chat-1", "chat-2")
        fakes.fail(
            "SubmitTranscripts",
            Failure(
                grpc.StatusCode.INVALID_ARGUMENT,
                "INVALID_FIELD",
                "2 fields are wrong",
                violations=(
                    ("transcripts[1].messages[0].content", "is too long"),
                    ("transcripts[0].user_id", "is too long"),
                ),
            ),
        )
        assert main(["submit", path]) == 2
        err = capsys.readouterr().err.splitlines()
        assert err[-2] == f"  {path}, line 2: messages[0].content: is too long"
        assert err[-1] == f"  {path}, line 1: user_id: is too long"

    def test_no_service(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["submit", "--extraction", NOWHERE, lines_file(tmp_path, "chat-1")]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        waiting, told = err.splitlines()
        assert waiting.startswith(f"waiting: the extraction service at {NOWHERE} does not serve")
        assert told.startswith(f"hitherto: cannot reach the extraction service at {NOWHERE}: ")
        assert "start it with `hitherto up`" in told


class TestJobs:
    def test_watch(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        job = fakes.extraction.add_job(conversation_id="chat-1")
        assert main(["watch", job.id, job.id, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["jobs"]
        assert found["state"] == "JOB_STATE_SUCCEEDED"

    def test_a_watcher_that_begins_after_the_end_raises_nothing(self) -> None:
        """As when the user interrupts while watchers are being started: no trace is printed."""
        client = Hitherto("127.0.0.1:1", "127.0.0.1:1")
        connection = client.connection
        client.close()
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        waiting.put("j1")
        heard: queue.SimpleQueue[job_pb2.Job | Exception] = queue.SimpleQueue()
        job_commands._watch_some(connection, waiting, heard, threading.Event())
        assert isinstance(heard.get_nowait(), ValueError)

    def test_watch_one_that_is_done(self, fakes: Fakes) -> None:
        job = fakes.extraction.add_job(state=job_pb2.JOB_STATE_DEAD)
        assert main(["watch", job.id]) == 1
        assert not fakes.calls("WatchJob")

    def test_an_error_is_told_below_the_table(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = fakes.extraction.add_job(state=job_pb2.JOB_STATE_DEAD, error="X: y")
        assert main(["jobs"]) == 0
        assert f"{job.id} is dead: X: y" in capsys.readouterr().err


class TestHealth:
    @pytest.mark.parametrize(
        ("lacking", "remedy"),
        [
            ("language-model", "hitherto jobs --state failed"),
            ("storage", "the disk of the database is full"),
            ("database", "does not answer"),
            ("writes", "promote it"),
        ],
    )
    def test_what_a_service_does_without(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], lacking: str, remedy: str
    ) -> None:
        fakes.writes.health.set(lacking, health_pb2.HealthCheckResponse.NOT_SERVING)
        assert main(["health"]) == 0
        out, err = capsys.readouterr()
        assert f"serving without {lacking}" in out
        assert remedy in err
        assert ("hitherto jobs" in err) == (lacking == "language-model")

    def test_one_is_down(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["health", "--extraction", NOWHERE, "--json"]) == 3
        out, err = capsys.readouterr()
        services = {item["service"]: item for item in json.loads(out)["services"]}
        assert services["retrieval"]["serving"]
        assert not services["extraction"]["serving"]
        assert f"the extraction service at {NOWHERE} does not serve" in err
