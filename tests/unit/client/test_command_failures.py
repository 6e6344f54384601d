"""What a command says of jobs, health and failures, and what it asks before a change for good."""

from __future__ import annotations

import io
import json
import queue
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2

from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client.command import jobs as job_commands
from hitherto_client.command import main
from tests.unit.client.command_samples import ID, NOWHERE, lines_file
from tests.unit.client.fake_services import Failure, Fakes, RunCommand

Code = grpc.StatusCode


AMISS = ("memory_id", "must be an id")
WITH_VIOLATION = Failure(Code.INVALID_ARGUMENT, "INVALID_FIELD", violations=(AMISS,))
NO_TALK = Failure(Code.NOT_FOUND, "CONVERSATION_NOT_FOUND", "no such conversation")
NOT_READY = Failure(Code.FAILED_PRECONDITION, "REEMBEDDING_NOT_READY", "wait for it")
AWAY = Failure(Code.UNAVAILABLE, "X", "no database", retry_after=60)


@pytest.mark.parametrize(
    ("typed", "failure", "code", "told"),
    [
        ("profile ana summary=x", Failure(Code.ABORTED, "X", "read again"), 1, "read"),
        ("profile ana --json", Failure(Code.NOT_FOUND, "X", "no profile"), 1, "no prof"),
        ("context ana", Failure(Code.UNAUTHENTICATED, "X"), 1, "hitherto keys create"),
        ("context ana", Failure(Code.DEADLINE_EXCEEDED), 3, "--timeout"),
        (
            *("context ana", NO_TALK, 1),
            "no such conversation; `hitherto conversations USER` lists those that exist",
        ),
        (
            *("context ana", WITH_VIOLATION, 2),
            "memory_id: must be an id; `hitherto memories USER` lists those that exist",
        ),
        ("context ana", AWAY, 3, "no database; try again in 60 s"),
        ("reembed switch --yes", NOT_READY, 1, "wait for it"),
    ],
)
def test_failures(fakes: Fakes, typed: str, failure: Failure, code: int, told: str) -> None:
    words = typed.split()
    method = {"context": "GetContext", "reembed": "Reembed"}.get(words[0], "GetProfile")
    fakes.fail("UpdateProfile" if "summary=x" in words else method, failure)
    out, err = fakes.run(code, words)
    assert out == ""
    for part in told.split("; "):
        assert part in err


def test_the_text_may_come_from_a_pipe(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffdòng một\ndòng hai\n".encode())
    with path.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["save", "ana", "-"]) == 0
    assert fakes.calls("SaveMemory")[0].request.content == "dòng một\ndòng hai"


class Terminal(io.StringIO):
    """A person at a terminal."""

    def isatty(self) -> bool:
        return True


def done(fakes: Fakes, method: str) -> int:
    """How often the change itself was asked for, counts and reports left out."""
    return sum(
        not getattr(asked.request, "dry_run", False)
        and MessageToDict(asked.request).get("phase") != "REEMBED_PHASE_STATUS"
        for asked in fakes.calls(method)
    )


