"""`hitherto export`, `erase`, `reinstate` and `receipt verify` against real services (H2)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from hitherto_client.command import main
from tests.e2e.conftest import Services
from tests.e2e.curating import save
from tests.e2e.test_command import Typed, pointed


@pytest.fixture
def at(
    services: Services, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Typed:
    """The command at services with the offline extractor."""
    monkeypatch.setenv("COLUMNS", "200")
    return pointed(Typed(capsys), services, monkeypatch)


@pytest.mark.usefixtures("conninfo")
async def test_h2_a_person_leaves_and_comes_back(
    at: Typed, services: Services, tmp_path: Path
) -> None:
    """Export, erase, refused, receipt checked, reinstated."""
    await save(services, "The user lives in Huế 🏯.", user="Thảo")
    file, receipt = tmp_path / "thao.jsonl", tmp_path / "receipt.json"
    manifest = await at.json("export", "Thảo", "--output", str(file))
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert len(rows) == sum(map(int, manifest["counts"].values()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await at("export", "Thảo") != ""
    assert "complete" in at.err

    assert "--yes" in (await at("erase", "Thảo", code=2)) + at.err
    shown = await at("erase", "Thảo", "--receipt", str(receipt), "--yes")
    assert "1 memories" in shown
    first = json.loads(receipt.read_text())
    again = await at.json("erase", "Thảo", "--receipt", str(receipt), "--yes")
    assert json.loads(receipt.read_text()) == first == again["receipt"]
    await at("save", "Thảo", "The user lives in Huế.", code=1)
    assert "USER_ERASED" in at.err

    key = str(tmp_path / "data" / "signing_key.pem")
    assert "valid" in await at("receipt", "verify", str(receipt), "--public-key", key)
    assert (await at.json("receipt", "verify", str(receipt)))["trusted_key"] is False

    assert "remembered again" in await at("reinstate", "Thảo")
    assert "not erased" in await at("reinstate", "Thảo")
    await at("save", "Thảo", "The user lives in Đà Nẵng.")


@pytest.mark.usefixtures("conninfo")
async def test_a_receipt_that_was_changed_is_not_valid(
    at: Typed, services: Services, tmp_path: Path
) -> None:
    """In what was signed, in the signature, and in the fields beside it."""
    receipt = tmp_path / "receipt.json"
    await at("erase", "ana", "--receipt", str(receipt), "--yes")
    whole = json.loads(receipt.read_text())
    signed = json.loads(whole["signed_payload"])
    for changed in (
        {"counts": {**whole["counts"], "memories": "7"}},
        {"user_hash": "0" * 64},
        {"key_id": "0" * 16},
        {"signature": "AAAA"},
        {"signed_payload": json.dumps({**signed, "counts": {}})},
        {"signed_payload": "{}"},
    ):
        receipt.write_text(json.dumps({**whole, **changed}))
        await at("receipt", "verify", str(receipt), code=1)
    receipt.write_text(json.dumps(whole))
    (tmp_path / "other").mkdir()
    await at("receipt", "verify", str(receipt), "--public-key", str(tmp_path / "none"), code=2)
    for text in ("", "[]", "{}", '{"signature": "?", "signed_payload": ""}'):
        receipt.write_text(text)
        await at("receipt", "verify", str(receipt), code=2)


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_file())


async def test_an_export_goes_through_a_pipe_and_a_link(at: Typed, tmp_path: Path) -> None:
    """Neither is replaced by a file: the reader waits at the pipe, the link stands for a place."""
    await at("save", "ana", "Ana likes tea.")
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target.jsonl"
    os.mkfifo(pipe)
    read = asyncio.create_task(asyncio.to_thread(pipe.read_text))
    await at("export", "ana", "--output", str(pipe))
    assert "Ana likes tea." in await read
    assert pipe.is_fifo()
    link.symlink_to(target)
    await at("export", "ana", "--output", str(link))
    assert link.is_symlink()
    assert "Ana likes tea." in target.read_text()
    assert files(tmp_path) == ["link", "target.jsonl"]


async def test_nothing_half_is_left_in_the_place_of_an_export(
    at: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that is not there leaves the earlier file as it was, and no other."""
    file = tmp_path / "ana.jsonl"
    file.write_text("earlier")
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", "127.0.0.1:1")
    await at("export", "ana", "--output", str(file), code=3)
    assert files(tmp_path) == ["ana.jsonl"]
    assert file.read_text() == "earlier"
    await at("export", "ana", "--output", str(tmp_path / "no" / "folder"), code=2)
    assert main(["export", "ana", "--json"]) == 2
