"""The console's other pages, over HTTP: profile, settings, data, conversations, work (G5)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hitherto_client import AsyncHitherto, HithertoCallError
from hitherto_client.command import main
from hitherto_client.inputs import MessageInput
from hitherto_client.results import Job
from tests.e2e.conftest import Services, Shared
from tests.e2e.consoles import Visitor, console_over
from tests.scripted_model import CONTENT_FAULTS, ChatAnswer, ScriptedModel
from tests.waiting import eventually

BOUND = 120.0


@pytest.fixture(scope="module")
async def console(shared_modelled: Shared) -> AsyncIterator[str]:
    """One console for the module."""
    async with console_over(shared_modelled.services) as url:
        yield url


@pytest.fixture
def services(modelled: Services) -> Services:
    """Whose tenant everybody is of."""
    return modelled


async def chat(memory: AsyncHitherto, conversation: str, *words: str) -> Job:
    """A conversation of Ana's that was learnt from."""
    messages: list[MessageInput] = [
        {"role": "user", "content": text, "id": f"m{number}"} for number, text in enumerate(words)
    ]
    await memory.add("ana", messages, conversation=conversation)
    return await memory.wait_for_job(
        await memory.end_conversation("ana", conversation), timeout=BOUND
    )


def edited(page: str) -> dict[str, str]:
    """What the text fields of an editor hold, by name."""
    inputs = re.findall(r'<input [^>]*name="([^"]*)"[^>]* value="([^"]*)"', page)
    areas = re.findall(r'<textarea [^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', page, re.S)
    return {html.unescape(name): html.unescape(text) for name, text in [*inputs, *areas]}


async def test_the_profile_is_edited_value_by_value(ana: Visitor, memory: AsyncHitherto) -> None:
    await ana.open("/profile")
    assert "There is no profile yet" in ana.text
    fields = edited(await ana.open("/profile/edit"))
    await ana.send("/profile/edit", **{**fields, "summary": "Ana xây cầu 🌉"})
    profile = await memory.get_profile("ana")
    assert profile is not None
    assert profile.summary == "Ana xây cầu 🌉"
    await memory.update_profile(
        "ana",
        summary="Ana builds bridges.",
        facts={
            "personal": {"location": "Porto", "contacts": ["bo@example.org"], "pets": 2},
            "technical_context": {"frameworks": ["Docker"]},
        },
        preferences={"answers": "short"},
    )
    await ana.open("/profile")
    assert "Ana builds bridges." in ana.text
    assert "bo@example.org" in ana.text
    page = await ana.open("/profile/edit")
    fields = edited(page)
    location = '["facts", "personal", "location"]'
    assert fields[location] == "Porto"
    assert "department" not in fields
    changes = {
        location: "Hà Nội",
        '["facts", "personal", "pets"]': "3",
        '["facts", "technical_context", "frameworks"]': "Docker\nReact",
        '["preferences", "answers"]': "",
        "current_projects": "the long bridge\nthe short bridge",
        "new_group": "personal",
        "new_key": "occupation",
        "new_value": "engineer",
    }
    await ana.send("/profile/edit", **{**fields, **changes})
    assert "Saved." in ana.text
    profile = await memory.get_profile("ana")
    assert profile is not None
    assert profile.facts == {
        "personal": {
            "location": "Hà Nội",
            "contacts": ["bo@example.org"],
            "pets": 3,
            "occupation": "engineer",
        },
        "technical_context": {"frameworks": ["Docker", "React"]},
    }
    assert profile.preferences == {}
    assert profile.current_projects == ("the long bridge", "the short bridge")
    assert profile.summary == "Ana builds bridges."
    assert '<del dir="auto">Porto</del> <ins dir="auto">Hà Nội</ins>' in ana.page

    await ana.open("/profile/edit")
    await ana.send("/profile/edit", **edited(ana.page))
    assert "Nothing was changed." in ana.text


