"""The console's editors beside other tabs, people and jobs (G5): only what was edited changes.

Forms are sent as browsers send them, with every line break as CR LF.
"""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from hitherto_client import AsyncHitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.results import Memory, Profile
from tests.e2e.conftest import Services
from tests.e2e.consoles import Visitor, console_over, visitor
from tests.tenants import Tenant, credential


@dataclass(frozen=True, slots=True)
class Editor:
    """Ana's browser, and a client that changes the same things meanwhile."""

    browser: Visitor
    elsewhere: AsyncHitherto

    async def filled(self, page: str, form: str = "") -> dict[str, str]:
        """What the form of a page would send if nobody edited it."""
        await self.browser.open(page)
        return self.shown(form or page)

    def shown(self, form: str) -> dict[str, str]:
        """What a form of the current page would send."""
        [body] = re.findall(
            rf'<form method="post" action="{re.escape(form)}"(.*?)</form>', self.browser.page, re.S
        )
        fields = re.findall(r'<textarea [^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', body, re.S)
        for select, options in re.findall(
            r'<select [^>]*name="([^"]*)"[^>]*>(.*?)</select>', body, re.S
        ):
            fields += [(select, one) for one in re.findall(r'value="([^"]*)" selected', options)]
        for tag in re.findall(r"<input ([^>]*)>", body, re.S):
            name = re.search(r'name="([^"]*)"', tag)
            value = re.search(r'value="([^"]*)"', tag)
            if name is None or ('type="checkbox"' in tag and " checked" not in tag):
                continue
            text = value[1] if value else "on"
            # A field of one line cannot hold a line break.
            fields.append((name[1], text if 'type="hidden"' in tag else text.replace("\n", "")))
        return {
            html.unescape(name): html.unescape(text).replace("\n", "\r\n") for name, text in fields
        }

    async def save(self, form: str, fields: dict[str, str], **edits: str) -> None:
        """Send the fields of a form, some of them edited."""
        reply = await self.browser.http.post(form, data={**fields, **edits})
        self.browser.page, self.browser.status = reply.text, reply.status_code

    async def profile(self) -> Profile:
        found = await self.elsewhere.get_profile("ana")
        assert found is not None
        return found

    async def memory(self, memory_id: str) -> Memory:
        found = await self.elsewhere.get_memory("ana", memory_id)
        assert found is not None
        return found


@pytest.fixture
async def ana(services: Services, tenant: Tenant) -> AsyncIterator[Editor]:
    """Ana at a console, signed in."""
    token = tenant.token
    addresses = services.retrieval_address, services.extraction_address
    async with (
        AsyncHitherto(*addresses, token=token) as elsewhere,
        console_over(services) as url,
        visitor(url) as browser,
    ):
        await browser.sign_in(credential(tenant, "ana"))
        yield Editor(browser, elsewhere)


async def test_settings_that_changed_meanwhile_stay(ana: Editor) -> None:
    """H1: memory that was switched off in another tab is not switched on by a stale page."""
    stale = await ana.filled("/settings")
    await ana.elsewhere.update_user_settings("ana", memory_enabled=False, retention_days=30)
    await ana.save("/settings", stale, time_zone="Asia/Ho_Chi_Minh")
    settings = await ana.elsewhere.get_user_settings("ana")
    assert not settings.memory_enabled
    assert settings.retention_days == 30
    assert settings.time_zone == "Asia/Ho_Chi_Minh"

    stale = await ana.filled("/settings")
    await ana.elsewhere.update_user_settings("ana", memory_enabled=True, retention_days=60)
    await ana.save("/settings", stale, learning_enabled="")
    assert (await ana.elsewhere.get_user_settings("ana")).memory_enabled


FACTS: dict[str, Any] = {
    "personal": {
        "address": "Rua Nova 1\n4000 Porto",
        "motto": "  mind the gap ",
        "nickname": "",
        "pets": [],
        "notes": ["one\ntwo", "đường phố"],
        "ratio": 0.1,
    }
}


