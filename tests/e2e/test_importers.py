"""Exports of other products, imported by the command: whole, once, with their times and sources."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hitherto_client import AsyncHitherto
from hitherto_client.importers import ExportReport, ExportUnreadable, read_export
from hitherto_client.results import Memory
from tests.e2e.conftest import Services
from tests.e2e.test_command import Typed, pointed, typed  # noqa: F401 - `typed` is a fixture
from tests.growth import filled, more_than_linear
from tests.refusing import refusing
from tests.waiting import eventually

DAY = "2026-03-01"


def chatgpt_conversation(number: int) -> dict[str, Any]:
    """A conversation as ChatGPT exports it: hidden start, edited question, picture, tool."""

    def node(name: str, parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
        kind = more.pop("content_type", "text")
        message = {
            "id": f"{number}-{name}",
            "author": {"role": role},
            "create_time": 1_767_225_600.0 + 86_400 * number + len(name),
            "content": {"content_type": kind, "parts": list(parts)},
            "metadata": more,
        }
        return {"id": name, "message": message, "parent": parent, "children": []}

    mapping = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["system"]},
        "system": node("system", "root", "system", "", is_visually_hidden_from_conversation=True),
        "old": node("old", "system", "user", "What is the capital of Peru?"),
        "question": node("question", "system", "user", f"I live in Đà Nẵng, house {number} 🏡."),
        "thought": node("thought", "question", "assistant", "hm", content_type="thoughts"),
        "tool": node("tool", "thought", "tool", "search results"),
        "answer": node("answer", "tool", "assistant", f"Noted: house {number}."),
        "picture": node(
            "picture",
            "answer",
            "user",
            {"content_type": "image_asset_pointer"},
            "I am allergic to peanuts.",
            content_type="multimodal_text",
        ),
    }
    return {
        "title": f"House {number}",
        "create_time": 1_767_225_600.0 + 86_400 * number,
        "conversation_id": f"c{number}",
        "mapping": mapping,
        "current_node": "picture",
    }


def chatgpt_export(folder: Path, count: int) -> Path:
    archive = folder / "chatgpt.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        conversations = [chatgpt_conversation(number) for number in range(count)]
        files.writestr("conversations.json", json.dumps(conversations))
        files.writestr("user.json", "{}")
    return archive


def records(
    source: str, path: Path, report: ExportReport | None = None, **options: Any
) -> list[dict[str, Any]]:
    return list(read_export(source, path, report or ExportReport(), **options))


@pytest.fixture
def at(typed: Typed, services: Services, monkeypatch: pytest.MonkeyPatch) -> Typed:  # noqa: F811
    """The command at services with the offline extractor."""
    return pointed(typed, services, monkeypatch)


async def known(memory: AsyncHitherto, user: str) -> dict[str, Memory]:
    """What is known of somebody, by its words."""
    return {each.content: each async for each in memory.memories(user)}


async def learnt(memory: AsyncHitherto, user: str) -> None:
    """Until everything that was said has been learnt from."""
    for job in [each async for each in memory.jobs(user)]:
        await memory.wait_for_job(job, timeout=120)


def written(folder: Path, content: Any, name: str = "export.json") -> Path:
    """An export that holds this as JSON."""
    (folder / name).write_text(json.dumps(content))
    return folder / name


def claude(*messages: dict[str, Any]) -> list[Any]:
    """A conversation as Claude exports it."""
    said = [{"uuid": f"m{n}", "sender": "human", **one} for n, one in enumerate(messages)]
    return [{"uuid": "u1", "name": "x", "chat_messages": said}]


async def test_chatgpt(at: Typed, memory: AsyncHitherto, tmp_path: Path) -> None:
    archive = chatgpt_export(tmp_path, 3)
    found = (await at.json("import", "--from", "chatgpt", "--user", "ana", str(archive)))["files"]
    assert [(each["kind"], each["accepted"]) for each in found] == [("transcripts", 3)]
    kept = await memory.get_conversation("ana", "chatgpt:c1")
    assert kept is not None
    assert [(message.role, message.content) for message in kept.messages] == [
        ("user", "I live in Đà Nẵng, house 1 🏡."),
        ("assistant", "Noted: house 1."),
        ("user", "I am allergic to peanuts."),
    ]
    assert kept.messages[0].created_at is not None
    assert kept.messages[0].created_at.date().isoformat() == "2026-01-02"
    assert kept.messages[0].metadata == {"imported_from": "chatgpt", "title": "House 1"}

    # A second time, nothing changes and nothing is doubled.
    await at("import", "--from", "chatgpt", "--user", "ana", str(archive))
    again = await memory.get_conversation("ana", "chatgpt:c1")
    assert again is not None
    assert [message.id for message in again.messages] == [message.id for message in kept.messages]


async def test_a_chat_that_grows_into_several_requests_is_stored_once(
    at: Typed, memory: AsyncHitherto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids that the service derives are those of the parts, also of equal messages."""
    said = [
        {"role": "user", "content": "ok"},
        {"role": "user", "content": "ok"},
        {"role": "user", "content": "Cafe\u0301 “Huế” 🏡", "name": "Zoe\u0308"},
        {"role": "user", "content": "ok", "created_at": "2026-03-01T10:00:00.5Z"},
        {"role": "user", "content": "Cafe\u0301 “Huế” 🏡", "name": "Zoe\u0308"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "The password is hunter2hunter2."},
        {"role": "user", "content": "ok", "created_at": "2026-03-01T10:00:00.5Z"},
        {"role": "user", "content": "ok"},
    ]
    talk = {"user_id": "ana", "conversation_id": "cafe\u0301"}
    for most, added in ((100, []), (4, []), (2, [{"role": "user", "content": "ok"}])):
        monkeypatch.setattr("hitherto_client.batches.MAX_MESSAGES", most)
        said += added
        await at("import", str(written(tmp_path, talk | {"messages": said}, "chat.jsonl")))
        kept = await memory.get_conversation("ana", "café")
        assert kept is not None
        assert [one.role for one in kept.messages] == [one["role"] for one in said], most


