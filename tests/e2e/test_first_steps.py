"""The first steps of docs/quick-start.md, as they stand, in a copy of the project.

Each section is one script: its commands, and its programs where the page says to save or run them.
The services are those that the first step starts; only what it would install is there already, and
their ports and data are the test's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from tests.code_blocks import Block, blocks
from tests.e2e.client_packages import PACKAGES, ROOT, build_line, tools_of
from tests.listening import free_port
from tests.local_processes import alive
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3_600)]
SECONDS = 1_500
"""For the start, and for each section; it only keeps a broken step from hanging."""
SAVE = re.compile(r"Save this as `([^`]+)`[^\n]*?(?:, and run `([^`]+)`)?:?\n*\Z")


@dataclass(frozen=True)
class Running:
    """A copy of the project, in which `make run` serves."""

    folder: Path
    environment: dict[str, str]

    def take(self, steps: str, **environment: str) -> str:
        """What a shell prints that is given these steps; they must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", steps],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{steps}\n---\n{done.stdout[-6_000:]}"
        return done.stdout


def section(page: str, heading: str) -> list[Block]:
    """The blocks of a section; it has some."""
    found = [block for block in blocks() if (block.page, block.heading) == (page, heading)]
    assert found, f"{page} has no commands under {heading!r}"
    return found


def script(steps: list[Block]) -> str:
    """A section as commands of one shell."""
    lines: list[str] = []
    python: list[str] = []
    for block in steps:
        above = "\n".join((ROOT / block.page).read_text("utf-8").splitlines()[: block.line - 1])
        if block.language == "":
            lines.append(block.text)
        elif saved := SAVE.search(above):
            name, command = saved.groups()
            lines += [f"cat > {name} <<'END'", block.text.rstrip(), "END", command or ""]
        elif block.language == "python":
            python.append(block.text)
    if python:
        lines += ["python - <<'END'", *python, "END"]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A copy of what is under version control, where the first step of the quick start runs."""
    beside = tmp_path_factory.mktemp("first-steps")
    folder = beside / "hitherto"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    # What the first step would install is there: this environment, into which nothing is written.
    (folder / ".venv").mkdir()
    for child in Path(sys.prefix).iterdir():
        (folder / ".venv" / child.name).symlink_to(child)
    (folder / ".venv/hitherto-installed").unlink(missing_ok=True)
    (folder / ".venv/hitherto-installed").touch()
    # Where root's services run Postgres as another user, that one must reach its data.
    data = Path(tempfile.mkdtemp(prefix="hitherto-first-", dir="/tmp"))
    data.chmod(0o755)
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    own = {name: text for name, text in os.environ.items() if not name.startswith("HITHERTO_")}
    own.pop("VIRTUAL_ENV", None)
    environment = {
        **own,
        "HITHERTO_DATA_DIR": str(data / "data"),
        "HITHERTO_REQUIRE_DATABASE_URL": "false",
        "HITHERTO_RETRIEVAL_LISTEN": addresses[0],
        "HITHERTO_EXTRACTION_LISTEN": addresses[1],
        "HITHERTO_HTTP_LISTEN": f"127.0.0.1:{free_port()}",
        "HITHERTO_RETRIEVAL_ADDRESS": addresses[0],
        "HITHERTO_EXTRACTION_ADDRESS": addresses[1],
        "COLUMNS": "200",
    }
    started = Running(folder, environment)
    (start,) = section("docs/quick-start.md", "Start the services")
    log = beside / "run.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", start.text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    try:
        give_up = time.monotonic() + SECONDS
        for address in addresses:
            with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
                while True:
                    told = log.read_text("utf-8", "replace")[-4_000:]
                    assert process.poll() is None, told
                    assert time.monotonic() < give_up, told
                    try:
                        grpc.channel_ready_future(channel).result(timeout=5)
                        break
                    except grpc.FutureTimeoutError:
                        continue
        yield started
    finally:
        # As Ctrl-C does in a terminal.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(120)
            wait_until(lambda: not alive(data / "data"), "all to end after Ctrl-C")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            shutil.rmtree(data, ignore_errors=True)


@pytest.mark.parametrize("language", ["Python", "MCP"])
def test_the_quick_start_in_the_clone(running: Running, language: str) -> None:
    told = running.take(script(section("docs/quick-start.md", language)))
    assert "Ana lives in Porto." in told


def test_the_quick_start_over_http(running: Running) -> None:
    """The address is the test's; the services may be ready before it is."""
    ours, door = running.environment["HITHERTO_HTTP_LISTEN"], "127.0.0.1:8090"
    steps = script(section("docs/quick-start.md", "curl"))
    assert door in steps
    ready = f"until curl -fs http://{ours}/health; do sleep 0.2; done"
    told = running.take(f"{ready}\n{steps.replace(door, ours)}")
    assert "- Ana lives in Porto." in told[told.index("promptBlock") :]


@pytest.mark.parametrize("language", ["TypeScript", "Go", "Java"])
def test_the_quick_start_of_other_languages(running: Running, language: str) -> None:
    path, name = tools_of(language.lower()), language.lower()
    steps = script(section("docs/quick-start.md", language))
    if language != "Go":
        # The line that builds the package has run, for its own tests: once is enough.
        built = PACKAGES[name]().folder
        shutil.copytree(built, running.folder / "clients" / name, symlinks=True, dirs_exist_ok=True)
        assert build_line(name) in steps
        steps = steps.replace(build_line(name), "")
    assert "Ana lives in Porto." in running.take(steps, PATH=path)
