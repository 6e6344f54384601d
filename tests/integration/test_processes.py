"""Several processes of a service on one port (issue 4, item 7; design.md §6)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import psutil
import psycopg
import pytest

from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2_grpc as rpc
from hitherto_shared.processes import ProcessSpread, parent
from hitherto_shared.processes.child import ParentLink, ServingPlan
from hitherto_shared.processes.parent import Parent, ServiceProcessFailed
from hitherto_shared.processes.port import require_sharing, shared_port, usable_cores
from hitherto_shared.rpc.server import ServerFailed
from tests.faults.processes import CHANNEL_OPTIONS, Processes, Service
from tests.integration.embedded.processes import runs
from tests.waiting import eventually, wait_until

COUNT = 2
REQUEST = pb.GetContextRequest(user_id="ana")


@pytest.fixture
def processes(place: Path, conninfo: str) -> Iterator[Processes]:
    """Services on a database that outlives them."""
    made = Processes(place, DATABASE_URL=conninfo, HITHERTO_AUTH="off", EMBEDDING_DIMENSIONS="")
    yield made
    close(made)


@pytest.fixture
def private(place: Path) -> Iterator[Processes]:
    """Services on an embedded Postgres of their own."""
    made = Processes(place, EMBEDDING_DIMENSIONS="")
    yield made
    close(made)


def close(processes: Processes) -> None:
    left = [pid for service in processes.services for pid in children(service)]
    for service in processes.services:
        service.kill()
    for pid in left:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(runs(pid) for pid in left), "the end of all processes")
    processes.close()


def children(service: Service) -> set[int]:
    if not service.alive:
        return set()
    return {
        process.pid for process in psutil.Process(service.process.pid).children() if process.pid
    }


async def start(processes: Processes, count: int = COUNT, **settings: str) -> Service:
    """Retrieval in `count` processes, all of which serve."""
    settings["HITHERTO_READ_PROCESSES"] = str(count)
    service = processes.launch("retrieval", port=0, **settings)
    await service.ready()
    await eventually(lambda: f"{count} processes serve" in service.said, "all to serve")
    return service


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[rpc.RetrievalServiceAsyncStub]:
    """A connection of its own, so that the kernel chooses a process anew."""
    options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(service.address, options=options) as channel:
        yield rpc.RetrievalServiceStub(channel)


async def call(service: Service) -> None:
    """A call on a new connection; like any good client it tries again when that is lost."""
    while True:
        async with connected(service) as stub:
            try:
                await stub.GetContext(REQUEST, timeout=120, wait_for_ready=True)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise


async def one_that_dies_is_replaced(service: Service) -> None:
    """And calls go on."""
    for _ in range(2):
        pids = children(service)
        victim = min(pids)
        os.kill(victim, signal.SIGKILL)
        await asyncio.gather(*(call(service) for _ in range(10)))

        def replaced(pids: set[int] = pids, victim: int = victim) -> bool:
            return len(children(service)) == COUNT and victim not in children(service)

        await eventually(replaced, "another process")
        assert pids - {victim} <= children(service)
    # The newest listens as well.
    newest = max(children(service) - pids)

    def listens() -> bool:
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == service.port
            for connection in psutil.Process(newest).net_connections("tcp")
        )

    await eventually(listens, "the newest to listen")


async def test_all_answer_on_one_port_and_one_that_dies_is_replaced(
    processes: Processes, superuser_conninfo: str
) -> None:
    service = await start(processes, HITHERTO_READ_POOL_SIZE="5")
    pids = children(service)
    assert len(pids) == COUNT
    answered: set[int] = set()

    async def one_more() -> bool:
        async with connected(service) as stub:
            await asyncio.gather(*(stub.GetContext(REQUEST) for _ in range(4)))
            answered.update(
                pid
                for pid in pids
                for connection in psutil.Process(pid).net_connections("tcp")
                if connection.status == psutil.CONN_ESTABLISHED
                and connection.laddr.port == service.port
            )
        return answered == pids

    await eventually(one_more, "a call at each of the processes")
    with psycopg.connect(superuser_conninfo) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'hitherto-retrieval'"
            # One in each process hears of changes.
            " AND query NOT LIKE 'LISTEN%'"
        ).fetchone()
    assert row is not None
    assert COUNT <= row[0] <= 5
    await one_that_dies_is_replaced(service)
    # Also when it is killed (design.md §6), the parent's death ends them all.
    pids = children(service)
    service.kill()
    await eventually(lambda: not any(runs(pid) for pid in pids), "the end of the processes")
    with socket.create_server(("127.0.0.1", service.port)):
        pass  # the port is free again


async def test_sigterm_drains(processes: Processes, superuser_conninfo: str) -> None:
    service = await start(processes)
    pids = children(service)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as blocker:
        async with connected(service) as stub:
            await stub.GetContext(REQUEST)
            await blocker.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
            in_flight = asyncio.ensure_future(stub.GetContext(REQUEST, timeout=120))

            async def waits() -> bool:
                cursor = await blocker.execute(
                    "SELECT count(*) FROM pg_locks"
                    " WHERE NOT granted AND relation = 'users'::regclass"
                )
                return await cursor.fetchone() == (1,)

            await eventually(waits, "the call in flight")
            service.send(signal.SIGTERM)
            # The idle ones are gone before the call is.
            await eventually(
                lambda: sum(runs(pid) for pid in pids) == 1, "the end of the idle processes"
            )
            assert service.alive
            await blocker.rollback()
            await in_flight
        assert await service.ended() == 0
    assert not any(runs(pid) for pid in pids)


async def test_a_second_signal_ends_them_at_once(
    processes: Processes, superuser_conninfo: str
) -> None:
    service = await start(processes)
    pids = children(service)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as blocker:
        await blocker.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        async with connected(service) as stub:
            in_flight = asyncio.ensure_future(stub.GetContext(REQUEST, timeout=120))
            service.send(signal.SIGTERM)
            await eventually(
                lambda: service.said.count("SIGTERM: draining") > COUNT, "all to be told"
            )
            service.send(signal.SIGTERM)
            assert await service.ended() == 1
            await eventually(lambda: not any(runs(pid) for pid in pids), "the end of all")
            await asyncio.gather(in_flight, return_exceptions=True)


async def test_the_embedded_database_is_the_parents_and_a_port_in_use_is_told(
    private: Processes,
) -> None:
    service = await start(private, 2)
    postmaster = private.postmaster()
    assert postmaster is not None
    victim = min(children(service))
    os.kill(victim, signal.SIGKILL)
    await call(service)
    await eventually(
        lambda: len(children(service)) == 2 and victim not in children(service), "another process"
    )
    await call(service)
    assert private.postmaster() == postmaster
    second = private.launch("retrieval", port=service.port, HITHERTO_READ_PROCESSES="2")
    assert await second.ended() == 1
    assert "is another service there already?" in second.said
    await call(service)
    assert await service.end() == 0
    assert not private.postgres_runs()


async def test_extraction_in_several_processes(processes: Processes) -> None:
    """HITHERTO_WORKER_PROCESSES: each has a worker, and any of them answers."""
    service = processes.launch("extraction", HITHERTO_WORKER_PROCESSES="2")
    await service.ready()
    await eventually(lambda: "2 processes serve" in service.said, "both to serve")
    pids = children(service)
    for _ in range(6):
        async with grpc.aio.insecure_channel(
            service.address, options=[*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
            await stub.ListJobs(extraction_service_pb2.ListJobsRequest(user_id="ana"))
    assert await service.end() == 0
    assert not any(runs(pid) for pid in pids)


async def test_what_no_process_can_start_with_ends_the_service(
    processes: Processes, tmp_path: Path
) -> None:
    service = processes.launch(
        "retrieval",
        HITHERTO_READ_PROCESSES="2",
        HITHERTO_EMBEDDER="onnx",
        HITHERTO_ONNX_MODEL_DIR=str(tmp_path / "nothing"),
    )
    assert await service.ended() == 1
    assert "during start-up" in service.said
    assert "ONNX" in service.said.upper()


async def test_a_process_that_dies_again_and_again_is_restarted_ever_more_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves the first time, so that the parent goes on; afterwards it only ends."""
    module = tmp_path / "hitherto_test_mayfly.py"
    module.write_text(
        "import os, pathlib, sys, time\n"
        "from hitherto_shared.processes.child import ParentLink\n"
        "link = ParentLink.inherited(sys.argv[1:])\n"
        "book = pathlib.Path(link.place.conninfo)\n"
        "book.open('a').write('born\\n')\n"
        "link.serving()\n"
        "os._exit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pauses: list[float] = []
    monkeypatch.setattr(parent.logger, "error", lambda text, *told: pauses.append(told[-1]))
    book = tmp_path / "book"
    family = Parent(
        "hitherto_test_mayfly", ServingPlan(str(book), "127.0.0.1:1", processes=1), patience=10
    )
    end = asyncio.Event()
    running = asyncio.create_task(family.run(end))
    await eventually(lambda: len(pauses) >= 3, "three deaths")
    end.set()
    with suppress(ServiceProcessFailed):  # it may have been told to end while it was dying
        await running
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert len(book.read_text().split()) >= 3


def test_a_port_is_kept_without_listening() -> None:
    with shared_port("127.0.0.1:0") as kept:
        number = int(kept.rpartition(":")[2])
        assert number > 0
        with pytest.raises(ServerFailed, match=kept), shared_port(kept):
            raise AssertionError("it was reserved twice")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number), timeout=5)
        with socket.socket() as sharing:
            sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sharing.bind(("127.0.0.1", number))
    with socket.create_server(("127.0.0.1", number)):
        pass