async def test_a_dry_run_counts_and_estimates_and_sends_nothing(
    typed: Typed,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", "127.0.0.1:1")
    archive = chatgpt_export(tmp_path, 40)
    arguments = ("import", "--from", "chatgpt", "--user", "ana", "--dry-run", str(archive))
    plan = await typed.json(*arguments, "--price", "1,2")
    assert (plan["conversations"], plan["messages"], plan["messages_of_the_user"]) == (40, 120, 80)
    assert plan["first"].startswith("2026-01-01")
    tokens = plan["estimated_input_tokens"], plan["estimated_output_tokens"]
    assert 40 * 2_200 < tokens[0] < 40 * 2_300
    assert plan["estimated_usd"] == pytest.approx((tokens[0] + 2 * tokens[1]) / 1e6, abs=1e-4)
    told = await typed(*arguments)
    assert "40 conversations with 120 messages" in told
    assert "nothing was sent" in told


async def test_claude(tmp_path: Path) -> None:
    message = {
        "text": "ignored if there are parts",
        "content": [{"type": "text", "text": "أعيش في القاهرة"}, {"type": "tool_use", "input": {}}],
        "created_at": "2026-03-01T10:00:00.5Z",
        "attachments": [{"extracted_content": "secret"}],
    }
    old = {"sender": "assistant", "text": "حسنا", "created_at": "not a time"}
    given = claude(message, old)
    given[0]["chat_messages"] += [7, {}]
    (found,) = records("claude", written(tmp_path, given))
    assert found["conversation_id"] == "claude:u1"
    # What has no time of its own was said when its neighbour was.
    assert [(one["role"], one["content"], one["created_at"]) for one in found["messages"]] == [
        ("user", "أعيش في القاهرة", "2026-03-01T10:00:00.500000Z"),
        ("assistant", "حسنا", "2026-03-01T10:00:00.500000Z"),
    ]


IPHONE = """\
\u200e[21.08.26, 14:30:05] Ana & Bo: \u200eMessages and calls are end-to-end encrypted.
[21.08.26, 14:30:05] Ana: Chào Bo!
Tôi sống ở Huế.
[21.08.26, 14:31:00] Bo: \u200eimage omitted
[21.08.26, 14:31:10] Bo: ok: fine
[21.08.26, 14:31:10] Bo: ok: fine
[22.08.26, 09:00:00] Ana: Good morning
"""


async def test_whatsapp_tells_noon_from_midnight(tmp_path: Path) -> None:
    chat = tmp_path / "WhatsApp Chat with Bo.txt"
    times = {"12:05 AM": "00:05", "1:00 AM": "01:00", "12:00 PM": "12:00", "1:00 PM": "13:00"}
    chat.write_text("".join(f"8/21/26, {time} - Bo: x\n" for time in times))
    found = records("whatsapp", chat, me="bo", dates="month")
    said = [one["created_at"][11:16] for each in found for one in each["messages"]]
    assert said == list(times.values())


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is seven hours ahead of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Ho_Chi_Minh")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
async def test_a_time_without_an_offset_is_not_the_machine_s(tmp_path: Path) -> None:
    times = ("2026-03-01T10:00:00", "2026-03-01T10:00:00+02:00", "2026-03-01T10:00:00Z")
    said = claude(*({"text": f"Note {at}.", "created_at": at} for at in times))
    (found,) = records("claude", written(tmp_path, said))
    assert [one["created_at"][11:13] for one in found["messages"]] == ["10", "08", "10"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
async def test_whatsapp_of_an_iphone(tmp_path: Path, ending: str) -> None:
    chat = tmp_path / "WhatsApp Chat with Bo.txt"
    chat.write_bytes(IPHONE.replace("\n", ending).encode())
    first, second = records("whatsapp", chat, me="ana")
    assert first["conversation_id"] == "whatsapp:Bo:2026-08-21T14:30"
    assert [(one.get("name"), one["content"]) for one in first["messages"]] == [
        (None, "Chào Bo!\nTôi sống ở Huế."),
        ("Bo", "ok: fine"),
        ("Bo", "ok: fine"),
    ]
    # The same words at the same moment are still two messages.
    assert len({one["id"] for one in first["messages"]}) == len(first["messages"])
    assert [one["content"] for one in second["messages"]] == ["Good morning"]
    assert records("whatsapp", chat, me="Ana") == [first, second]


async def test_what_others_say_in_whatsapp_is_not_known_of_the_user(
    at: Typed, memory: AsyncHitherto, tmp_path: Path
) -> None:
    chat = tmp_path / "WhatsApp Chat with Eva.txt"
    chat.write_text(
        "14/03/26, 21:14 - Eva: I live in Hamburg.\n"
        "14/03/26, 21:15 - Ana: I live in Leipzig. I work as a cook.\n"
        "14/03/26, 21:16 - Eva: I work as a nurse. I moved to Bremen last week.\n"
    )
    command = ("--from", "whatsapp", "--me", "Ana", "--dates", "day", "--user", "u1", str(chat))
    plan = await at.json("import", "--dry-run", *command)
    assert (plan["messages"], plan["messages_of_the_user"]) == (3, 1)
    for new in (1, 0):
        told = await at("import", *command)
        assert told.splitlines()[-1].split()[-3:] == [str(new), str(1 - new), "0"]
        assert ("read in the background" in at.err) is bool(new)
    await learnt(memory, "u1")
    profile = await memory.get_profile("u1")
    (held,) = [each async for each in memory.conversations("u1")]
    # No words of Eva's run into the user's.
    assert "; User " in held.summary
    assert profile is not None
    assert profile.facts == {"personal": {"location": "Leipzig", "occupation": "cook"}}
    found = set(await known(memory, "u1"))
    assert {"User lives in Leipzig.", "User works as a cook.", "Eva works as a nurse."} <= found


async def test_whatsapp_is_read_in_the_time_zone_of_the_user(
    at: Typed, memory: AsyncHitherto, tmp_path: Path
) -> None:
    chat = tmp_path / "WhatsApp Chat with Eva.txt"
    chat.write_text("14/03/26, 21:14 - Ana: Hello Eva\n")
    command = ("--from", "whatsapp", "--me", "Ana", "--dates", "day", "--user", "u1", str(chat))
    await memory.update_user_settings("u1", time_zone="Asia/Ho_Chi_Minh")
    for more, zone, began in (
        ([], "Asia/Ho_Chi_Minh", "2026-03-14T14:14"),
        (["--time-zone", "Europe/Berlin"], "", "2026-03-14T20:14"),
    ):
        await at("import", *command, *more)
        assert (f"times are read in the user's time zone, {zone};" in at.err) is bool(zone)
        assert await memory.get_conversation("u1", f"whatsapp:Eva:{began}") is not None, more
    await at("import", *command, "--time-zone", "Mars/Olympus", code=2)
    assert "there is no time zone 'Mars/Olympus'" in at.err
    await at("import", *command, "--dry-run")
    assert "times are read in UTC here, and by the import in the user's" in at.err


async def test_whatsapp_asks_where_it_would_have_to_guess(tmp_path: Path) -> None:
    chat = tmp_path / "chat.txt"
    chat.write_text("01/02/26, 10:00 - Ana: Hello\n")
    with pytest.raises(ExportUnreadable, match="--dates"):
        records("whatsapp", chat, me="Ana")
    (found,) = records("whatsapp", chat, me="Ana", dates="month")
    assert found["messages"][0]["created_at"].startswith("2026-01-02")
    with pytest.raises(ExportUnreadable, match="--me is one of Ana"):
        records("whatsapp", chat, me="Zoe", dates="day")


MEM0: list[dict[str, Any]] = [
    {
        "memory": "Ana parks in garage B.",
        "id": "1",
        "user_id": "ana",
        "expiration_date": "2030-12-31",
        "categories": ["health"],
        "created_at": "2026-01-05T10:00:00-08:00",
        "metadata": {"app": "x"},
    },
    {"memory": "Ana had a cold.", "user_id": "ana", "expiration_date": "2026-01-31"},
    {"memory": "Ana waits.", "user_id": "ana", "expiration_date": "2030-12-31T08:00:00+08:00"},
    {"memory": "Ana stays.", "user_id": "ana", "expiration_date": None},
    {"memory": "   ", "user_id": "ana"},
    {"memory": "Bob hates cilantro.", "user_id": "bob"},
    {"memory": "Somebody likes tea.", "agent_id": "sam"},
]


async def test_mem0(at: Typed, memory: AsyncHitherto, tmp_path: Path) -> None:
    export = written(tmp_path, {"results": MEM0[:5]})
    await at("import", "--from", "mem0", "--user", "u1", str(export))
    found = await known(memory, "u1")
    # A day is over when it ends.
    assert {content: str(one.expires_at) for content, one in found.items()} == {
        "Ana parks in garage B.": "2031-01-01 00:00:00+00:00",
        "Ana waits.": "2030-12-31 00:00:00+00:00",
        "Ana stays.": "None",
    }
    garage = found["Ana parks in garage B."]
    assert (garage.source, garage.tags) == ("inference", ("health",))
    assert garage.metadata == {"imported_from": "mem0", "mem0_id": "1", "app": "x"}
    assert str(garage.valid_from).startswith("2026-01-05 18:00")


async def test_the_memories_of_several_people_are_never_those_of_one(
    at: Typed, memory: AsyncHitherto, tmp_path: Path
) -> None:
    export = str(written(tmp_path, {"results": MEM0}))
    for trial in (["--dry-run"], []):
        command = ("import", "--from", "mem0", "--user", "u1", *trial, export)
        await at(*command, code=2)
        told = 'several people, such as "ana", "bob": name the one who is meant with --me'
        assert told in at.err
        await at(*command, "--me", "Bob", code=2)
        assert 'names nobody "Bob", but "ana", "bob"' in at.err
        told = await at(*command, "--me", "bob")
        assert "5 records are of other people: left out" in told + at.err
        found = set(await known(memory, "u1"))
        assert found == (set() if trial else {"Bob hates cilantro.", "Somebody likes tea."})


async def test_one_member_of_an_organisation_and_one_namespace(tmp_path: Path) -> None:
    talk = {"chat_messages": [{"sender": "human", "text": "x", "created_at": DAY}]}
    file = written(
        tmp_path, [{"uuid": f"u{n}", "account": {"uuid": f"a{n}"}, **talk} for n in (1, 2)]
    )
    with pytest.raises(ExportUnreadable, match="several people"):
        records("claude", file)
    (found,) = read_export("claude", file, ExportReport(), me="a2")
    assert found["conversation_id"] == "claude:u2"

    items = [{"namespace": ["memories", who], "value": {"text": who}} for who in ("ana", "bob")]
    store = tmp_path / "store.jsonl"
    store.write_text("\n".join(map(json.dumps, items)))
    assert len(records("langgraph", store)) == 2
    (item,) = read_export("langgraph", store, ExportReport(), me="bob")
    assert item["content"] == "bob"


async def test_an_export_of_another_product_is_recognised(tmp_path: Path) -> None:
    """Only where times would be lost."""
    for name, product, held in (
        ("chatgpt", "mem0", MEM0[0]),
        ("hindsight", "mem0", {"memory": "x", "user_id": "ana", "created_at": DAY}),
        ("mem0", "hindsight", {"id": "f", "text": "x", "type": "world", "mentioned_at": DAY}),
        ("hindsight", "letta", {"id": "p", "text": "x", "tags": ["a"], "created_at": DAY}),
    ):
        file = written(tmp_path, [held, held])
        told = f"it looks like --from .*{product}"
        with pytest.raises(ExportUnreadable, match=told), refusing(name):
            records(name, file)
        first, _ = records(product, file)
        assert first["valid_from"]
        file = written(tmp_path, [{key: value for key, value in held.items() if value != DAY}])
        records(product, file)


async def test_langgraph(tmp_path: Path) -> None:
    items = [
        {"namespace": ["ana", "facts"], "key": "k1", "value": {"text": "Likes jazz"}},
        {"namespace": ["ana"], "key": "k2", "value": {"language": "vi", "level": 2}},
        {"namespace": ["ana"], "key": "k3", "value": {}},
    ]
    lines = tmp_path / "store.jsonl"
    lines.write_text("\n".join(map(json.dumps, items)))
    found = records("langgraph", lines)
    assert [one["content"] for one in found] == ["Likes jazz", 'k2: {"language": "vi", "level": 2}']
    assert found[0]["metadata"]["namespace"] == ["ana", "facts"]


async def test_letta(at: Typed, memory: AsyncHitherto, tmp_path: Path) -> None:
    messages = [
        {"id": "m0", "role": "system", "content": "You are Sam."},
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"id": "m2", "role": "assistant", "text": "Hello Ana"},
    ]
    blocks = [
        {"label": "persona", "value": "I am Sam."},
        {"label": "human", "value": "Her name is Ana.\n- Ana likes cycling."},
    ]
    agents = [{"id": "agent-1", "created_at": DAY, "messages": messages}]
    agent = written(tmp_path, {"blocks": blocks, "agents": agents}, "helper.af")
    found = (await at.json("import", "--from", "letta", "--user", "ana", str(agent)))["files"]
    assert [(each["kind"], each["accepted"]) for each in found] == [
        ("memories", 2),
        ("transcripts", 1),
    ]
    assert {"Her name is Ana.", "Ana likes cycling."} <= set(await known(memory, "ana"))
    kept = await memory.get_conversation("ana", "letta:agent-1")
    assert kept is not None
    assert [message.content for message in kept.messages] == ["Hi", "Hello Ana"]


async def test_of_letta_s_messages_what_was_said_is_imported(tmp_path: Path) -> None:
    def told(kind: str, **more: str) -> dict[str, Any]:
        wrapped = json.dumps({"type": kind, **more, "time": "2026-03-01 10:00:00 AM UTC+0000"})
        return {"role": "user", "content": [{"type": "text", "text": wrapped}]}

    def called(name: str, arguments: str) -> dict[str, Any]:
        call = {"id": "t", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"role": "assistant", "content": "I should answer.", "tool_calls": [call]}

    said = [
        told("login", last_login="Never (first login)"),
        told("user_message", message="Tôi sống ở Huế.", name="Ana"),
        called("archival_memory_search", '{"query": "Huế"}'),
        {"role": "tool", "content": '{"status": "OK"}'},
        called("send_message", '{"message": "Chào Ana!"}'),
        told("heartbeat", reason="Automated timer"),
        called("send_message", '{"message": "Are'),
        told("system_alert", message="Note: prior messages have been hidden."),
        {"role": "user", "content": '{"type": "order", "time": "now"}'},
        {"role": "assistant", "content": "Without a tool."},
    ]
    agent = {"agents": [{"id": "a", "created_at": DAY, "messages": said}]}
    (found,) = records("letta", written(tmp_path, agent))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("user", "Tôi sống ở Huế."),
        ("assistant", "Chào Ana!"),
        ("user", '{"type": "order", "time": "now"}'),
        ("assistant", "Without a tool."),
    ]


