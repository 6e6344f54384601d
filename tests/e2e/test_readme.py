"""What the README shows works as it stands."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.e2e.conftest import Services

README = Path(__file__).parents[2] / "README.md"


async def test_the_python_example_runs(services: Services) -> None:
    """Only the two addresses are replaced: the services of a test listen on free ports."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    program = blocks[0].replace("127.0.0.1:50052", services.extraction_address)
    program = program.replace("127.0.0.1:50051", services.retrieval_address)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    assert "Porto" in told.decode()
    assert "short answers" in told.decode()


def test_the_first_screen_names_the_two_commands() -> None:
    first_screen = "\n".join(README.read_text("utf-8").splitlines()[:30])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_every_linked_file_exists() -> None:
    root = README.parent
    for page in [README, root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
