"""The walk through encryption in docs/privacy.md works as it stands (H3)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hitherto_extraction.curation.user_settings import NAMES
from hitherto_retrieval.storage import sealed_items
from tests.e2e.conftest import StartServices
from tests.e2e.sealing import ENCRYPTING, dump, holding, key_files
from tests.e2e.test_command import Typed, pointed, typed  # noqa: F401 - `typed` is a fixture

PAGE = (Path(__file__).parents[2] / "docs/privacy.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


async def test_the_walk_through_encryption(
    start_services: StartServices,
    superuser_conninfo: str,
    tmp_path: Path,
    typed: Typed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command as it stands; after each, a dump tells nothing of what is sealed."""
    (walk,) = re.findall(r"```\n(hitherto .*?)```", section("Encryption"), re.DOTALL)
    lines = [line.partition("#") for line in walk.splitlines()]
    assert len(lines) > 5
    monkeypatch.chdir(tmp_path)
    async with start_services(**ENCRYPTING) as services:
        at = pointed(typed, services, monkeypatch)
        for command, _, comment in lines:
            name, *arguments = shlex.split(command)
            assert name == "hitherto"
            told = await at(*arguments)
            if comment:
                what, _, text = comment.strip().partition(": ")
                assert what == "shows", comment
                assert text in told, (command, told)
            assert holding(dump(superuser_conninfo), ["asthma"]) == {}, command
    assert key_files(tmp_path) == []


def test_every_setting_is_explained() -> None:
    table = re.findall(r"^\| `(\w+)` \|", section("Settings"), re.MULTILINE)
    assert set(table) == set(NAMES)


def test_the_bounds_are_those_of_the_search() -> None:
    told = section("Encryption").replace("\n", " ")
    assert f"the newest {sealed_items.MEMORIES:,} sealed memories" in told
    assert f"{sealed_items.MESSAGES:,} messages" in told
    assert f"{sealed_items.SUMMARIES:,} summaries" in told