async def test_hindsight(tmp_path: Path) -> None:
    fact = {
        "id": "a1",
        "text": "Alice works at Google",
        "type": "world",
        "entities": ["Alice", "Google"],
        "occurred_start": None,
        "mentioned_at": "2026-02-03T04:05:06+00:00",
    }
    (found,) = records("hindsight", written(tmp_path, {"items": [fact], "total": 1}))
    assert (found["content"], found["valid_from"]) == (fact["text"], "2026-02-03T04:05:06Z")
    assert found["keywords"] == ["Alice", "Google"]
    assert found["metadata"]["fact_type"] == "world"


async def test_what_was_exported_comes_back_after_an_erasure(
    at: Typed, memory: AsyncHitherto, tmp_path: Path
) -> None:
    """Words, times and what was saved by hand; what follows from them is learnt again."""
    said = [{"role": "user", "content": text} for text in ("I live in Porto.", "Chào 🐈")]
    await memory.add("ana", said, conversation="c1")  # type: ignore[arg-type]
    await memory.wait_for_job(await memory.end_conversation("ana", "c1"), timeout=120)
    await memory.save_memory("ana", "Ana plays the cello.", tags=["music"])
    before = await contents(memory)
    export = tmp_path / "ana.jsonl"
    await at("export", "ana", "--output", str(export))
    await at("erase", "ana", "--yes", "--receipt", str(tmp_path / "receipt.json"))
    await at("reinstate", "ana")
    await at("import", "--from", "hitherto", "--user", "ana", str(export))
    await learnt(memory, "ana")
    assert await contents(memory) == before


