"""Both services as child processes on free ports, ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hitherto_client import Hitherto, HithertoCallError
from hitherto_shared.database.embedded import EmbeddedPostgres, EmbeddedPostgresError
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.processes.held_signals import has_ended, signals_held

_START_SECONDS = 120.0
_STOP_SECONDS = 40.0
_LOOK_SECONDS = 0.05
_LAST_LINES = 12
_SERVING = "serving on port "


class ServiceFailed(Exception):
    """The demo cannot go on; the text says why and has the services' last log lines."""


@dataclass
class _Service:
    """One child process and the file with its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: Mapping[str, Any] = field(default_factory=dict)
    """What it logged when it began to serve."""

    @property
    def address(self) -> str:
        return "127.0.0.1:" + str(self.ready["message"]).removeprefix(_SERVING)

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        last = "\n".join(f"  {_plain(line)}" for line in lines) or "  (nothing)"
        code = self.process.poll()
        state = "which runs" if code is None else f"which ended with code {code}"
        return f"The last log lines of the {self.name} service, {state}:\n{last}"


@dataclass(frozen=True, slots=True)
class Running:
    """The two services while they run."""

    client: Hitherto
    start_seconds: float
    extractor: str
    """`openai` or `offline`."""
    model: str
    embedder: str
    folder: Path
    environment: Mapping[str, str]

    @contextlib.contextmanager
    def another_reader(self, settings: Mapping[str, str]) -> Iterator[Hitherto]:
        """A second retrieval service on the same data while the two run; leaving ends it.

        Args:
            settings: What it has beside, or instead of, the environment of the others.

        Raises:
            ServiceFailed: It does not start, or a call to it failed.
        """
        services: list[_Service] = []
        try:
            environment = {**self.environment, **settings}
            with signals_held():
                services.append(_start("retrieval", self.folder, environment, "another retrieval"))
            _await_ready(services[0])
            writes = self.client.connection.target.extraction.address
            with Hitherto(services[0].address, writes) as client:
                yield client
        except HithertoCallError as error:
            raise ServiceFailed("\n".join([str(error), services[0].last_words()])) from error
        finally:
            _end(services, self.folder)


@contextlib.contextmanager
def running(data_dir: Path, environment: Mapping[str, str]) -> Iterator[Running]:
    """Start both services on `data_dir`; leaving ends them and with them their database.

    Raises:
        ServiceFailed: One of them does not start or does not last, or a call to them failed.
        EmbeddedPostgresError: There can be no data folder here.
    """
    started = time.monotonic()
    folder = DataFolderLayout.prepare(data_dir).folder
    services: list[_Service] = []
    try:
        for name in ("retrieval", "extraction"):
            with signals_held():
                services.append(_start(name, folder, environment))
        for service in services:
            _await_ready(service)
        reads, writes = services
        with Hitherto(reads.address, writes.address) as client:
            yield Running(
                client,
                time.monotonic() - started,
                str(writes.ready["extractor"]),
                str(writes.ready["model"]),
                str(writes.ready["embedder"]),
                folder,
                environment,
            )
        for service in services:
            if has_ended(service.process):
                raise ServiceFailed(f"the {service.name} service ended by itself")
    except (ServiceFailed, HithertoCallError, EmbeddedPostgresError, OSError) as error:
        raise ServiceFailed(
            "\n".join([str(error), *(service.last_words() for service in services)])
        ) from error
    finally:
        _end(services, folder)


def _end(services: list[_Service], folder: Path) -> None:
    _stop(services, folder)
    for service in services:
        service.log.unlink(missing_ok=True)


def _start(name: str, folder: Path, environment: Mapping[str, str], called: str = "") -> _Service:
    # Named after this process: two demos may share a folder.
    called = called or name
    log = folder / f"{called.replace(' ', '-')}-{os.getpid()}.log"
    settings = {
        "HITHERTO_DATA_DIR": str(folder),
        f"HITHERTO_{name.upper()}_LISTEN": "127.0.0.1:0",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"hitherto_{name}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environment, **settings},
            # A group of its own: Ctrl-C is for us, and we end the services in good order.
            process_group=0,
        )
    return _Service(called, process, log)


def _await_ready(service: _Service) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        for line in service.log.read_text("utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if str(entry.get("message", "")).startswith(_SERVING):
                    service.ready = entry
                    return
        if has_ended(service.process):
            raise ServiceFailed(f"the {service.name} service did not start")
        if time.monotonic() > give_up:
            raise ServiceFailed(
                f"the {service.name} service was not ready within {_START_SECONDS:.0f} seconds"
            )
        time.sleep(_LOOK_SECONDS)


def _stop(services: list[_Service], folder: Path) -> None:
    """End the services; where one had to be killed, end the database in its place."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for service in services:
            if service.process.poll() is None:
                service.process.terminate()
        give_up = time.monotonic() + _STOP_SECONDS
        for service in services:
            try:
                service.process.wait(max(0.0, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                service.process.kill()
                service.process.wait()
        if any(service.process.returncode != 0 for service in services):
            # Whoever holds the database last stops it, and these may have died holding it.
            with contextlib.suppress(EmbeddedPostgresError, OSError):
                EmbeddedPostgres.acquire(folder, supervise=False).release()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _plain(line: str) -> str:
    """A log line for people: level, message and exception without the JSON around it."""
    try:
        entry = json.loads(line)
        told = f"{entry['level']} {entry['message']}"
    except (ValueError, KeyError, TypeError):
        return line
    exception = str(entry.get("exception", "")).strip().splitlines()
    return f"{told}: {exception[-1]}" if exception else told
