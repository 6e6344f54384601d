"""Starts the processes of a benchmark, waits until they listen, ends them whatever happens."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from benchmarks import BenchmarkFailed
from benchmarks.words import DIMENSIONS
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL, PREFIX
from hitherto_shared.rpc.edge_settings import RATE_SETTINGS

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 60.0
_PORT = re.compile(r"\bport (\d+)\b")
_LOG_TAIL = 2_000
_WITHOUT_RATES = {f"{PREFIX}{name.upper()}": "0" for name in RATE_SETTINGS}
"""A benchmark asks for as much as it can, of few users."""


class BenchmarkProcess:
    """A process of ours, listening on `port` of 127.0.0.1."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.port = 0
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def said(self) -> str:
        """The end of its log."""
        return self._log.read_text("utf-8", errors="replace")[-_LOG_TAIL:]

    async def get(self, path: str) -> bytes:
        """The reply to a GET over HTTP."""
        url = f"http://127.0.0.1:{self.port}{path}"
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=10) as reply:
            return bytes(reply.read())

    async def listening(self) -> Self:
        """Wait until it has said on which port it listens.

        Raises:
            BenchmarkFailed: It ended, or said nothing for a minute.
        """
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (found := _PORT.search(self.said)):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise BenchmarkFailed(f"{self.name} does not listen; its log ends: {self.said}")
            await asyncio.sleep(0.02)
        self.port = int(found[1])
        return self

    def end(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Processes:
    """The processes of one run, as a context manager; their logs lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[BenchmarkProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for started in reversed(self._started):
            started.end()

    async def start(
        self, module: str, arguments: Sequence[str] = (), **settings: str
    ) -> BenchmarkProcess:
        """Run a module as a process with these environment variables and no others of ours.

        Raises:
            BenchmarkFailed: It did not come up.
        """
        log = self._folder / f"{len(self._started)}-{module}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**_inherited(), **_WITHOUT_RATES, "HOME": str(self._folder), **settings},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started = BenchmarkProcess(module, process, log)
        self._started.append(started)
        return await started.listening()

    async def start_service(
        self, name: str, model: BenchmarkProcess | None = None, **settings: str
    ) -> BenchmarkProcess:
        """Run a service of ours on the database whose files lie in `data` of the folder.

        Args:
            name: `extraction` or `retrieval`.
            model: The model server that it uses; None: none.
            settings: More environment variables.

        Raises:
            BenchmarkFailed: It did not come up.
        """
        environment = {
            "HITHERTO_DATA_DIR": str(self._folder / "data"),
            f"HITHERTO_{name.upper()}_LISTEN": "127.0.0.1:0",
        }
        if model is not None:
            environment |= {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{model.port}/v1",
                "EMBEDDING_MODEL": DEFAULT_EMBEDDING_MODEL,
                "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
            }
        return await self.start(f"hitherto_{name}", **{**environment, **settings})


def _inherited() -> Mapping[str, str]:
    kept = ("PATH", "PYTHONPATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ}