async def contents(memory: AsyncHitherto) -> tuple[list[tuple[str, str]], list[str]]:
    """What is kept of Ana: messages with their times, and memories."""
    conversation = await memory.get_conversation("ana", "c1")
    assert conversation is not None
    said = [(one.content, str(one.created_at)) for one in conversation.messages]
    return said, sorted(await known(memory, "ana"))


GARBAGE = ["", "{", '[{"mapping": 3}', "\x00\x01", "<html>", '["x"]', "[" * 100_000]


@pytest.mark.parametrize("source", ["chatgpt", "mem0", "letta", "hitherto", "whatsapp"])
async def test_what_is_no_export_is_refused_with_a_sentence(
    typed: Typed,  # noqa: F811
    tmp_path: Path,
    source: str,
) -> None:
    file = tmp_path / "export.json"
    for text in GARBAGE:
        file.write_text(text)
        arguments = ("import", "--from", source, "--user", "ana", "--dry-run", str(file))
        if source != "whatsapp" and not text:
            await typed(*arguments)
            continue
        await typed(*arguments, code=2)
        assert str(file) in typed.err, text[:20]
        assert "Traceback" not in typed.err, text[:20]


STRANGE = [
    {"mapping": {"a": 7, "b": {"message": {"content": {"content_type": "text", "parts": "x"}}}}},
    {"mapping": {"a": {"parent": "a", "message": {}}}, "current_node": "a"},
    {"chat_messages": [{"sender": ["human"], "content": "x"}], "uuid": 5},
    {"results": {"memory": 3}, "memory": {"x": 1}, "created_at": 1e400},
    {"agents": [{"messages": {"role": "user"}}], "blocks": [{"label": 1, "value": None}]},
    {"mapping": {"a": {"message": {"content": {"content_type": ["text"]}}}}, "current_node": "a"},
    {"table": "messages", "row": {"content": None}},
    {"table": "memories", "row": {"source": "explicit", "status": {}, "content": "x"}},
    {"namespace": 3, "value": "text", "key": None},
]


