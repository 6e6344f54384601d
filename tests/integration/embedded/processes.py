"""Holders as real processes, and waiting for what they cause."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

HOLDER = Path(__file__).with_name("holder.py")
PATIENCE_SECONDS = 180.0


def runs(pid: int) -> bool:
    """True while `pid` runs; a zombie that nobody has reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def postgres_processes(folder: Path) -> list[int]:
    """Living processes that work in the cluster of `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder.resolve() / "postgres"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


class Holder:
    """One `holder.py` process."""

    def __init__(
        self, folder: Path, *, uid: int | None = None, environment: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, str(HOLDER), str(folder)]
        if uid is not None:
            command.append(str(uid))
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )

    def answer(self) -> dict[str, Any]:
        """The next line that the process says."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        assert ready, "the holder says nothing"
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
            raise AssertionError(f"the holder ended: {errors}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def finish(self) -> str:
        """Let it release and end; returns what it logged."""
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0, errors
        return errors

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
