"""The processes of this machine's Hitherto: which there are, how they start, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hitherto_client.target import DEFAULT_EXTRACTION, DEFAULT_RETRIEVAL
from hitherto_shared.database.embedded import EmbeddedPostgres, EmbeddedPostgresError
from hitherto_shared.processes.held_signals import has_ended

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
        return has_ended(self.process)

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
    processes: Sequence[LocalProcess],
    seconds: float,
    folder: Path | None,
    hurried: Callable[[], bool] = bool,
) -> None:
    """End processes, and kill those that take longer than `seconds` all together.

    Where one was killed, the embedded database in `folder` is ended in its place.
    """
    for each in processes:
        each.send(signal.SIGTERM)
    give_up = time.monotonic() + seconds
    while not all(each.ended for each in processes):
        if hurried() or time.monotonic() > give_up:
            for each in processes:
                each.send(signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)
    if folder is not None and any(each.process.returncode for each in processes):
        # Whoever holds the database last stops it, and these may have died holding it.
        with suppress(EmbeddedPostgresError, OSError):
            EmbeddedPostgres.acquire(folder, supervise=False).release()


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


HTTP_LISTEN = "HITHERTO_HTTP_LISTEN"
DEFAULT_HTTP_LISTEN = "127.0.0.1:8090"
CONSOLE = "/console"
"""The path of the console there."""
MCP = "/mcp"
"""That of the Model Context Protocol."""
DRAIN_SECONDS = 3.0
"""For calls that run when it ends."""

_METRICS = "HITHERTO_METRICS_LISTEN"
_OF_A_DEVELOPER = {
    # Somebody watches: a chat that pauses is read at once, and nothing holds up the end.
    "HITHERTO_EXTRACT_IDLE_MINUTES": "0.5",
    "HITHERTO_DRAIN_SECONDS": f"{DRAIN_SECONDS:g}",
    "HITHERTO_LOG_FORMAT": "json",
}
_EVERYWHERE = ("0.0.0.0", "[::]", "")


@dataclass(frozen=True, slots=True)
class Part:
    """One process."""

    name: str
    module: str
    variable: str
    """The setting with its address."""
    listen: str

    def reached_at(self, port: int) -> str:
        """Where this machine reaches it; `port` is the one it was given if the setting has none."""
        host, _, asked = self.listen.rpartition(":")
        if not asked.isdecimal():
            return self.listen
        return f"{'127.0.0.1' if host in _EVERYWHERE else host}:{port or asked}"

    @property
    def has_known_address(self) -> bool:
        """Whether its address is known before it serves."""
        return not self.listen.endswith(":0")


def parts(environment: Mapping[str, str]) -> tuple[Part, Part, Part]:
    """Both services and what browsers reach, where the environment puts them."""

    def part(name: str, module: str, variable: str, otherwise: str) -> Part:
        return Part(name, module, variable, environment.get(variable) or otherwise)

    return (
        part("extraction", "hitherto_extraction", "HITHERTO_EXTRACTION_LISTEN", DEFAULT_EXTRACTION),
        part("retrieval", "hitherto_retrieval", "HITHERTO_RETRIEVAL_LISTEN", DEFAULT_RETRIEVAL),
        part("console", "hitherto_local.web", HTTP_LISTEN, DEFAULT_HTTP_LISTEN),
    )


def environment_for(
    part: Part, environment: Mapping[str, str], addresses: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a part: the given one, completed by what suits a developer's machine.

    A setting of `environment` wins; an empty one counts as unset. `addresses` tells where the
    services can be reached, by name.
    """
    own = _OF_A_DEVELOPER | {name: text for name, text in environment.items() if text}
    own[part.variable] = part.listen
    # The console calls these services, whatever others the environment names.
    own |= {f"HITHERTO_{name.upper()}_ADDRESS": address for name, address in addresses.items()}
    if metrics := metrics_of(environment).get(part.name):
        own[_METRICS] = metrics
    return own


def metrics_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Where each service shows its metrics: at the address that is set, and one port above."""
    listen = environment.get(_METRICS, "")
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        return {}
    above = int(port) + 1 if int(port) else 0
    return {"retrieval": listen, "extraction": f"{host}:{above}"}


def taken_by(address: str) -> str | None:
    """Who listens on `host:port`, in words; None if it is free, or 0 asks for any port.

    Addresses of other forms count as free: the service itself says what is wrong with them.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) == 0 or address.startswith("unix"):
        return None
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, OverflowError):
        return None
    for family, kind, protocol, _, place in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(place)
                probe.listen(1)
            except OSError:
                return _listener(int(port))
    return None


def _listener(port: int) -> str:
    try:
        connections = psutil.net_connections(kind="tcp")
        pid = next(
            each.pid
            for each in connections
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr[1] == port
        )
        words = psutil.Process(pid).cmdline() if pid else []
    except (psutil.Error, StopIteration, OSError):
        return "another program"
    if not pid:
        return "another program"
    ours = next((word for word in words if word.startswith("hitherto")), "")
    name = f"another Hitherto ({ours})" if ours else " ".join(words)[:60] or "another program"
    return f"{name}, process {pid}"