def test_a_port_that_one_process_had_to_itself_can_be_shared_at_once() -> None:
    """Connections that it closed are remembered by the system for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as alone:
        listen = f"127.0.0.1:{alone.getsockname()[1]}"
        with socket.create_connection(alone.getsockname()) as caller:
            alone.accept()[0].close()
            assert caller.recv(1) == b""
    with shared_port(listen) as kept:
        assert kept == listen


@pytest.mark.parametrize("listen", ["unix:/tmp/socket", "127.0.0.1:http"])
def test_only_ports_can_be_shared(listen: str) -> None:
    with pytest.raises(ValueError, match="HITHERTO_READ_PROCESSES"):
        require_sharing(listen, "HITHERTO_READ_PROCESSES")


def test_elsewhere_one_process_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match=r"HITHERTO_READ_PROCESSES: .* set it to 1"):
        require_sharing("127.0.0.1:0", "HITHERTO_READ_PROCESSES")


def test_how_many() -> None:
    assert ProcessSpread("m", "V", 3).processes == 3
    assert ProcessSpread("m", "V", 0).processes == usable_cores() >= 1


def test_who_was_started_by_somebody_else_has_no_parent() -> None:
    assert (ParentLink.inherited([]), ParentLink.inherited(["--other"])) == (None, None)


def test_a_process_whose_loop_has_ended_does_not_outlive_its_parent_either() -> None:
    """Such as one that waits at its end for a thread."""
    program = """
import asyncio, socket, sys, time
from hitherto_shared.processes.child import ParentLink, ServingPlan
link = ParentLink(socket.socket(fileno=int(sys.argv[1])), ServingPlan("", ""))

async def serve():
    link.watch(asyncio.Event(), patience=0.1)

asyncio.run(serve())
print("ended", flush=True)
time.sleep(600)
"""
    ours, theirs = socket.socketpair()
    with (
        theirs,
        subprocess.Popen(
            [sys.executable, "-c", program, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
        ) as left,
    ):
        try:
            assert left.stdout is not None
            assert left.stdout.readline() == b"ended\n"
            ours.close()
            assert left.wait(20) == 1
        finally:
            left.kill()
