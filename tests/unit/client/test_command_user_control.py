"""`hitherto settings` and `hitherto clear`: what is sent and what is shown."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from hitherto.v1 import privacy_pb2, retrieval_service_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.command import main
from tests.unit.client.fake_services import Fakes
from tests.unit.client.test_command_upkeep import Terminal

FOUND = privacy_pb2.UserSettings(
    memory_enabled=True,
    learning_enabled=False,
    retention_days=0,
    message_retention_days=7,
    encrypt_sensitive=False,
    time_zone="Asia/Ho_Chi_Minh",
)


@pytest.fixture
def ready(fakes: Fakes) -> Fakes:
    fakes.others.replies.update(
        GetUserSettings=pb.GetUserSettingsResponse(user_settings=FOUND),
        UpdateUserSettings=pb.UpdateUserSettingsResponse(user_settings=FOUND),
        ClearMemories=pb.ClearMemoriesResponse(counts={"memories": 12, "profiles": 0}),
    )
    return fakes


def test_settings_are_shown(ready: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "Thảo 🍵"]) == 0
    shown = capsys.readouterr().out
    for text in ("0 (never)", "7", "Asia/Ho_Chi_Minh", "learning_enabled", "off"):
        assert text in shown
    (asked,) = ready.calls("GetUserSettings")
    assert asked.request.user_id == "Thảo 🍵"


def test_changes_and_resets_are_the_mask(ready: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["memory_enabled=OFF", "retention_days=0", "time_zone=UTC"]
    assert main(["settings", "ana", *words, "--reset", "learning_enabled", "--json"]) == 0
    (asked,) = ready.calls("UpdateUserSettings")
    sent = MessageToDict(asked.request, preserving_proto_field_name=True)
    assert sent["user_settings"] == {
        "memory_enabled": False,
        "retention_days": 0,
        "time_zone": "UTC",
    }
    assert list(asked.request.update_mask.paths) == [
        "memory_enabled",
        "retention_days",
        "time_zone",
        "learning_enabled",
    ]
    assert json.loads(capsys.readouterr().out)["user_settings"]["message_retention_days"] == 7


@pytest.mark.parametrize(
    "words",
    [
        ["memory_enabled"],
        ["memory=off"],
        ["memory_enabled=maybe"],
        ["retention_days=-1"],
        ["retention_days=٣"],
        ["retention_days=99999999999"],
        ["time_zone=UTC", "time_zone=UTC"],
        ["time_zone=UTC", "--reset", "time_zone"],
        ["--reset", "everything"],
    ],
)
def test_what_cannot_be_is_not_sent(ready: Fakes, words: list[str]) -> None:
    assert main(["settings", "ana", *words]) == 2
    assert not ready.calls("UpdateUserSettings")


def test_clearing_tells_the_counts(
    ready: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ready.retrieval.memories = [retrieval_service_pb2.ListMemoriesResponse(total_size=12)]
    assert main(["clear", "ana", "--profile", "--conversations"]) == 0
    out, err = capsys.readouterr()
    assert "12 memories" in out
    assert "all 12 memories" in err
    assert "empty the profile" in err
    assert "for good" in err
    (asked,) = ready.calls("ClearMemories")
    assert asked.request.include_profile
    assert asked.request.include_conversations


def test_clearing_beforehand_agreed_to(
    ready: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["clear", "ana", "--yes", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["counts"]["memories"] == "12"
    assert not ready.calls("ListMemories")
