"""What two guides show runs: the snippets of docs/how-to.md and docs/python-client.md."""

from __future__ import annotations

import asyncio
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hitherto_client import Hitherto
from hitherto_client.command.run import build_parser
from tests.e2e.conftest import Services

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to.md").read_text("utf-8")
# Fences come in pairs: language and text of a block are two parts of every four.
PARTS = re.split(r"^```(\w*)\n", PAGE, flags=re.MULTILINE)[1:]
BLOCKS = list(zip(PARTS[::4], PARTS[1::4], strict=True))
TYPED = [line for language, block in BLOCKS if not language for line in block.splitlines()]
IN_TEXT = re.findall(r"`((?:hitherto|make) [^`]+)`", PAGE)


PRINTED = {
    "how-to.md": [
        *("Ana lives in Oslo.", "1 conversations imported", "1 memories imported"),
        *("Ana prefers window seats.", "The data team deploys on Tuesdays."),
        *("dollars today", "rows removed"),
    ],
    "python-client.md": [
        *("Ana lives in Porto.", "succeeded", "short answers", "forgotten"),
        *("rows are gone for good", "USER_ERASED None", "Rui plays chess."),
    ],
}


@pytest.mark.parametrize("page", PRINTED)
async def test_the_snippets_run(
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: str,
) -> None:
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_TOKEN", services.token)
    text = (ROOT / "docs" / page).read_text("utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    names: dict[str, Any] = {"__name__": "snippets"}
    try:
        await asyncio.to_thread(exec, compile(program, f"docs/{page}", "exec"), names)
    finally:
        if "m" in names:
            names["m"].close()
    out = capsys.readouterr().out
    for told in PRINTED[page]:
        assert told in out
    # What was corrected is not told any more.
    assert ("Ana lives in Porto." in out) is (page == "python-client.md")


def test_the_page_about_the_client_names_every_method() -> None:
    table = (ROOT / "docs/python-client.md").read_text("utf-8").partition("## All methods")[2]
    methods = {name for name in dir(Hitherto) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", table)) >= methods - {"close", "connection", "has_credential"}


def test_what_is_typed_or_named_exists() -> None:
    for line in TYPED:
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        command, *arguments = words
        if command == "hitherto":
            build_parser(arguments[0]).parse_args(arguments)
        elif command == "python":
            assert arguments[0] == "-m"
            assert find_spec(f"{arguments[1]}.__main__") is not None
        else:
            assert command == "export"
            assert arguments[0].partition("=")[0] in (ROOT / "docs/configuration.md").read_text()
    for line in IN_TEXT:
        command, name, *_ = line.split()
        if command == "make":
            assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        else:
            assert name in build_parser(name).format_help()


def test_each_question_is_answered_with_something_to_run() -> None:
    listed = re.findall(r"^- \[(.+)\]\(#", PAGE, re.MULTILINE)
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    assert [section.partition("\n")[0] for section in sections] == listed
    assert all("```" in section for section in sections)