async def test_settings_are_changed_and_reset(ana: Visitor, memory: AsyncHitherto) -> None:
    fields = edited(await ana.open("/settings"))
    changes = {"retention_days": "30", "time_zone": "Asia/Ho_Chi_Minh", "memory_enabled": "on"}
    await ana.send("/settings", **{**fields, **changes})
    settings = await memory.get_user_settings("ana")
    assert settings.memory_enabled
    assert not settings.learning_enabled
    assert settings.retention_days == 30
    assert settings.time_zone == "Asia/Ho_Chi_Minh"
    await ana.send("/settings", **{**fields, "memory_enabled": "on", "time_zone": "Mars/North"})
    assert ana.status == 422
    assert "time_zone" in ana.text
    await ana.open("/settings")
    await ana.send("/settings/reset")
    assert (await memory.get_user_settings("ana")).learning_enabled
    assert (await memory.get_user_settings("ana")).retention_days == 0


async def test_everything_is_exported(ana: Visitor, memory: AsyncHitherto) -> None:
    await memory.save_memory("ana", "Ana thích trà 🍵")
    await memory.save_memory("bo", "Bo likes coffee.")
    await ana.open("/data")
    reply = await ana.http.post("/data/export", data=ana.hidden("/data/export"))
    assert reply.status_code == 200
    assert "attachment" in reply.headers["content-disposition"]
    assert int(reply.headers["content-length"]) == len(reply.content)
    lines = [json.loads(line) for line in reply.content.decode().splitlines()]
    assert any("Ana thích trà 🍵" in json.dumps(line, ensure_ascii=False) for line in lines)
    assert "coffee" not in reply.text


async def test_memories_are_cleared_only_when_confirmed(
    ana: Visitor, memory: AsyncHitherto
) -> None:
    await memory.save_memory("ana", "Ana likes tea.")
    await ana.open("/data")
    for wrong in ("", "bo", "Ana"):
        await ana.send("/data/clear", confirm=wrong)
        assert ana.status == 400
        assert "Nothing was removed" in ana.text
    assert [one.content async for one in memory.memories("ana")] == ["Ana likes tea."]
    await ana.send("/data/clear", confirm="ana")
    assert "Cleared:" in ana.text
    assert [one async for one in memory.memories("ana")] == []