KNOWN = [
    chatgpt_conversation(0),
    {"uuid": "u", "chat_messages": [{"sender": "human", "text": "x", "created_at": DAY}]},
    {"memory": "x", "text": "x", "value": {"text": "x"}},
    {"table": "memories", "row": {"source": "explicit", "status": "active", "content": "x"}},
]


async def test_values_of_other_types_harm_nothing(tmp_path: Path) -> None:
    # One record that is known: without any, the file would be refused.
    file = written(tmp_path, [*STRANGE, *KNOWN])
    for source in ("chatgpt", "claude", "mem0", "letta", "langgraph"):
        found = records(source, file)
        assert found, source
        for record in found:
            assert "messages" in record or isinstance(record["content"], str)


async def test_a_long_message_becomes_several_and_keeps_every_word(tmp_path: Path) -> None:
    """Also of halves of an emoji, which JSON may hold and UTF-8 may not."""
    words = [f"từ{n}🐈" for n in range(20_000)]
    for text, expected in (
        (" ".join(words), words),
        ("\ud83d" * 30_000 + " đủ", ["\ufffd" * 30_000, "đủ"]),
    ):
        file = written(tmp_path, claude({"text": text, "created_at": DAY}))
        (found,) = records("claude", file)
        pieces = [one["content"] for one in found["messages"]]
        assert max(len(piece.encode()) for piece in pieces) <= 60_000
        assert "".join(" ".join(pieces).split()) == "".join(expected)
        assert len({one["id"] for one in found["messages"]}) == len(pieces) > 1


