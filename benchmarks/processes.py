"""The processes of a benchmark: started, waited for until they listen, counted, ended."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import psutil

from benchmarks import BenchmarkFailed
from benchmarks.words import DIMENSIONS
from hitherto_shared.config import PREFIX
from hitherto_shared.model_settings import DEFAULT_EMBEDDING_MODEL
from hitherto_shared.rpc.edge_settings import RATE_SETTINGS

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 300.0
_PORT = re.compile(r"\bport (\d+)\b")
_LOG_TAIL = 2_000
_INHERITED = ("PATH", "PYTHONPATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_WITHOUT_RATES = {f"{PREFIX}{name.upper()}": "0" for name in RATE_SETTINGS}
"""A benchmark asks for as much as it can, of few users."""


@dataclass(slots=True)
class BenchmarkProcess:
    """A process of ours, listening on `port` of 127.0.0.1."""

    pid: int
    log: Path
    port: int = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text("utf-8", errors="replace")[-_LOG_TAIL:]

    async def get(self, path: str) -> bytes:
        """The reply to a GET over HTTP."""
        url = f"http://{self.address}{path}"
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=10) as reply:
            return bytes(reply.read())


class Processes(ExitStack):
    """The processes of one run, which end with it; their logs lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def start(
        self, module: str, arguments: Sequence[str] = (), **settings: str
    ) -> BenchmarkProcess:
        """Run a module with these environment variables and no others of ours until it listens.

        Raises:
            BenchmarkFailed: It ended, or did not say within five minutes on which port it listens.
        """
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        with NamedTemporaryFile(
            prefix=f"{module}-", suffix=".log", dir=self._folder, delete=False
        ) as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**inherited, **_WITHOUT_RATES, "HOME": str(self._folder), **settings},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.callback(_end, process)
        started = BenchmarkProcess(process.pid, Path(log.name))
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (found := _PORT.search(started.said)):
            if process.poll() is not None or time.monotonic() > give_up:
                raise BenchmarkFailed(f"{module} does not listen; its log ends: {started.said}")
            await asyncio.sleep(0.02)
        started.port = int(found[1])
        return started

    async def start_service(
        self, name: str, model: BenchmarkProcess | None = None, **settings: str
    ) -> BenchmarkProcess:
        """Run `extraction` or `retrieval` on the database whose files lie in `data` of the folder.

        It uses `model` as its model server, if there is one, and these environment variables.

        Raises:
            BenchmarkFailed: It did not come up.
        """
        environment = {
            "HITHERTO_DATA_DIR": str(self._folder / "data"),
            f"HITHERTO_{name.upper()}_LISTEN": "127.0.0.1:0",
        }
        if model is not None:
            environment |= {
                "OPENAI_BASE_URL": f"http://{model.address}/v1",
                "EMBEDDING_MODEL": DEFAULT_EMBEDDING_MODEL,
                "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
            }
        return await self.start(f"hitherto_{name}", **{**environment, **settings})


async def listening(port: int) -> None:
    """In a process that was started: say where it listens, and wait until it is to end."""
    print(f"port {port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time that processes, their children and those that have ended have used up to now."""
    total = 0.0
    for process in _trees(pids):
        with suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
            # Of children that ended and were waited for; macOS does not tell.
            total += getattr(spent, "children_user", 0.0) + getattr(spent, "children_system", 0.0)
    return total


def resident_bytes(pids: Sequence[int]) -> int:
    """Resident memory of processes and their children."""
    total = 0
    for process in _trees(pids):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


def _trees(pids: Sequence[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            yield from (process, *process.children(recursive=True))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and kill it if it does not."""
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