async def test_a_person_erases_everything_and_keeps_the_receipt(
    ana: Visitor,
    memory: AsyncHitherto,
    services_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await memory.save_memory("ana", "Ana likes tea.")
    await ana.open("/data")
    await ana.send("/data/erase", confirm="nobody")
    assert ana.status == 400
    await ana.send("/data/erase", confirm="ana")
    assert "Everything is erased" in ana.text
    reply = await ana.http.get(ana.url, params={"download": "1"})
    assert "attachment" in reply.headers["content-disposition"]
    receipt = tmp_path / "receipt.json"
    receipt.write_bytes(reply.content)
    key = services_folder / "data" / "signing_key.pem"
    assert main(["receipt", "verify", str(receipt), "--public-key", str(key)]) == 0
    assert "valid" in capsys.readouterr().out
    with pytest.raises(HithertoCallError, match="USER_ERASED"):
        await memory.save_memory("ana", "Ana is back.")
    await ana.open("/memories/new")
    await ana.send("/memories/new", content="Ana is back.")
    assert ana.status == 409
    assert "This person was erased" in ana.text


async def test_conversations_are_read_page_by_page_and_deleted(
    ana: Visitor, memory: AsyncHitherto
) -> None:
    words = [f"message number {number}" for number in range(60)]
    await chat(memory, "trò chuyện/1", *words, "I keep a canary:pip")
    await ana.open("/conversations")
    [path] = re.findall(r'href="(/conversation\?[^"]*)"', ana.page)
    await ana.open(path)
    assert "canary:pip" in ana.text
    assert "message number 59" in ana.text
    assert "message number 3 " not in ana.text
    [earlier] = re.findall(r'href="(/conversation\?[^"]*show=[^"]*)"', ana.page)
    await ana.open(html.unescape(earlier))
    assert "message number 3 " in ana.text
    await ana.send("/conversation/delete")
    assert "The conversation is deleted" in ana.text
    assert "There are no conversations here" in ana.text
    assert [one async for one in memory.conversations("ana")] == []
    [kept] = [one async for one in memory.memories("ana")]
    await ana.open(path)
    assert ana.status == 404
    await ana.open(f"/memories/{kept.id}")
    assert ana.status == 200
    assert "canary:pip" not in ana.text.partition("Why it is known")[2].partition("When it is")[0]


async def test_documents_are_added_found_replaced_and_deleted(
    ana: Visitor, memory: AsyncHitherto
) -> None:
    await ana.open("/documents/new")
    await ana.send(
        "/documents/new", title="Sổ tay <b>", content="Deploy on Tuesdays 🚀", author="Bo"
    )
    assert "Stored." in ana.text
    assert "Deploy on Tuesdays 🚀" in ana.text
    place = ana.url.partition("?")[0].partition("/documents/")[2]
    [job] = [one async for one in memory.jobs("ana")]
    await memory.wait_for_job(job)
    assert "Deploy on Tuesdays" in (await memory.get_context("ana", "When deploy?")).prompt_block
    await ana.open("/documents/new")
    await ana.send("/documents/new", title="Sổ tay <b>", content="Deploy on Fridays.")
    assert ana.url.partition("?")[0].endswith(place)
    assert "Fridays" in ana.text
    assert "Tuesdays" not in ana.text
    await ana.open("/documents")
    assert "1 document " in ana.text
    assert "Sổ tay &lt;b&gt;" in await ana.open("/documents?source=console")
    assert "There are no documents here" in await ana.open("/documents?source=gmail")
    await ana.open(f"/documents/{place}")
    await ana.send(f"/documents/{place}/delete")
    assert "The document is deleted" in ana.text
    await ana.open(f"/documents/{place}")
    assert ana.status == 404
    await memory.update_user_settings("ana", memory_enabled=False)
    await ana.open("/documents/new")
    await ana.send("/documents/new", title="t", content="text")
    assert "memory is switched off" in ana.text


async def test_what_the_assistant_is_told(ana: Visitor, memory: AsyncHitherto) -> None:
    await chat(memory, "c1", "My sister owns a canary:pip")
    await ana.open("/told?q=Which canary is there?")
    block = (await memory.get_context("ana", "Which canary is there?")).prompt_block
    shown = ana.page.partition('<pre class="block"')[2].partition(">")[2].partition("</pre>")[0]
    said = html.unescape(re.sub(r"<[^>]+>", "", shown))
    # The fence is new for every block.
    assert said.splitlines()[1:-1] == block.splitlines()[1:-1]
    assert 'class="score"' in ana.page
    assert re.search(r'<rect class="fill-\w+"', ana.page)
    assert "How it was searched" in ana.text
    await ana.open("/told?q=canary&max_tokens=nonsense")
    assert ana.status == 400


async def test_looking_does_not_count_as_use(ana: Visitor, memory: AsyncHitherto) -> None:
    """D11: counts are written in order, so that one of the console would come first."""
    saved = (await memory.save_memory("ana", "Ana owns a canary.")).memory
    for path in ("/told?q=canary", "/memories?q=canary", f"/memories/{saved.id}", "/timeline"):
        assert "Ana owns a canary." in html.unescape(await ana.open(path))
    await memory.search("ana", "canary")

    counts: list[int] = []

    async def counted() -> bool:
        found = await memory.get_memory("ana", saved.id)
        counts.append(found.access_count if found else 0)
        return counts[-1] > 0

    await eventually(counted, "the count of the search")
    assert counts[-1] == 1


async def test_jobs_that_failed_are_tried_again(
    operator: Visitor, ana: Visitor, memory: AsyncHitherto, model: ScriptedModel
) -> None:
    """All of them by the operator, one of them by its person."""
    # Two questions an attempt, four attempts.
    model.queue(*[ChatAnswer(CONTENT_FAULTS["not_json"])] * 8)
    job = await chat(memory, "c1", "I keep a canary:pip")
    assert job.state == "dead"
    await operator.open("/jobs")
    assert "MODEL_UNUSABLE" in operator.text
    await operator.open("/jobs?state=dead")
    assert "Dead letters" in operator.text
    await operator.send("/jobs/retry-dead")
    assert "Queued again: 1." in operator.text
    assert (await memory.wait_for_job(job, timeout=BOUND)).succeeded
    await operator.open(f"/jobs/{job.id}")
    assert "1 new" in operator.text
    await operator.open("/jobs?state=dead")
    assert "No job has failed for good" in operator.text

    model.queue(*[ChatAnswer(CONTENT_FAULTS["not_json"])] * 8)
    job = await chat(memory, "c2", "I keep a canary:heron")
    await ana.open(f"/jobs/{job.id}")
    await ana.send(f"/jobs/{job.id}/retry")
    assert "Queued again." in ana.text
    await memory.wait_for_job(job, timeout=BOUND)
    await ana.open(f"/jobs/{job.id}")
    assert f"/jobs/{job.id}/retry" not in ana.forms
    token = ana.hidden("/sign-out")
    ana._keep(await ana.http.post(f"/jobs/{job.id}/cancel", data=token))
    assert ana.status == 409
    assert "The job's state does not allow this" in ana.text


async def test_cost_schedules_and_audit_are_for_operators(
    operator: Visitor, ana: Visitor, memory: AsyncHitherto
) -> None:
    await chat(memory, "c1", "I keep a canary:pip")
    await operator.open("/usage?by=kind&by=user")
    assert "memory extraction" in operator.text
    assert "ana" in operator.text
    await operator.open("/schedules")
    assert "Retention" in operator.text
    await operator.open("/audit?user=ana")
    assert "memory-extraction" in operator.text
    # A call is looked for by the name that the table shows.
    await operator.open("/audit?method=AppendMessages")
    assert "There are no such entries." not in operator.text
    assert "memory-extraction" not in operator.text
    for path in ("/usage", "/schedules", "/audit"):
        await ana.open(path)
        assert ana.status == 403, path
    await ana.open("/jobs")
    assert "memory extraction" in ana.text


HOSTILE = ("9999-12-31T23:59:59-14:00", "\x00")
"""A time that is none in UTC, and a character that no text may have."""
LOOKED_AT = {
    "/memories": "q type status source tags entity conversation confidence after before as_of"
    " known_at order page user",
    "/timeline": "user",
    "/conversations": "outcome page",
    "/conversation": "id show",
    "/documents": "source entity page",
    "/profile": "page",
    "/told": "q template max_tokens conversation as_of known_at",
    "/jobs": "state kind page",
    "/usage": "by since until page",
    "/audit": "actor method after before page",
    "/people": "department page",
}
SENT = {
    "/memories/new": "content type importance tags valid_from expires_at detail user",
    "/memories/{memory}/correct": "content type confidence importance tags entities valid_from"
    " valid_to expires_at version detail was",
    "/memories/{memory}/forget": "reason",
    "/profile/edit": "summary current_projects new_group new_key new_value version department was",
    "/settings": "retention_days message_retention_days time_zone was",
    "/conversation/delete": "id",
    "/documents/new": "title author content",
}


async def test_no_field_breaks_a_page(operator: Visitor, memory: AsyncHitherto) -> None:
    """I3: whatever a browser sends, no page fails."""
    saved = (await memory.save_memory("ana", "Ana likes tea.")).memory
    token = operator.hidden("/sign-out")["form_token"]
    seen = set()
    for value in HOSTILE:
        for path, names in LOOKED_AT.items():
            for name in names.split():
                reply = await operator.http.get(path, params={"user": "ana", name: value})
                assert reply.status_code < 500, (path, name, value)
                seen.add(reply.status_code)
        for path, names in SENT.items():
            for name in names.split():
                fields = {"user": "ana", "form_token": token, "memory_enabled": "on", name: value}
                reply = await operator.http.post(path.format(memory=saved.id), data=fields)
                assert reply.status_code < 500, (path, name, value)
                seen.add(reply.status_code)
    assert {200, 400, 422} <= seen