def _one_message(length: int) -> list[Any]:
    return claude({"text": filled("từ ", length), "created_at": DAY})


LARGE: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "one message": ("claude", 8 << 20, lambda length: json.dumps(_one_message(length))),
    "many values": (
        "mem0",
        1 << 18,
        lambda length: f'[{filled("{},", length // 3 * 3)}{{"memory": "x"}}]',
    ),
    "blanks": ("mem0", 16 << 20, lambda length: f"[{' ' * length}]"),
    "one line": ("whatsapp", 12 << 20, lambda length: "01/02/2026, 14:30 - A: " + "a" * length),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_large_exports_take_time_in_proportion(tmp_path: Path, kind: str) -> None:
    source, length, text = LARGE[kind]
    file = tmp_path / "export.json"
    options: dict[str, Any] = {"me": "A", "dates": "day"} if source == "whatsapp" else {}

    def read(content: str) -> None:
        file.write_text(content)
        records(source, file, **options)

    assert more_than_linear(read, text, length) is None


DAMAGE: dict[str, tuple[dict[int, int], dict[int, int]]] = {
    "encrypted": ({6: 1}, {8: 1}),
    "packed in another way": ({8: 99}, {10: 99}),
    "of a later version": ({}, {6: 250}),
    "of another directory": ({}, {0: 0}),
    "of another checksum": ({}, {16: 0}),
    "damaged": (dict.fromkeys(range(200, 208), 255), {}),
}
"""Bytes of the header of the archive's first file, and of the directory at its end."""


