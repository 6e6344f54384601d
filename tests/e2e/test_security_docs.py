"""The walk through two tenants in docs/security.md works as it stands (H4, E4)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hitherto.v1 import access_pb2
from hitherto_shared.auth.principal import CAPABILITIES, SCOPES
from tests.e2e.conftest import StartServices
from tests.e2e.test_command import Typed, pointed, typed  # noqa: F401 - `typed` is a fixture

PAGE = Path(__file__).parents[2] / "docs/security.md"


def section(title: str) -> str:
    return PAGE.read_text("utf-8").partition(f"### {title}\n")[2].partition("\n## ")[0]


def walk() -> list[tuple[str, str]]:
    """Every command of the walk, and the comment behind it."""
    blocks = re.findall(r"```\n(.*?)```", section("A walk through"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [
        (command.strip(), told.strip()) for command, _, told in (x.partition("#") for x in lines)
    ]


async def test_the_walk_through_two_tenants(
    start_services: StartServices,
    conninfo: str,
    tmp_path: Path,
    typed: Typed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands as they stand; a comment says what is shown, or how it is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", conninfo)
    keys: dict[str, str] = {}
    refused = 0
    async with start_services(auth="api-key") as services:
        at = pointed(typed, services, monkeypatch)
        for command, comment in walk():
            if made := re.fullmatch(r"(\w+)=\$\(hitherto (keys create .*)\)", command):
                monkeypatch.setenv("HITHERTO_API_KEY", "")
                keys[made[1]] = (await at(*shlex.split(made[2]))).strip()
                assert keys[made[1]].startswith("mk_")
                continue
            named = re.fullmatch(r"(?:HITHERTO_API_KEY=\$(\w+) )?hitherto (.*)", command)
            assert named, command
            monkeypatch.setenv("HITHERTO_API_KEY", keys[named[1]] if named[1] else "")
            what, _, text = comment.partition(": ")
            told = await at(*shlex.split(named[2]), code=1 if what == "refused" else 0) + at.err
            if what == "refused":
                refused += 1
                wanted = "does not accept the credential" if text == "UNAUTHENTICATED" else text
                assert wanted in told, (command, told)
            elif what == "shows":
                assert text in told, (command, told)
            elif what == "does not show":
                assert text not in told, (command, told)
            else:
                assert not comment, f"what does {comment!r} say of {command}?"
    assert set(keys) == {"ACME", "GLOBEX", "SALES", "APP", "MAREN", "ILSE", "OFFICE"}
    assert refused > 10


def test_every_scope_and_capability_is_explained() -> None:
    table = re.findall(r"^\| `(\w+)` \|", section("Scopes").partition("###")[0], re.MULTILINE)
    assert set(table) == SCOPES
    declared = {
        name.removeprefix("ACCESS_SCOPE_").lower()
        for name in access_pb2.AccessScope.DESCRIPTOR.values_by_name
    }
    assert declared - {"unspecified"} == SCOPES
    for capability in CAPABILITIES:
        assert f"`{capability}`" in section("Capabilities")
