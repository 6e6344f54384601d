"""What the README shows works as it stands."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Services
from tests.e2e.test_command import Typed, pointed, typed  # noqa: F401 - `typed` is a fixture

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.usefixtures("conninfo")
async def test_the_python_example_runs(services: Services) -> None:
    """As it stands; the services of a test are found through the environment."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        blocks[0],
        env={
            **os.environ,
            "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
            "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    shown = README.read_text("utf-8").partition(blocks[0])[2].split("```text\n")[1].split("```")[0]
    assert timeless(told.decode()) == timeless(shown)


def timeless(block: str) -> str:
    """A block without what differs between any two of them."""
    return re.sub(r"(?<=memory )\w{16}|\d{4}-\d\d-\d\d", "…", block)


def tour() -> list[list[str]]:
    """The commands of the tour, as words."""
    text = (README.parent / "docs/demo.md").read_text("utf-8").partition("## A tour")[2]
    block = text.split("```")[1]
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words for words in lines if words[:1] == ["hitherto"]]


@pytest.mark.usefixtures("conninfo")
async def test_the_tour_shows_what_its_comments_say(
    services: Services,
    typed: Typed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command as it stands, in the order of the page."""
    at = pointed(typed, services, monkeypatch)
    monkeypatch.chdir(README.parent)
    told: dict[str, str] = {}
    for _, *arguments in tour():
        out = await at(*arguments)
        told[shlex.join(arguments)] = out + at.err
    scopes, past, explained = (
        next(text for command, text in told.items() if option in command)
        for option in ("--excerpt", "--as-of", "--explain")
    )
    assert re.search(r"message +Not for me, I'm allergic to hazelnuts", scopes)
    assert "What was said around #1" in scopes
    best, *_ = past.partition("Related to the current message:\n")[2].splitlines()
    assert re.match(r"- User lives in Norwich\. \(2026-08-21 until 2026-10-05, then: ", best)
    assert "Location: Glasgow" not in past
    assert "candidates were scored" in explained
    assert re.search(r"^ *1 +\S+ +decision +User decided to use Iceberg", explained, re.MULTILINE)
    assert "Glasgow" in told[shlex.join(["context", "maren", "Where does she live now?"])]


def test_a_busy_person_finishes_it() -> None:
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert "make demo" in lines[: lines.index("## Use it")]
    assert any(line.startswith("![") for line in lines[:10])


def test_every_linked_file_exists() -> None:
    root = README.parent
    for page in [README, root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