async def test_values_that_are_no_records_are_counted_and_stop_nothing(
    at: Typed, memory: AsyncHitherto, tmp_path: Path
) -> None:
    odd = [None, 5, "\ud83d", [1], True]
    file = written(tmp_path, [None, chatgpt_conversation(0), *odd, chatgpt_conversation(1)])
    arguments = ("import", "--from", "chatgpt", "--user", "ana", str(file))
    plan = await at.json(*arguments, "--dry-run")
    assert (plan["conversations"], plan["empty_records"]) == (2, 6)
    await at(*arguments)
    assert "6 records hold nothing that is imported" in at.err
    assert await memory.get_conversation("ana", "chatgpt:c1") is not None
    report = ExportReport()
    page = written(tmp_path, {"results": [{"memory": "Ana lives in Rome."}, None, "x"]})
    assert [each["content"] for each in records("mem0", page, report)] == ["Ana lives in Rome."]
    assert report.empty == 2


async def test_an_archive_that_cannot_be_unpacked_is_named(
    typed: Typed,  # noqa: F811
    tmp_path: Path,
) -> None:
    file = chatgpt_export(tmp_path, 20)
    whole = file.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    for fault, (header, entry) in DAMAGE.items():
        changed = bytearray(whole)
        for at, value in (*header.items(), *((directory + n, to) for n, to in entry.items())):
            changed[at] = value
        assert changed != whole, fault
        file.write_bytes(changed)
        await typed("import", "--from", "chatgpt", "--user", "ana", "--dry-run", str(file), code=2)
        assert f"{file} cannot be unpacked" in typed.err, fault


