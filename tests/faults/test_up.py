"""`hitherto up` in real processes: what it starts, and that nothing of it outlives its terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from hitherto_client import Hitherto
from hitherto_client.inputs import MessageInput
from tests.local_processes import alive
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]
PATIENCE = 300.0
HITHERTO = [
    sys.executable,
    "-c",
    "from hitherto_client.command import main; raise SystemExit(main())",
]


class Machine:
    """A data folder, and `hitherto` on it with ports that are the system's choice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = {name: text for name, text in os.environ.items() if not name.startswith("HITHERTO_")}
        self.environment = {
            **own,
            "HITHERTO_DATA_DIR": str(folder),
            "HITHERTO_REQUIRE_DATABASE_URL": "false",
            "HITHERTO_RETRIEVAL_LISTEN": "127.0.0.1:0",
            "HITHERTO_EXTRACTION_LISTEN": "127.0.0.1:0",
            "HITHERTO_HTTP_LISTEN": "127.0.0.1:0",
        }

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [*HITHERTO, *words],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def up(self, **more: str) -> subprocess.Popen[str]:
        """`hitherto up`, and what it tells."""
        return subprocess.Popen(
            [*HITHERTO, "up"],
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def running(self) -> dict[str, str]:
        """The addresses of what runs; empty until everything serves."""
        with suppress(OSError, ValueError):
            told = json.loads((self.folder / "up.json").read_text())
            found: dict[str, str] = told["addresses"]
            # A file that a SIGKILL left behind names a process that is gone.
            return found if len(found) == 3 and psutil.pid_exists(told["pid"]) else {}
        return {}


def two_ports() -> int:
    """The first of two free ports that follow one another: each service has one for metrics."""
    while True:
        with socket.socket() as first, socket.socket() as second, suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            second.bind(("127.0.0.1", port + 1))
            return port


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """One folder for all: a database is made once."""
    with tempfile.TemporaryDirectory(prefix="hitherto-up-", dir="/tmp") as base:
        os.chmod(base, 0o711)
        here = Machine(Path(base).resolve() / "data")
        yield here
        assert alive(here.folder) == []


class Terminal:
    """A terminal of its own, in which a shell runs `hitherto up`, as a person types it."""

    def __init__(self, machine: Machine) -> None:
        self.shell, self._master = pty.fork()
        if self.shell == 0:
            # What `nohup` started would let it outlive its terminal, as it is meant to.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execvpe(
                "sh", ["sh", "-c", 'trap : INT; "$@"; exit $?', "sh", *HITHERTO, "up"],
                machine.environment,
            )  # fmt: skip
        wait_until(machine.running, f"nothing serves: {self.told()}")

    def told(self) -> str:
        os.set_blocking(self._master, False)
        found = b""
        with suppress(OSError):
            while piece := os.read(self._master, 65_536):
                found += piece
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._master)
        with suppress(OSError):
            os.kill(self.shell, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.shell, 0)


def keeper(machine: Machine) -> psutil.Process:
    return psutil.Process(json.loads((machine.folder / "up.json").read_text())["pid"])


ENDS: dict[str, Callable[[Terminal], None]] = {
    "its terminal closes": Terminal.close,
    "its shell is killed": lambda terminal: os.kill(terminal.shell, signal.SIGKILL),
}
"""Besides these: Ctrl-C in `e2e/test_first_steps.py`, a SIGKILL and `hitherto down` below."""


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_it(machine: Machine, end: str) -> None:
    terminal = Terminal(machine)
    try:
        assert len(alive(machine.folder)) > 4, "both services, the console, the keeper and Postgres"
        ENDS[end](terminal)
        wait_until(lambda: not alive(machine.folder), f"after {end}: {alive(machine.folder)}")
    finally:
        terminal.close()


