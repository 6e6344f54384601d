"""One process of this machine's Hitherto: started with a log file, and ended whatever happens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SERVING = re.compile(r"\bserving on port (\d+)")
_LAST_LINES = 12
_MOST_LOG_BYTES = 8 << 20
_LOOK_SECONDS = 0.05


@dataclass
class LocalProcess:
    """A child process and the file with its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: Mapping[str, Any] = field(default_factory=dict)
    """What it logged when it began to serve."""
    port: int = 0
    """Where it serves; 0 until it does."""
    _read: int = 0
    _rest: bytes = b""

    @classmethod
    def start(
        cls,
        name: str,
        module: str,
        log: Path,
        environment: Mapping[str, str],
        *,
        arguments: Sequence[str] = (),
        keep: Sequence[int] = (),
    ) -> LocalProcess:
        """Start `python -m module`.

        What was in `log` is gone. `environment` is all of its environment, `keep` the descriptors
        that it inherits.
        """
        log.unlink(missing_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=environment,
                pass_fds=keep,
                # A group of its own: Ctrl-C is for us, and a second signal would cut its drain.
                process_group=0,
            )
        finally:
            os.close(descriptor)
        return cls(name, process, log)

    @property
    def address(self) -> str:
        """Where it serves, on the loopback."""
        return f"127.0.0.1:{self.port}"

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def new_lines(self) -> Iterator[str]:
        """The lines of its log since the last look; the one that says that it serves is noted."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            found = self._rest + file.read()
            self._read = file.tell()
        *lines, self._rest = found.split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace")
            if not self.port and (match := _SERVING.search(line)):
                self.port = int(match[1])
                self.ready = _entry(line)
            yield line
        if self._read > _MOST_LOG_BYTES:
            # It appends, and goes on at the new end.
            os.truncate(self.log, 0)
            self._read = 0

    def last_words(self, told: Container[str] = ()) -> str:
        """The end of its log; only that it ended, if all of that is among the complaints `told`."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        code = self.process.poll()
        if lines and all(complaint(line) in told for line in lines):
            return f"The {self.name} service ended with code {code}."
        last = "\n".join(f"  {plain(line)}" for line in lines) or "  (nothing)"
        state = "which runs" if code is None else f"which ended with code {code}"
        return f"The last log lines of the {self.name} service, {state}:\n{last}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)


def stop(
    processes: Sequence[LocalProcess], seconds: float, hurried: Callable[[], bool] = bool
) -> bool:
    """End processes, and kill those that take longer.

    `seconds` is the time for all of them together.

    Returns:
        Whether each ended in good order: the last one that did so has stopped the database.
    """
    for each in processes:
        each.send(signal.SIGTERM)
    give_up = time.monotonic() + seconds
    while not all(each.ended for each in processes):
        if hurried() or time.monotonic() > give_up:
            for each in processes:
                each.send(signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)
    return all(each.process.returncode == 0 for each in processes)


def plain(line: str) -> str:
    """A log line for people: level, message and exception without the JSON around it."""
    entry = _entry(line)
    if not entry:
        return line
    told = f"{entry.get('level', '')} {entry.get('message', '')}".strip()
    exception = str(entry.get("exception", "")).strip().splitlines()
    return f"{told}: {exception[-1]}" if exception else told


def complaint(line: str) -> str:
    """What a log line complains about, for people; empty if it reports something ordinary."""
    entry = _entry(line)
    if not entry:
        return line.strip()
    return plain(line) if entry.get("level") in ("WARNING", "ERROR", "CRITICAL") else ""


def _entry(line: str) -> dict[str, Any]:
    """A log line in JSON, or nothing."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
