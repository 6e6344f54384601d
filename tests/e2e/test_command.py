"""The `hitherto` command against real services: requirement G3 for every row of B and C."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hitherto_client.command import main
from tests.e2e.conftest import Services
from tests.e2e.learning import echo


class Typed:
    """The command as somebody types it, at services of a test."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""
        """What the last run wrote to standard error."""

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run it; its standard output."""
        self._capsys.readouterr()
        ended = await asyncio.to_thread(main, arguments)
        out, self.err = self._capsys.readouterr()
        assert ended == code, out + self.err
        return out

    async def json(self, *arguments: str, code: int = 0) -> Any:
        """Run it with --json; the document."""
        return json.loads(await self(*arguments, "--json", code=code))


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in ("API_KEY", "TLS_CA_FILE", "RETRIEVAL_ADDRESS", "EXTRACTION_ADDRESS"):
        monkeypatch.delenv(f"HITHERTO_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return Typed(capsys)


@pytest.fixture
def at(typed: Typed, services: Services, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """The command at services with the offline extractor."""
    return pointed(typed, services, monkeypatch)


@pytest.fixture
def at_model(typed: Typed, modelled: Services, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """The command at services with the scripted model, which repeats what it hears."""
    modelled.model.script = echo
    return pointed(typed, modelled, monkeypatch)


def pointed(typed: Typed, services: Services, monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_API_KEY", services.token)
    return typed


def lines(folder: Path, *records: dict[str, Any], name: str = "lines.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def said(text: str, conversation: str = "c1", user: str = "ana") -> dict[str, Any]:
    messages = [{"id": f"{conversation}-1", "role": "user", "content": text}]
    return {"user_id": user, "conversation_id": conversation, "messages": messages}


async def contents(at: Typed, *options: str, user: str = "ana") -> set[str]:
    listed = await at.json("memories", user, *options)
    return {found["content"] for found in listed["memories"]}


async def test_what_the_rules_cannot_read_is_not_called_nothing(at: Typed, tmp_path: Path) -> None:
    """Somebody who writes German learns why nothing was learnt."""
    german = said("Hallo, ich heiße Jürgen und wohne in München.", user="jürgen")
    assert "nothing new" in await at("submit", lines(tmp_path, german))
    assert "rules for English and Vietnamese" in at.err
    await at("submit", lines(tmp_path, said("Mình sống ở Huế.", user="linh")))
    assert "rules for" not in at.err


async def test_a_memory_from_save_to_restore(at: Typed) -> None:
    """C5, C6: save, the same again, correct, forget, restore, and the history of it all."""
    saved = await at.json("save", "ana", "Ana sống ở Huế.", "--type", "personal", "--tag", "Home")
    memory_id = saved["memory"]["id"]
    assert saved["memory"]["source"] == "MEMORY_SOURCE_EXPLICIT"
    again = await at("save", "ana", "Ana sống ở Huế.", "--type", "personal")
    assert memory_id in again
    assert "already has this memory" in at.err
    version = (await at.json("memory", "ana", memory_id))["memory"]["version"]
    corrected = await at.json(
        *("correct", "ana", memory_id, "Ana sống ở Đà Nẵng.", "--importance", "0.9"),
        *("--clear", "tags", "--version", str(version)),
    )
    assert corrected["memory"]["content"] == "Ana sống ở Đà Nẵng."
    assert corrected["memory"]["importance"] == 0.9
    assert corrected["memory"]["tags"] == []
    await at("correct", "ana", memory_id, "x", "--version", str(version), code=1)
    assert "VERSION_MISMATCH" in at.err
    assert "forgotten" in await at("forget", "ana", memory_id, "--reason", "by mistake")
    assert f"hitherto restore ana {memory_id}" in at.err
    assert await contents(at) == set()
    assert "active" in await at("restore", "ana", memory_id)
    assert await contents(at) == {"Ana sống ở Đà Nẵng."}
    for listed in (await at("search", "ana"), await at("search", "ana", "--explain")):
        assert "score " not in listed, "without a query nothing has one"
        assert "Đà Nẵng" in listed
    # What has expired is stored, and no read shows it.
    await at("correct", "ana", memory_id, "--expires", "2020-01-01")
    assert "expired on 2020-01-01 already" in at.err
    await at("save", "ana", "Ana has a ticket for the ferry.", "--expires", "2020-01-01")
    assert "expired on 2020-01-01 already" in at.err
    assert await contents(at) == set()
    await at("why", "ana", memory_id, "--consistency-token", "made up", code=2)
    assert "consistency_token" in at.err
    await at("changes", "ana", "--after", "made up", "--seconds", "1", code=2)
    assert "go on with" not in at.err, "what was refused is no place to go on from"
    token = saved["consistency_token"]
    assert "Đà Nẵng" in await at("why", "ana", memory_id, "--consistency-token", token)
    await at("search", "ana", "ferry", "--min-score", "0.9")
    assert "--min-score" in at.err
    history = await at("history", "ana", memory_id)
    for part in ("created", "forgotten", "restored", "by mistake", "Huế. → Ana sống ở Đà Nẵng."):
        assert part in history
    await at("memory", "ana", "01890000-0000-7000-8000-000000000000", code=1)


async def test_b16_documents(at: Typed, tmp_path: Path) -> None:
    """Added, the same again, listed, shown, and deleted."""
    path = tmp_path / "Sổ tay.txt"
    path.write_text("Giờ mở cửa: 8 giờ. The bakery opens at eight.", "utf-8")
    mail = {
        "source_type": "gmail",
        "source_id": "m1",
        "content_type": "email",
        "title": "Q4 Planning",
        "metadata": {"from": "Sarah Johnson <sarah@company.com>"},
    }
    mails = lines(tmp_path, mail, name="mails.jsonl")
    assert "2 new" in await at("documents", "add", "ana", str(path), mails)
    again = await at("documents", "add", "ana", str(path), mails)
    assert "2 unchanged" in again
    (found,) = (await at.json("documents", "list", "ana", "--entity", "Sarah Johnson"))["documents"]
    assert found["title"] == "Q4 Planning"
    table = await at("documents", "list", "ana")
    assert "file Sổ tay.txt" in table
    listed = await at.json("documents", "list", "ana", "--source-type", "file")
    document_id = listed["documents"][0]["id"]
    assert "8 giờ" in await at("documents", "show", "ana", document_id)
    assert "deleted:" in await at("documents", "delete", "ana", document_id, "--yes")
    await at("documents", "show", "ana", document_id, code=1)
    assert "DOCUMENT_NOT_FOUND" in at.err
