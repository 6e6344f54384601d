"""A day is a day of the person: in options, in fields of pages, and in what is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2, privacy_service_pb2, retrieval_service_pb2
from hitherto_client.command import main
from hitherto_client.console.fields import Fields
from hitherto_client.console.rendering import day, iso_day
from hitherto_client.days import days_in, first_moment, last_moment, read_day, zone_named
from tests.unit.client.fake_services import Failure, Fakes

# The first day of September 2026 where these people live.
BEGINS = {
    "UTC": "2026-09-01T00:00:00Z",
    "America/Los_Angeles": "2026-09-01T07:00:00Z",
    "Asia/Ho_Chi_Minh": "2026-08-31T17:00:00Z",
    "Pacific/Kiritimati": "2026-08-31T10:00:00Z",
}


@pytest.fixture(params=BEGINS)
def zone(request: pytest.FixtureRequest, fakes: Fakes) -> str:
    name: str = request.param
    reply = privacy_service_pb2.GetUserSettingsResponse()
    reply.user_settings.time_zone = name
    fakes.others.replies["GetUserSettings"] = reply
    return name


class TestOptions:
    def test_filters(self, fakes: Fakes, zone: str) -> None:
        days = "--created-after 2026-09-01 --created-before 2026-09-01 --as-of 2026-08-31"
        assert main(["memories", "ana", *days.split()]) == 0
        asked = fakes.calls("ListMemories")[0].request
        assert asked.created_after.ToJsonString() == BEGINS[zone]
        assert asked.created_before.ToJsonString() == BEGINS[zone]
        # What was true on a day was so at its end.
        assert asked.as_of.ToMicroseconds() == asked.created_after.ToMicroseconds() - 1

    def test_what_is_saved_and_corrected(self, fakes: Fakes, zone: str) -> None:
        fakes.others.replies["UpdateMemory"] = memory_service_pb2.UpdateMemoryResponse()
        for given in ("2026-09-01", "2026-09-01T00:00"):
            assert main(["save", "ana", "Lives in Huế.", "--valid-from", given]) == 0
            asked = fakes.calls("SaveMemory")[-1].request
            assert asked.valid_from.ToJsonString() == BEGINS[zone], given
        assert main(["correct", "ana", "id", "--valid-to", "2026-09-01"]) == 0
        asked = fakes.calls("UpdateMemory")[0].request
        assert asked.memory.valid_to.ToJsonString() == BEGINS[zone]

    def test_documents(self, fakes: Fakes, zone: str, tmp_path: Path) -> None:
        fakes.others.replies["IngestDocuments"] = extraction.IngestDocumentsResponse()
        text = tmp_path / "a.txt"
        text.write_text("x")
        command = ["documents", "add", "ana", str(text), "--created", "2026-09-01", "--no-wait"]
        assert main(command) == 0
        (document,) = fakes.calls("IngestDocuments")[0].request.documents
        assert document.created_at.ToJsonString() == BEGINS[zone]

    def test_a_time_with_one_asks_for_nothing(self, fakes: Fakes, zone: str) -> None:
        assert main(["save", "ana", "x", "--valid-from", "2026-09-01T00:00:00Z", "--json"]) == 0
        assert not fakes.calls("GetUserSettings")
        asked = fakes.calls("SaveMemory")[0].request
        assert asked.valid_from.ToJsonString() == "2026-09-01T00:00:00Z"

    def test_nothing_is_guessed_where_the_settings_cannot_be_read(self, fakes: Fakes) -> None:
        fakes.fail("GetUserSettings", Failure(grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING"))
        assert main(["save", "ana", "x", "--valid-from", "2026-09-01"]) != 0
        assert not fakes.calls("SaveMemory")


def test_tables_show_the_days_of_the_person(fakes: Fakes, zone: str) -> None:
    reply = retrieval_service_pb2.ListMemoriesResponse()
    reply.memories.add(id="a", content="Lives in Huế.").valid_from.FromJsonString(BEGINS[zone])
    fakes.answer("ListMemories", reply)
    assert "2026-09-01" in fakes.run(0, ["memories", "ana"]).out


class TestPages:
    def test_fields_and_what_is_shown(self) -> None:
        for name, moment in BEGINS.items():
            begins = datetime.fromisoformat(moment)
            with days_in(zone_named(name)):
                typed = Fields({"x": ["2026-09-01"]})
                assert typed.day("x") == begins, name
                end = typed.day_at_its_end("x")
                assert end is not None, name
                assert day(begins) == day(end) == "1 Sep 2026", name
                assert iso_day(begins) == iso_day(end) == "2026-09-01", name


def test_days_on_which_clocks_change() -> None:
    for zone_name, day_of_change, hours in [
        ("America/Los_Angeles", "2026-03-08", 23),
        ("America/Los_Angeles", "2026-11-01", 25),
        # Here the clocks change at midnight: the day begins at one.
        ("America/Santiago", "2026-09-06", 23),
        ("Africa/Cairo", "2026-04-24", 23),
        ("Asia/Ho_Chi_Minh", "2026-03-08", 24),
    ]:
        with days_in(zone_named(zone_name)):
            given = read_day(day_of_change)
            length = last_moment(given) - first_moment(given)
        assert round(length.total_seconds() / 3_600) == hours, (zone_name, day_of_change)


def test_a_zone_that_is_not_known_here_is_utc() -> None:
    assert [zone_named(name) for name in ("", "Mars/North", "../etc")] == [UTC] * 3