async def test_values_that_were_not_edited_stay_as_they_are(ana: Editor) -> None:
    await ana.elsewhere.update_profile(
        "ana", summary="One.\nTwo.", facts=FACTS, current_projects=["a bridge\nin Porto", "b"]
    )
    before = await ana.profile()
    await ana.save("/profile/edit", await ana.filled("/profile/edit"))
    assert await ana.profile() == before
    await ana.save(
        "/profile/edit", await ana.filled("/profile/edit"), new_key="job", new_value="engineer"
    )
    after = await ana.profile()
    assert after.facts == {"personal": {**before.facts["personal"], "job": "engineer"}}
    assert after.summary == before.summary
    assert after.current_projects == before.current_projects


async def test_a_profile_that_was_learnt_meanwhile_is_not_emptied(ana: Editor) -> None:
    stale = await ana.filled("/profile/edit")
    await ana.elsewhere.update_profile(
        "ana", summary="Ana builds bridges.", current_projects=["a bridge"]
    )
    await ana.save("/profile/edit", stale, new_key="job", new_value="engineer")
    profile = await ana.profile()
    assert profile.summary == "Ana builds bridges."
    assert profile.current_projects == ("a bridge",)
    # Line breaks are stored as such.
    await ana.save("/profile/edit", await ana.filled("/profile/edit"), summary="Một.\r\nHai.")
    assert (await ana.profile()).summary == "Một.\nHai."


async def test_after_a_conflict_only_the_own_edits_are_saved(ana: Editor) -> None:
    await ana.elsewhere.update_profile("ana", summary="Builds bridges.", current_projects=["one"])
    stale = await ana.filled("/profile/edit")
    await ana.elsewhere.update_profile("ana", summary="Builds tunnels.")
    await ana.save("/profile/edit", stale, current_projects="one\r\ntwo")
    assert ana.browser.status == 409
    await ana.save("/profile/edit", ana.shown("/profile/edit"))
    profile = await ana.profile()
    assert profile.summary == "Builds tunnels."
    assert profile.current_projects == ("one", "two")


async def test_the_largest_profile_can_be_edited(ana: Editor) -> None:
    """64 KiB of Vietnamese, of which a form sends most bytes as three characters, and twice."""
    line = "Sống ở Đà Nẵng, thích cà phê sữa đá và những chuyến đi dài.\n"
    facts = {f"chuyện_{n}": (line * 7).strip() for n in range(100)}
    await ana.elsewhere.update_profile("ana", summary=line * 15, facts={"personal": facts})
    with pytest.raises(HithertoCallError, match="65536"):
        await ana.elsewhere.update_profile("ana", metadata={"thêm": line * 80})
    fields = await ana.filled("/profile/edit")
    await ana.save("/profile/edit", fields, department="", summary="Ở Huế.")
    assert ana.browser.status == 200
    profile = await ana.profile()
    assert profile.summary == "Ở Huế."
    assert profile.facts["personal"] == facts


async def test_a_correction_changes_what_was_edited(ana: Editor) -> None:
    given: dict[str, Any] = {"tags": ["green, loose", "drinks"], "importance": 0.123}
    given |= {"type": "preference", "detail": "First line.\nSecond line."}
    saved = await ana.elsewhere.save_memory("ana", "Ana likes tea.", **given)
    page = f"/memories/{saved.memory.id}"
    before = await ana.memory(saved.memory.id)
    await ana.save(f"{page}/correct", await ana.filled(page, f"{page}/correct"))
    assert await ana.memory(saved.memory.id) == before
    await ana.save(f"{page}/correct", await ana.filled(page, f"{page}/correct"), type="fact")
    after = await ana.memory(saved.memory.id)
    assert after.type == "fact"
    for field in ("tags", "detail", "importance", "content"):
        assert getattr(after, field) == getattr(before, field)


async def test_after_a_conflict_the_statement_of_somebody_else_stays(ana: Editor) -> None:
    memory_id = (await ana.elsewhere.save_memory("ana", "Ana lives in Porto.")).memory.id
    page = f"/memories/{memory_id}"
    stale = await ana.filled(page, f"{page}/correct")
    await ana.elsewhere.update_memory("ana", memory_id, content="Ana lives in Lisbon.")
    await ana.save(f"{page}/correct", stale, tags="home")
    assert ana.browser.status == 409
    assert "Somebody else has changed this meanwhile" in ana.browser.text
    await ana.save(f"{page}/correct", ana.shown(f"{page}/correct"))
    memory = await ana.memory(memory_id)
    assert memory.content == "Ana lives in Lisbon."
    assert memory.tags == ("home",)
