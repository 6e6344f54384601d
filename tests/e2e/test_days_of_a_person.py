"""A day is a day of the person: tools, command line and context agree on it, east and west."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from hitherto_client import Hitherto
from hitherto_client.tools import Toolbox, toolbox
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, talk
from tests.e2e.privacy import choose, context, settings
from tests.e2e.test_command import Typed, pointed, typed  # noqa: F401 - `typed` is a fixture
from tests.e2e.test_tools import Calling
from tests.tenants import Tenant, credential


@pytest.fixture
def ana(services: Services, tenant: Tenant) -> Iterator[Calling]:
    with Hitherto(
        services.retrieval_address, services.extraction_address, token=credential(tenant, "ana")
    ) as client:
        yield Calling(Toolbox(client, "ana"))


# The same evening or morning of 1 September is another day in UTC.
SAID = {
    "Asia/Ho_Chi_Minh": "2026-09-01T05:00:00+07:00",
    "America/Los_Angeles": "2026-09-01T20:00:00-07:00",
}


@pytest.mark.parametrize("zone", SAID)
async def test_a_message_is_of_the_day_on_which_it_was_written(
    services: Services,
    ana: Calling,
    zone: str,
    typed: Typed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await choose(services, mask=["time_zone"], time_zone=zone)
    await learn(services, talk("I moved to Hue today.", at=datetime.fromisoformat(SAID[zone])))

    async def found(**days: str) -> list[str]:
        reply = await ana(
            "retrieve_context", query="moved to Hue", sources=["messages"], time_filter=days
        )
        return [item["when"][:10] for item in reply["items"]]

    assert await found(after="2026-09-01", before="2026-09-02") == ["2026-09-01"]
    assert await found(before="2026-09-01") == []
    assert await found(after="2026-09-02") == []
    no_day = {"after": "2026-09-01", "before": "2026-09-01"}
    refused = await ana.result("retrieve_context", query="Hue", time_filter=no_day)
    assert "is not included" in refused.text
    at = pointed(typed, services, monkeypatch)
    days = ("--created-after", "2026-09-01", "--created-before", "2026-09-02")
    told = await at("search", "ana", "moved to Hue", "--scope", "messages", *days)
    assert "I moved to Hue today." in told
    shown = await at("context", "ana", "moved to Hue", "--scope", "messages")
    assert "2026-09-01" in shown


@pytest.mark.parametrize("zone", SAID)
async def test_days_are_of_the_zone_that_the_first_transcript_names(
    services: Services,
    ana: Calling,
    zone: str,
    typed: Typed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = talk("I moved to Hue on 2026-09-01.", at=datetime.fromisoformat(SAID[zone]))
    said.time_zone = zone
    await learn(services, said)
    assert (await settings(services)).time_zone == zone
    at = pointed(typed, services, monkeypatch)
    assert "2026-09-01" in await at("memories", "ana")
    told = await at("context", "ana", "Where did she move?")
    assert "(2026-09-01)" in told
    assert "2026-08-31" not in told
    assert "2026-09-02" not in told


async def test_a_transcript_changes_no_zone_that_is_set_and_utc_sets_none(
    services: Services, ana: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def zone_after(named: str, words: str) -> str:
        said = talk(words, conversation=words)
        said.time_zone = named
        await learn(services, said)
        return (await settings(services)).time_zone

    assert await zone_after("UTC", "I like jazz.") == "UTC"
    assert await zone_after("Asia/Tokyo", "I like tea.") == "Asia/Tokyo"
    assert await zone_after("Europe/Berlin", "I like cats.") == "Asia/Tokyo"
    await choose(services, mask=["time_zone"])
    assert await zone_after("", "I like dogs.") == "UTC"
    assert await zone_after("Europe/Berlin", "I like rain.") == "Europe/Berlin"
    # At every hour, the day is another than in UTC in one of these.
    monkeypatch.setattr(toolbox, "_ZONE_SECONDS", -1.0)
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        await choose(services, mask=["time_zone"], time_zone=zone)
        # Tools ask for it again after a while.
        assert str(await asyncio.to_thread(ana.toolbox._known_zone)) == zone
        days = [datetime.now(ZoneInfo(zone)).date()]
        block = (await context(services, query="rain")).prompt_block
        days.append(datetime.now(ZoneInfo(zone)).date())
        assert any(f"; today is {day}" in block for day in days)
