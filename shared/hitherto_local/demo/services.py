"""Both services, and a small embedding server, ended whatever happens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from aiohttp import web

from hitherto_client import Hitherto, HithertoCallError
from hitherto_local.starting import LocalProcess, stop
from hitherto_shared.database.embedded import EmbeddedPostgres, EmbeddedPostgresError
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.lifeline import arguments
from hitherto_shared.processes.held_signals import has_ended, signals_held

_MODEL_SECONDS = 30.0


class DemoModelServer:
    """Serves `POST /v1/embeddings` on a free port of this machine, in a thread of its own.

    Args:
        embedder: What makes the vectors; it is closed with the server.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server")
        application = web.Application()
        application.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(application, access_log=None)
        self._port = 0

    @property
    def settings(self) -> dict[str, str]:
        """What a service needs to know to embed here."""
        return {
            "HITHERTO_EMBEDDER": "openai",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self._port}/v1",
            "OPENAI_API_KEY": "not-needed",
            "EMBEDDING_MODEL": self._embedder.name,
            "EMBEDDING_DIMENSIONS": str(self._embedder.dimensions),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_MODEL_SECONDS)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and every connection; a second time does nothing."""
        if self._loop.is_closed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_MODEL_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _open(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._embedder.close()

    async def _embeddings(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        batch = await self._embedder.embed(asked["input"])
        data = [
            {"object": "embedding", "index": index, "embedding": _base64(vector)}
            for index, vector in enumerate(batch.vectors)
        ]
        usage = {"prompt_tokens": batch.tokens, "total_tokens": batch.tokens}
        return web.json_response(
            {"object": "list", "model": self._embedder.name, "data": data, "usage": usage}
        )


def _base64(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")


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
    embedder: str
    folder: Path
    environment: Mapping[str, str]
    lifeline: int

    @contextlib.contextmanager
    def another_reader(self, settings: Mapping[str, str]) -> Iterator[Hitherto]:
        """A second retrieval service on the same data while the two run; leaving ends it.

        Args:
            settings: What it has beside, or instead of, the environment of the others.

        Raises:
            ServiceFailed: It does not start, or a call to it failed.
        """
        services: list[LocalProcess] = []
        try:
            environment = {**self.environment, **settings}
            with signals_held():
                services.append(
                    _start(
                        "retrieval", self.folder, environment, self.lifeline, "another retrieval"
                    )
                )
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
                str(writes.ready["embedder"]),
                folder,
                environment,
                lifeline,
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
        os.close(held)
        os.close(lifeline)


def _start(
    name: str, folder: Path, environment: Mapping[str, str], lifeline: int, called: str = ""
) -> LocalProcess:
    # Named after this process: two demos may share a folder.
    called = called or name
    settings = {
        "HITHERTO_DATA_DIR": str(folder),
        f"HITHERTO_{name.upper()}_LISTEN": "127.0.0.1:0",
        "HITHERTO_LOG_FORMAT": "json",
    }
    return LocalProcess.start(
        called,
        f"hitherto_{name}",
        folder / f"{called.replace(' ', '-')}-{os.getpid()}.log",
        {**environment, **settings},
        arguments=arguments(lifeline),
        keep=[lifeline],
    )


def _await_ready(service: LocalProcess) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not service.port:
        for _ in service.new_lines():
            pass
        if has_ended(service.process):
            raise ServiceFailed(f"the {service.name} service did not start")
        if time.monotonic() > give_up:
            raise ServiceFailed(
                f"the {service.name} service was not ready within {_START_SECONDS:.0f} seconds"
            )
        time.sleep(_LOOK_SECONDS)


def _end(services: list[LocalProcess], folder: Path) -> None:
    """End the services; where one had to be killed, end the database in its place."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        if not stop(services, _STOP_SECONDS):
            # Whoever holds the database last stops it, and these may have died holding it.
            with contextlib.suppress(EmbeddedPostgresError, OSError):
                EmbeddedPostgres.acquire(folder, supervise=False).release()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for service in services:
        service.log.unlink(missing_ok=True)
