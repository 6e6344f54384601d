"""Commands that ask first, upkeep that is followed, and figures of cost."""

from __future__ import annotations

import io
import json
from typing import Any

import grpc
import pytest

from hitherto.v1 import job_pb2, retrieval_service_pb2
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto_client.command import main
from tests.unit.client.fake_services import Failure, Fakes

ID = "0198c0de-7a11-7000-8000-000000000001"

ASKING: list[tuple[list[str], str]] = [
    (["documents", "delete", "ana", ID], "DeleteDocument"),
    (["conversation", "ana", "c1", "--delete"], "DeleteConversation"),
    (["clear", "ana", "--conversations"], "ClearMemories"),
    (["retention"], "RunRetention"),
    (["rollback", "ana", "--conversation", "c1"], "RollbackSource"),
    (["reembed", "switch"], "Reembed"),
    (["reembed", "rollback"], "Reembed"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def done(fakes: Fakes, method: str) -> int:
    """How often the change itself was asked for, counts and reports left out."""
    return sum(
        not getattr(asked.request, "dry_run", False)
        and getattr(asked.request, "phase", 0) != maintenance.REEMBED_PHASE_STATUS
        for asked in fakes.calls(method)
    )


@pytest.fixture
def ready(fakes: Fakes) -> Fakes:
    def start(reply: Any) -> Any:
        def answer(request: Any) -> Any:
            state = job_pb2.JOB_STATE_SUCCEEDED if request.dry_run else job_pb2.JOB_STATE_QUEUED
            job = fakes.extraction.add_job(kind="upkeep", state=state)
            counts = {"archived": 3, "none": 0} if request.dry_run else {}
            return reply(job=job, counts=counts)

        return answer

    fakes.others.replies.update(
        RunDecay=start(maintenance.RunDecayResponse),
        RunRetention=start(maintenance.RunRetentionResponse),
        Consolidate=start(maintenance.ConsolidateResponse),
        RollbackSource=maintenance.RollbackSourceResponse(counts={"memories_forgotten": 2}),
    )
    return fakes


class TestAsking:
    @pytest.mark.parametrize(("argv", "method"), ASKING)
    @pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("", 1)])
    def test_a_person_decides(
        self,
        ready: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        argv: list[str],
        method: str,
        answer: str,
        code: int,
    ) -> None:
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert main(argv) == code
        assert done(ready, method) == (code == 0)
        out, err = capsys.readouterr()
        assert "[y/N]" in err
        assert "[y/N]" not in out
        assert ("nothing was changed" in err) is (code == 1)

    @pytest.mark.parametrize(("argv", "method"), ASKING)
    def test_without_one_nothing_happens(
        self,
        ready: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        argv: list[str],
        method: str,
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert main(argv) == 2
        assert done(ready, method) == 0
        assert "--yes" in capsys.readouterr().err

    @pytest.mark.parametrize(("argv", "method"), ASKING)
    def test_yes_answers_beforehand(
        self,
        ready: Fakes,
        monkeypatch: pytest.MonkeyPatch,
        argv: list[str],
        method: str,
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert main([*argv, "--yes"]) == 0
        assert done(ready, method) == len(ready.calls(method)) == 1

    def test_the_counts_come_before_the_question(
        self,
        ready: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        assert main(["rollback", "ana", "--job", ID]) == 1
        err = capsys.readouterr().err
        assert err.index("2 memories forgotten") < err.index("[y/N]")

    @pytest.mark.parametrize("command", ["decay", "retention", "consolidate"])
    def test_a_dry_run_needs_no_answer(
        self,
        ready: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        command: str,
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert main([command, "--dry-run"]) == 0
        out, err = capsys.readouterr()
        assert out.strip() == "would change: 3 archived"
        assert "nothing was changed" in err
        assert not ready.calls("WatchJob")


class TestUpkeep:
    def test_the_job_is_followed(self, ready: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["decay", "--user", "ana"]) == 0
        out, err = capsys.readouterr()
        assert "succeeded" in out
        assert "100 %" in err
        assert ready.calls("RunDecay")[0].request.user_id == "ana"

    def test_a_job_that_dies_shows(self, ready: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        ready.extraction.outcomes[""] = job_pb2.JOB_STATE_DEAD
        assert main(["consolidate", "--tag", "home"]) == 1
        assert "MODEL_UNUSABLE" in capsys.readouterr().err

    def test_or_only_started(self, ready: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["decay", "--no-wait", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["job"]["state"] == "JOB_STATE_QUEUED"
        assert not ready.calls("WatchJob")

    def test_schedules(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        reply = maintenance.ListSchedulesResponse()
        reply.schedules.add(name="decay", cron="0 3 * * *").next_run_at.FromJsonString(
            "2026-11-22T03:00:00Z"
        )
        fakes.others.replies["ListSchedules"] = reply
        assert main(["schedules"]) == 0
        out = capsys.readouterr().out
        for part in ("decay", "0 3 * * *", "never", "2026-11-22 03:00Z"):
            assert part in out


class TestReembedding:
    def test_start_is_followed_to_its_end(
        self,
        fakes: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("hitherto_client.command.reembed._POLL_SECONDS", 0.01)
        job = fakes.extraction.add_job(kind="reembedding", state=job_pb2.JOB_STATE_RUNNING)
        asked: list[int] = []

        def step(request: maintenance.ReembedRequest) -> maintenance.ReembedResponse:
            asked.append(request.phase)
            done = min((len(asked) - 1) * 30, 90)
            if done == 90:
                job.state = job_pb2.JOB_STATE_SUCCEEDED
            return maintenance.ReembedResponse(
                job=job,
                active_model="small",
                active_dimensions=64,
                target_model="large",
                target_dimensions=96,
                embedded_count=done,
                pending_count=90 - done,
            )

        fakes.others.replies["Reembed"] = step
        assert main(["reembed", "start", "large", "--dimensions", "96"]) == 0
        out, err = capsys.readouterr()
        assert "0 %  0 of 90 texts embedded" in err
        assert "100 %" in err
        assert "hitherto reembed switch" in err
        assert "large (96 dimensions)" in out
        assert asked[0] == maintenance.REEMBED_PHASE_START
        assert set(asked[1:]) == {maintenance.REEMBED_PHASE_STATUS}

    def test_texts_that_take_too_long_to_count_end_no_waiting(
        self,
        fakes: Fakes,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """START is answered without the numbers then, and STATUS is not."""
        monkeypatch.setattr("hitherto_client.command.reembed._POLL_SECONDS", 0.01)
        job = fakes.extraction.add_job(kind="reembedding", state=job_pb2.JOB_STATE_RUNNING)

        def start(_: maintenance.ReembedRequest) -> maintenance.ReembedResponse:
            fakes.fail("Reembed", Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"))
            reply = maintenance.ReembedResponse(job=job, target_model="large")
            job.state = job_pb2.JOB_STATE_SUCCEEDED
            return reply

        fakes.others.replies["Reembed"] = start
        assert main(["reembed", "start", "large", "--wait"]) == 0
        out, err = capsys.readouterr()
        assert "SUCCEEDED" in out.upper()
        assert "0 of 0" not in err
        assert "everything is embedded" not in err

    def test_too_early(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.fail(
            "Reembed",
            Failure(grpc.StatusCode.FAILED_PRECONDITION, "REEMBEDDING_NOT_READY", "wait for it"),
        )
        assert main(["reembed", "switch", "--yes"]) == 1
        assert "wait for it" in capsys.readouterr().err


class TestUsage:
    def test_rows_total_and_budget(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        reply = maintenance.GetUsageResponse(daily_budget_usd=2, spent_today_usd=0.5)
        reply.rows.add(
            user_id="ana", day="2026-11-20", usage=job_pb2.Usage(llm_calls=2, cost_usd=0.25)
        )
        reply.rows.add(day="2026-11-19", usage=job_pb2.Usage(llm_calls=1, cost_usd=0.25))
        reply.total.llm_calls = 3
        reply.total.cost_usd = 0.5
        fakes.others.replies["GetUsage"] = reply
        options = ["--by", "user,day", "--kind", "decay", "--since", "2026-11-01"]
        assert main(["usage", *options]) == 0
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert lines[0].split()[:2] == ["user", "day"]
        assert lines[2].split()[:3] == ["ana", "2026-11-20", "2"]
        assert "(none)" in lines[3]
        assert lines[4].split() == ["total", "3", "0", "0", "0", "0", "$0.5000"]
        assert "spent today (UTC): $0.5000 of $2.0000" in err
        (asked,) = fakes.calls("GetUsage")
        assert list(asked.request.group_by) == [1, 3]
        assert list(asked.request.kinds) == ["decay"]
        assert asked.request.since.seconds == 1_793_491_200
        assert not asked.request.HasField("until")

    def test_one_row_in_all(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        reply = maintenance.GetUsageResponse(total=job_pb2.Usage(llm_calls=7))
        fakes.others.replies["GetUsage"] = reply
        assert main(["usage"]) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[2].split()[0] == "7"
        assert "no budget" in err

    def test_every_page(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        def page(request: maintenance.GetUsageRequest) -> maintenance.GetUsageResponse:
            reply = maintenance.GetUsageResponse(next_page_token="" if request.page_token else "2")
            reply.rows.add(user_id=f"user {request.page_token or 1}")
            return reply

        fakes.others.replies["GetUsage"] = page
        assert main(["usage", "--by", "user", "--all", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["user_id"] for row in rows] == ["user 1", "user 2"]

    @pytest.mark.parametrize("by", ["week", "user,", "user,week"])
    def test_wrong_usage(self, fakes: Fakes, by: str) -> None:
        assert main(["usage", "--by", by]) == 2
        assert not fakes.calls("GetUsage")


def test_a_conversation_with_its_messages(fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    reply = retrieval_service_pb2.GetConversationResponse()
    reply.summary.title = "Du lịch"
    reply.summary.message_count = 2
    reply.messages.add(id="m1", role=1, content="Đi Huế nhé?")
    reply.messages.add(id="m2", role=2, name="Guide", content="Được!")
    fakes.others.replies["GetConversation"] = reply
    assert main(["conversation", "ana", "c1", "--messages", "2"]) == 0
    out = capsys.readouterr().out
    for part in ("Du lịch", "Đi Huế nhé?", "Guide"):
        assert part in out
    assert fakes.calls("GetConversation")[0].request.message_limit == 2
    assert not fakes.calls("DeleteConversation")
