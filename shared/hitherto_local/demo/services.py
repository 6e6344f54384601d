"""Both services as child processes on free ports, ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hitherto_client import Hitherto, HithertoCallError
from hitherto_local.starting import LocalProcess, stop
from hitherto_shared.database.embedded import EmbeddedPostgresError
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.lifeline import arguments
from hitherto_shared.processes.held_signals import signals_held

_START_SECONDS = 120.0
_STOP_SECONDS = 40.0
_LOOK_SECONDS = 0.05


class ServiceFailed(Exception):
    """The demo cannot go on; the text says why and has the services' last log lines."""


@dataclass(frozen=True, slots=True)
class Running:
    """The two services while they run."""

    client: Hitherto
    start_seconds: float
    extractor: str
    """`openai` or `offline`."""
    model: str


@contextlib.contextmanager
def running(data_dir: Path, environment: Mapping[str, str]) -> Iterator[Running]:
    """Start both services on `data_dir`; leaving ends them and with them their database."""
    started = time.monotonic()
    folder = DataFolderLayout.prepare(data_dir).folder
    services: list[LocalProcess] = []
    # Held by this process alone: should it be killed, they end by themselves.
    lifeline, held = os.pipe()
    try:
        for name in ("retrieval", "extraction"):
            with signals_held():
                services.append(_start(name, folder, environment, lifeline))
        for service in services:
            _await_ready(service)
        reads, writes = services
        with Hitherto(reads.address, writes.address) as client:
            yield Running(
                client,
                time.monotonic() - started,
                str(writes.ready["extractor"]),
                str(writes.ready["model"]),
            )
        for service in services:
            if service.ended:
                raise ServiceFailed(f"the {service.name} service ended by itself")
    except (ServiceFailed, HithertoCallError, EmbeddedPostgresError, OSError) as error:
        raise ServiceFailed(
            "\n".join([str(error), *(service.last_words() for service in services)])
        ) from error
    finally:
        _end(services, folder)
        os.close(held)
        os.close(lifeline)


def _start(name: str, folder: Path, environment: Mapping[str, str], lifeline: int) -> LocalProcess:
    settings = {
        "HITHERTO_DATA_DIR": str(folder),
        f"HITHERTO_{name.upper()}_LISTEN": "127.0.0.1:0",
        "HITHERTO_LOG_FORMAT": "json",
    }
    return LocalProcess.start(
        name,
        f"hitherto_{name}",
        # Named after this process: two demos may share a folder.
        folder / f"{name}-{os.getpid()}.log",
        {**environment, **settings},
        arguments=arguments(lifeline),
        keep=[lifeline],
    )


def _await_ready(service: LocalProcess) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not service.port:
        for _ in service.new_lines():
            pass
        if service.ended:
            raise ServiceFailed(f"the {service.name} service did not start")
        if time.monotonic() > give_up:
            raise ServiceFailed(
                f"the {service.name} service was not ready within {_START_SECONDS:.0f} seconds"
            )
        time.sleep(_LOOK_SECONDS)


def _end(services: list[LocalProcess], folder: Path) -> None:
    """End the services, and remove their logs."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        stop(services, _STOP_SECONDS, folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for service in services:
        service.log.unlink(missing_ok=True)