@pytest.mark.parametrize(
    ("typed", "method"),
    [
        (f"documents delete ana {ID}", "DeleteDocument"),
        ("conversation ana c1 --delete", "DeleteConversation"),
        ("clear ana --conversations", "ClearMemories"),
        ("retention", "RunRetention"),
        ("rollback ana --conversation c1", "RollbackSource"),
        ("reembed switch", "Reembed"),
        ("reembed rollback", "Reembed"),
    ],
)
def test_what_cannot_be_undone_is_asked_about(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, typed: str, method: str
) -> None:
    """Of a person at a terminal; without one, only --yes agrees."""
    job = {"job": {"id": ID, "state": "JOB_STATE_SUCCEEDED"}}
    fakes.answer("RunRetention", {**job, "counts": {"archived": 3}})
    fakes.answer("RollbackSource", {"counts": {"memories_forgotten": 2}})
    fakes.extraction.add_job(state=job_pb2.JOB_STATE_SUCCEEDED)
    for answer, code, changes in (("n\n", 1, 0), ("", 1, 0), ("y\n", 0, 1), ("YES\n", 0, 2)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        out, err = fakes.run(code, typed.split())
        assert done(fakes, method) == changes
        assert "[y/N]" in err
        assert "[y/N]" not in out
        assert ("nothing was changed" in err) is (code == 1)
        if method == "RollbackSource":
            assert err.index("2 memories forgotten") < err.index("[y/N]")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "--yes" in fakes.run(2, typed.split()).err
    assert done(fakes, method) == 2
    assert main([*typed.split(), "--yes"]) == 0
    assert done(fakes, method) == 3


def test_clearing_tells_what_there_is(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    fakes.answer("ListMemories", {"totalSize": 12})
    fakes.answer("ClearMemories", {"counts": {"memories": "12"}})
    out, err = fakes.run(0, ["clear", "ana", "--profile", "--conversations"])
    assert "12 memories" in out
    for part in ("all 12 memories", "empty the profile", "for good"):
        assert part in err


@pytest.mark.parametrize("command", ["decay", "retention", "consolidate"])
def test_upkeep_is_tried_followed_or_only_started(fakes: Fakes, command: str) -> None:
    method = {"consolidate": "Consolidate"}.get(command, f"Run{command.title()}")
    tried = {"job": {"id": "d", "state": "JOB_STATE_SUCCEEDED"}, "counts": {"archived": 3}}
    fakes.answer(method, tried)
    out, err = fakes.run(0, [command, "--dry-run"])
    assert out.strip() == "would change: 3 archived"
    assert "nothing was changed" in err
    job = fakes.extraction.add_job(kind="upkeep")
    fakes.answer(method, {"job": {"id": job.id, "state": "JOB_STATE_QUEUED"}})
    agreed = ["--yes"] if command == "retention" else []
    queued = fakes.run(0, [command, *agreed, "--no-wait", "--json"]).out
    assert json.loads(queued)["job"]["state"] == "JOB_STATE_QUEUED"
    assert not fakes.calls("WatchJob")
    out, err = fakes.run(0, [command, *agreed])
    assert "succeeded" in out
    assert "100 %" in err
    fakes.extraction.outcomes[""] = job_pb2.JOB_STATE_DEAD
    assert "MODEL_UNUSABLE" in fakes.run(1, [command, *agreed]).err


def test_a_reembedding_is_followed_to_its_end(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """START is answered without numbers where counting takes too long."""
    monkeypatch.setattr("hitherto_client.command.upkeep._POLL_SECONDS", 0.01)
    job = fakes.extraction.add_job(kind="reembedding", state=job_pb2.JOB_STATE_RUNNING)
    asked: list[int] = []

    def step(request: Any) -> dict[str, Any]:
        asked.append(request.phase)
        done = 30 * (len(asked) - 1)
        if done == 30:
            fakes.fail("Reembed", Failure(Code.DEADLINE_EXCEEDED))
        if done == 60:
            job.state = job_pb2.JOB_STATE_SUCCEEDED
        pending = 90 - done if done < 60 else 0
        counts = {"embeddedCount": done, "pendingCount": pending} if done else {}
        return {"job": {"id": job.id, "state": job.state}, "targetModel": "large", **counts}

    fakes.answer("Reembed", step)
    out, err = fakes.run(0, ["reembed", "start", "large", "--dimensions", "96"])
    assert "0 of 0" not in err
    for part in ("30 of 90 texts embedded", "100 %", "hitherto reembed switch"):
        assert part in err
    assert "large" in out
    assert (asked[0], set(asked[1:])) == (1, {asked[1]})


# `hitherto submit`, `watch`, `jobs` and `health`: output for both readers, and exit codes.


class TestSubmit:
    def test_it_hands_over_follows_and_tells(self, fakes: Fakes, tmp_path: Path) -> None:
        out, err = fakes.run(0, ["submit", lines_file(tmp_path, "chat-1", "chat-2")])
        assert "2 conversations read: 4 learnt" in out
        assert "$0.0250" in out
        assert "100 %  8 of 8 messages, 2 of 2 jobs" in err
        assert "\r" not in err
        assert "\x1b" not in err + out

    @pytest.mark.parametrize("state", [job_pb2.JOB_STATE_DEAD, job_pb2.JOB_STATE_CANCELLED])
    def test_a_job_that_does_not_succeed_shows(
        self, fakes: Fakes, tmp_path: Path, state: job_pb2.JobState.ValueType
    ) -> None:
        fakes.extraction.outcomes["chat-2"] = state
        out, err = fakes.run(1, ["submit", lines_file(tmp_path, "chat-1", "chat-2")])
        assert job_pb2.JobState.Name(state).removeprefix("JOB_STATE_").lower() in out
        assert "MODEL_UNUSABLE" in err
        fakes.extraction.outcomes["chat-1"] = state
        out, _ = fakes.run(1, ["submit", lines_file(tmp_path, "chat-1", "chat-2")])
        assert "nothing new" not in out

    def test_violations_name_file_and_line(self, fakes: Fakes, tmp_path: Path) -> None:
        path = lines_file(tmp_path, "chat-1", "chat-2")
        wrong = (
            ("transcripts[1].messages[0].content", "is too long"),
            ("transcripts[0].user_id", "is too long"),
        )
        refused = Failure(Code.INVALID_ARGUMENT, "INVALID_FIELD", "2 fields are wrong", None, wrong)
        fakes.fail("SubmitTranscripts", refused)
        err = fakes.run(2, ["submit", path]).err.splitlines()
        assert err[-2] == f"  {path}, line 2: messages[0].content: is too long"
        assert err[-1] == f"  {path}, line 1: user_id: is too long"

    def test_no_service(self, tmp_path: Path, run_command: RunCommand) -> None:
        out, err = run_command(
            3, ["submit", "--extraction", NOWHERE, lines_file(tmp_path, "chat-1")]
        )
        assert out == ""
        waiting, told = err.splitlines()
        assert waiting.startswith(f"waiting: the extraction service at {NOWHERE} does not serve")
        assert told.startswith(f"hitherto: cannot reach the extraction service at {NOWHERE}: ")
        assert "start it with `hitherto up`" in told


class TestJobs:
    def test_watch(self, fakes: Fakes) -> None:
        job = fakes.extraction.add_job(conversation_id="chat-1")
        (found,) = json.loads(fakes.run(0, ["watch", job.id, job.id, "--json"]).out)["jobs"]
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

    def test_an_error_is_told_below_the_table(self, fakes: Fakes) -> None:
        job = fakes.extraction.add_job(state=job_pb2.JOB_STATE_DEAD, error="X: y")
        assert f"{job.id} is dead: X: y" in fakes.run(0, ["jobs"]).err


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
    def test_what_a_service_does_without(self, fakes: Fakes, lacking: str, remedy: str) -> None:
        fakes.writes.health.set(lacking, health_pb2.HealthCheckResponse.NOT_SERVING)
        out, err = fakes.run(0, ["health"])
        assert f"serving without {lacking}" in out
        assert remedy in err
        assert ("hitherto jobs" in err) == (lacking == "language-model")

    def test_one_is_down(self, fakes: Fakes) -> None:
        out, err = fakes.run(3, ["health", "--extraction", NOWHERE, "--json"])
        services = {item["service"]: item for item in json.loads(out)["services"]}
        assert services["retrieval"]["serving"]
        assert not services["extraction"]["serving"]
        assert f"the extraction service at {NOWHERE} does not serve" in err
