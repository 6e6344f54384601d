"""The walk through two tenants in docs/security.md works as it stands (H4, E4)."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from hitherto.v1 import access_pb2
from hitherto_shared.auth.principal import CAPABILITIES, SCOPES
from tests.e2e.conftest import Services, StartServices

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


async def run(
    services: Services, conninfo: str, folder: Path, arguments: list[str], key: str
) -> tuple[int, str]:
    """The exit code of a command run in `folder`, and all that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from hitherto_client.command import main; sys.exit(main())",
        *arguments,
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if "HITHERTO" not in name},
            "DATABASE_URL": conninfo,
            "HITHERTO_API_KEY": key,
            "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
            "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
            "COLUMNS": "200",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, notes = await process.communicate()
    assert process.returncode is not None
    if arguments[0] == "keys":
        assert process.returncode == 0, notes.decode()
        return 0, told.decode().strip()
    return process.returncode, told.decode() + notes.decode()


async def test_the_walk_through_two_tenants(
    start_services: StartServices, conninfo: str, tmp_path: Path
) -> None:
    """Commands as they stand; a comment says what is shown, or how it is refused."""
    keys: dict[str, str] = {}
    refused = 0
    async with start_services(auth="api-key") as services:
        for command, comment in walk():
            if made := re.fullmatch(r"(\w+)=\$\(hitherto (keys create .*)\)", command):
                _, keys[made[1]] = await run(services, conninfo, tmp_path, shlex.split(made[2]), "")
                assert keys[made[1]].startswith("mk_")
                continue
            named = re.fullmatch(r"(?:HITHERTO_API_KEY=\$(\w+) )?hitherto (.*)", command)
            assert named, command
            key = keys[named[1]] if named[1] else ""
            code, told = await run(services, conninfo, tmp_path, shlex.split(named[2]), key)
            what, _, text = comment.partition(": ")
            if what == "refused":
                refused += 1
                wanted = "does not accept the credential" if text == "UNAUTHENTICATED" else text
                assert (code, wanted in told) == (1, True), (command, told)
                continue
            assert code == 0, (command, told)
            if what == "shows":
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