def mcp_needs_no_key(console: str) -> None:
    """The header alone names the user, and calls of `search_memory` under its alias work too."""
    for tool, arguments in (
        ("save_memory", {"content": "Xavi sails."}),
        ("search_memories", {"query": "What does Xavi do?"}),
    ):
        call = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        request = urllib.request.Request(
            f"http://{console}/mcp",
            json.dumps(message).encode(),
            {
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "hitherto-user": "xavi",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert b"Xavi sails." in reply.read()


def test_a_wrong_setting_is_told_once(machine: Machine) -> None:
    done = machine.run("up", HITHERTO_RETRIEVAL_LISTEN="0.0.0.0:0")
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert told.count("0.0.0.0:0 is reachable by other machines") == 1, told
    assert "The retrieval service ended with code 1." in told


def test_it_says_what_runs_and_what_is_in_its_way(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = machine.run("up", HITHERTO_EXTRACTION_LISTEN=address)
        assert refused.returncode == 1
        assert f"{address} is taken by" in refused.stderr
        assert f"process {os.getpid()}" in refused.stderr
        assert "HITHERTO_EXTRACTION_LISTEN=" in refused.stderr

    metrics = two_ports()
    process = machine.up(
        HITHERTO_METRICS_LISTEN=f"127.0.0.1:{metrics}", HITHERTO_EXTRACT_IDLE_MINUTES="0.05"
    )
    try:
        wait_until(lambda: machine.running() or process.poll() is not None, "nothing serves")
        found = machine.running()
        assert process.poll() is None, process.communicate()[0]
        second = machine.run("up")
        assert second.returncode == 1
        assert f"runs already on {machine.folder}" in second.stderr
        assert found["retrieval"] in second.stderr

        with urllib.request.urlopen(f"http://{found['console']}/console", timeout=60) as page:
            assert "Hitherto" in page.read().decode()
            assert "/console/" in page.url
        call = urllib.request.Request(
            f"http://{found['console']}/hitherto.v1.RetrievalService/ListMemories",
            b'{"userId": "xavi"}',
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(call, timeout=60) as reply:
            assert reply.headers["content-type"] == "application/json"
        for port in (metrics, metrics + 1):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                assert b"hitherto_" in page.read()

        mcp_needs_no_key(found["console"])

        with Hitherto(found["retrieval"], found["extraction"]) as client:
            said: MessageInput = {"role": "user", "content": "I live in Porto."}
            client.add("bea", [said], conversation="monday")
            wait_until(lambda: list(client.memories("bea")), "nothing was learnt")
        assert keeper(machine).pid == process.pid
        ended = machine.run("down")
        assert (ended.returncode, "ended process" in ended.stderr) == (0, True), ended.stderr
    finally:
        process.terminate()
        told, _ = process.communicate(timeout=PATIENCE)
    wait_until(lambda: not alive(machine.folder), "the end of all")
    lines = told.splitlines()
    assert process.returncode == 0, told
    assert len(lines) < 15, told
    assert all("{" not in line for line in lines)
    told_of_parts = [
        line for line in lines if line.startswith(("  ", "ready")) and "export" not in line
    ]
    assert all(len(line) <= 80 for line in told_of_parts), told
    assert [line for line in lines if line.startswith("ready in")]
    assert sum("save ana" in line or "context ana" in line for line in lines) == 2


def test_what_it_suggests_works_with_api_keys_and_a_sigkill_ends_all(machine: Machine) -> None:
    process = machine.up(HITHERTO_AUTH="api-key")
    try:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if " context ana" in line:
                break
        typed = [line for line in told if line.startswith("  export ") or " ana " in line]
        done = subprocess.run(
            ["sh", "-ec", "".join(typed)],
            env={"PATH": os.environ["PATH"], "HOME": str(machine.folder)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Ana lives in Porto." in done.stdout
        assert keeper(machine).pid == process.pid
        # It finds what runs here, as `hitherto down` in that terminal does.
        assert any(line.startswith("  export HITHERTO_DATA_DIR=") for line in typed), typed
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
    wait_until(lambda: not alive(machine.folder), "the end of all")
    # What that left in the file is known to be no longer true.
    down = machine.run("down")
    assert (down.returncode, "nothing runs" in down.stderr) == (1, True), down.stderr
