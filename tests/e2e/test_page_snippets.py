"""The snippets of quick-start.md, security.md and sessions.md run, and scripts of all pages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from hitherto_client import Hitherto
from hitherto_extraction.telling.sending import sign
from tests.code_blocks import Block, blocks
from tests.e2e.conftest import Services, Shared
from tests.e2e.curating import save
from tests.tenants import Tenant, credential

PYTHON = {
    page: [block.text for block in blocks("python") if block.page == page]
    for page in (
        "docs/changes.md",
        "docs/quick-start.md",
        "docs/security.md",
        "docs/sessions.md",
    )
}


@pytest.fixture(autouse=True)
def environment(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client finds the services by; whatever a snippet starts finds `hitherto`."""
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_TOKEN", services.token)
    programs = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


async def run(page: str, *programs: str, **names: Any) -> None:
    program = compile("\n".join(programs), page, "exec")
    await asyncio.to_thread(exec, program, {"__name__": "snippets", **names})


async def printed(*command: str) -> str:
    """What a process prints; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return told.decode()


async def test_the_quick_start_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, _ = PYTHON["docs/quick-start.md"]
    await run("docs/quick-start.md", first, second, "m.close()")
    told = capsys.readouterr().out
    assert "- Ana lives in Porto." in told
    assert re.search(r"\['.*short answers.*'\]", told)


@pytest.mark.faults
async def test_the_quick_start_over_mcp(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tools need a credential that is bound to one person.
    monkeypatch.setenv("HITHERTO_TOKEN", credential(tenant, "ana"))
    *_, program = PYTHON["docs/quick-start.md"]
    assert await printed(sys.executable, "-c", program) == "Ana lives in Porto.\n"


async def test_changes(services: Services, capsys: pytest.CaptureFixture[str]) -> None:
    watch, check = PYTHON["docs/changes.md"]
    watching = asyncio.ensure_future(run("docs/changes.md", watch))
    while not watching.done():
        await save(services, f"Sarah has {time.monotonic()} ideas.", user="sarah")
        await asyncio.sleep(0.2)
    await watching
    assert re.search(r"created [0-9a-f-]{36} 1", capsys.readouterr().out)
    names: dict[str, Any] = {}
    exec(check, names)
    signature = sign("whsec_1", b"{}", int(time.time()))
    assert names["is_genuine"]("whsec_1", signature, b"{}")
    assert not names["is_genuine"]("whsec_2", signature, b"{}")
    assert not names["is_genuine"]("whsec_1", sign("whsec_1", b"{}", 1_700_000_000), b"{}")


async def test_working_memory() -> None:
    names: dict[str, Any] = {"__name__": "snippets"}
    program = compile("\n".join(PYTHON["docs/sessions.md"]), "docs/sessions.md", "exec")
    await asyncio.to_thread(exec, program, names)
    assert names["session"].context["entities_mentioned"] == ["Lisbon"]


async def test_a_token_that_changes(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HITHERTO_TOKEN")
    asked: list[str] = []

    def current_token() -> str:
        asked.append(services.token)
        return services.token

    def save() -> None:
        with Hitherto(token=services.token) as m:
            m.save_memory("ana", "Ana drinks tea.")

    await asyncio.to_thread(save)
    provider = SimpleNamespace(current_token=current_token)
    await run("docs/security.md", *PYTHON["docs/security.md"], provider=provider)
    assert "Ana drinks tea." in capsys.readouterr().out
    assert asked


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
async def test_statements_for_operators(block: Block, shared: Shared) -> None:
    async with await psycopg.AsyncConnection.connect(
        shared.superuser_conninfo, autocommit=True
    ) as connection:
        for statement in re.sub(r"--.*", "", block.text).split(";"):
            # Some are for a replica, and nothing but this is wrong with them here.
            with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):
                if statement.strip():
                    await connection.execute(statement.encode())
