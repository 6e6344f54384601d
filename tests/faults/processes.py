"""The two services as real processes: started, asked whether they serve, killed, ended.

Every service writes its log to a file of its own; at the end nothing is left running, the private
Postgres of the data folder included, and no log holds what must not be in one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import grpc
import psutil
import psycopg
from grpc_health.v1 import health_pb2, health_pb2_grpc
from psycopg.conninfo import make_conninfo

from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.e2e.methods import METHODS
from tests.integration.embedded.processes import postgres_processes
from tests.waiting import eventually, wait_until

Name = Literal["extraction", "retrieval"]

ROOT = Path(__file__).resolve().parents[2]
API_KEY = "sk-faults-6f1d2c0b9a"
PATIENCE_SECONDS = 180.0

# Connections that come back at once when a killed service is there again.
CHANNEL_OPTIONS: list[tuple[str, int]] = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_http_proxy", 0),
]

_PORT = re.compile(r'"serving on port (\d+)"')


def stub(channel: grpc.aio.Channel, rpc: str) -> Any:
    """What calls an RPC, given as `MemoryService/SaveMemory`, over a channel."""
    method = METHODS[rpc]
    return method.kind_of_call(channel)(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )


class Service:
    """One service process."""

    def __init__(self, name: Name, log: Path, port: int, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        self.port = port
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"hitherto_{name}"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def address(self) -> str:
        """Where it listens; known before it is ready only if the port was given."""
        return f"127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """Everything it has logged."""
        return self.log.read_text("utf-8", errors="replace")

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    async def ready(self) -> Service:
        """Wait until its health service says SERVING."""
        await eventually(self._listening, f"{self.name} to listen")
        await eventually(self.serving, f"{self.name} to serve")
        return self

    def _listening(self) -> bool:
        found = _PORT.search(self.said)
        assert self.alive or found, f"{self.name} ended at its start: {self.said[-3000:]}"
        if found:
            self.port = int(found[1])
        return found is not None

    def channel(self, *options: tuple[str, int]) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.address, options=[*CHANNEL_OPTIONS, *options])

    async def ask(self, rpc: str, *, timeout: float = 120, **fields: Any) -> Any:
        """The reply to one call with these fields, over a connection of its own."""
        async with self.channel(("grpc.use_local_subchannel_pool", 1)) as channel:
            return await stub(channel, rpc)(METHODS[rpc].request(**fields), timeout=timeout)

    async def health(self, name: str = "", *, timeout: float = 60) -> int:
        """What its health service says of a part, or of all."""
        async with self.channel() as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)  # its methods have no types
            asked = health_pb2.HealthCheckRequest(service=name)
            return int((await health.Check(asked, timeout=timeout)).status)

    async def serving(self) -> bool:
        try:
            return await self.health(timeout=5) == health_pb2.HealthCheckResponse.SERVING
        except grpc.aio.AioRpcError:
            return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal and go on."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill -9, and wait until the kernel has done it."""
        if self.alive:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    async def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        try:
            return await asyncio.to_thread(self.process.wait, PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.said[-3000:]}") from None

    async def end(self) -> int:
        """SIGTERM; the exit code."""
        self.send(signal.SIGTERM)
        return await self.ended()


class Processes:
    """The services of one test. Their data folder lies in `place` and does not exist yet.

    Args:
        place: A folder of the test's own that Postgres's account may pass through.
        settings: Environment variables of every service started here.
    """

    def __init__(self, place: Path, **settings: str) -> None:
        self.data_dir = place / "data"
        self.settings = settings
        self.services: list[Service] = []
        self._logs = place / "logs"
        self._logs.mkdir()
        self._frozen: list[psutil.Process] = []

    def launch(self, name: Name, *, port: int = 0, **settings: str) -> Service:
        """Start a service and return at once; 0 takes any free port."""
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._logs),
            "PYTHONUNBUFFERED": "1",
            "HITHERTO_DATA_DIR": str(self.data_dir),
            "HITHERTO_REQUIRE_DATABASE_URL": "false",
            "HITHERTO_LEASE_SECONDS": "2",
            "HITHERTO_JOB_BACKOFF_SECONDS": "0.1",
            "HITHERTO_EXTRACT_DEBOUNCE_SECONDS": "0",
            "EMBEDDING_DIMENSIONS": "64",
            f"HITHERTO_{name.upper()}_LISTEN": f"127.0.0.1:{port}",
            **self.settings,
            **settings,
        }
        log = self._logs / f"{len(self.services):03}-{name}.log"
        self.services.append(Service(name, log, port, environment))
        return self.services[-1]

    async def start(self, name: Name, *, port: int = 0, **settings: str) -> Service:
        """Start a service and wait until it serves."""
        return await self.launch(name, port=port, **settings).ready()

    async def start_both(
        self, extraction: dict[str, Any] | None = None, retrieval: dict[str, Any] | None = None
    ) -> tuple[Service, Service]:
        """Start both at the same time, each with settings of its own, and wait until they serve."""
        return await asyncio.gather(
            self.start("extraction", **extraction or {}), self.start("retrieval", **retrieval or {})
        )

    def administrator(self, database: str = "hitherto") -> str:
        """How an administrator logs in to the private server while a service holds it."""
        with EmbeddedPostgres.acquire(self.data_dir, supervise=False) as server:
            return make_conninfo(
                server.superuser_conninfo(database), options="-c search_path=hitherto,public"
            )

    def postmaster(self) -> int | None:
        """Pid of the private postmaster, as its pid file says."""
        with suppress(OSError, ValueError, IndexError):
            return int((self.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        return None

    def freeze(self) -> None:
        """Stop the private server in its tracks: it answers nothing and refuses nothing."""
        pid = self.postmaster()
        assert pid is not None
        postmaster = psutil.Process(pid)
        postmaster.suspend()
        self._frozen.append(postmaster)
        # Only now, so that it makes no child that is missed.
        for child in postmaster.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.suspend()
                self._frozen.append(child)

    def thaw(self) -> None:
        while self._frozen:
            with suppress(psutil.NoSuchProcess):
                self._frozen.pop().resume()

    def postgres_runs(self) -> bool:
        """True while any process of the private server does."""
        return bool(postgres_processes(self.data_dir))

    def close(self) -> None:
        """Leave nothing running, and see that no log holds a secret (faults.md row 63)."""
        self.thaw()
        for service in self.services:
            service.kill()
        if (self.data_dir / "postgres").exists():
            EmbeddedPostgres.acquire(self.data_dir, supervise=False).release()
        wait_until(lambda: not self.postgres_runs(), "the end of the data folder's Postgres")
        self.check_logs()

    def check_logs(self) -> None:
        """See that no log holds what must not be in one."""
        secrets = {"canary:", API_KEY}
        kept = self.data_dir / "embedded.json"
        if kept.exists():
            secrets.update(json.loads(kept.read_text("utf-8")).values())
        if url := self.settings.get("DATABASE_URL"):
            secrets.add(str(psycopg.conninfo.conninfo_to_dict(url)["password"]))
        logs = [*self._logs.glob("*.log"), *self.data_dir.glob("*.log")]
        for log in logs:
            text = log.read_text("utf-8", errors="replace")
            found = [secret for secret in secrets if secret in text]
            assert not found, f"{log.name} holds {found}"