async def test_lists_are_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece may end anywhere: in a number, in an escape, in a character."""
    wanted = ['a\\b"c', "Huế 🏡", "é" * 50, "1", "[{}]"]
    items = [{"memory": text} for text in wanted]
    file = tmp_path / "mem0.json"
    for size in (1, 7, 1 << 20):
        monkeypatch.setattr("hitherto_client.importers.reading._PIECE_CHARACTERS", size)
        for text in (
            json.dumps(items, ensure_ascii=False),
            json.dumps(items),
            "\n".join(map(json.dumps, items)),
        ):
            file.write_text(text, "utf-8")
            assert [one["content"] for one in records("mem0", file)] == wanted, size


@pytest.mark.faults
@pytest.mark.timeout(600)
async def test_a_large_import_survives_an_interruption(
    services: Services, memory: AsyncHitherto, tmp_path: Path
) -> None:
    archive = chatgpt_export(tmp_path, 100)
    program = "import sys; from hitherto_client.command import main; sys.exit(main())"
    command = (
        *(sys.executable, "-c", program, "import", "--from", "chatgpt"),
        *("--user", "ana", "--json", str(archive)),
    )
    environment = {
        **os.environ,
        "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
        "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
        "HITHERTO_API_KEY": services.token,
    }

    async def importing() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    first = await importing()

    async def begun() -> bool:
        return await memory.get_conversation("ana", "chatgpt:c20") is not None

    await eventually(begun, "the import to be under way", seconds=240)
    first.send_signal(signal.SIGINT)
    _, complaints = await first.communicate()
    if first.returncode:
        assert "importing the same files again does no harm" in complaints.decode()
    second = await importing()
    printed, complaints = await second.communicate()
    assert second.returncode == 0, complaints.decode()
    assert json.loads(printed)["files"][0]["accepted"] == 100
    for number in (0, 20, 99):
        kept = await memory.get_conversation("ana", f"chatgpt:c{number}")
        assert kept is not None
        assert len(kept.messages) == 3
