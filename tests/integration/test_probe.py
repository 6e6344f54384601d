"""The health probe of the containers, against a real server."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from hitherto_shared.rpc.probe import main, probe


@asynccontextmanager
async def server(status: int) -> AsyncIterator[str]:
    servicer = health.aio.HealthServicer()
    await servicer.set("", status)
    running = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, running)
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await running.stop(None)


async def test_a_serving_server_has_no_problem() -> None:
    async with server(health_pb2.HealthCheckResponse.SERVING) as address:
        assert await asyncio.to_thread(probe, address, timeout=30) is None


async def test_a_server_that_drains_is_told_apart_from_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server(health_pb2.HealthCheckResponse.NOT_SERVING) as address:
        monkeypatch.setattr(sys, "argv", ["probe", address, "--timeout", "30"])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)
    assert ended.value.code == 1
    assert "NOT_SERVING" in capsys.readouterr().err


def test_a_silent_address_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert probe(address, timeout=0.5) == f"{address} does not answer (DEADLINE_EXCEEDED)"
