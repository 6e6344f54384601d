"""The health probe of the containers, against a real server."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from hitherto_shared.rpc.probe import main, probe
from tests.certificates import Authority


@asynccontextmanager
async def server(
    status: int, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[str]:
    servicer = health.aio.HealthServicer()
    await servicer.set("", status)
    running = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, running)
    if credentials is None:
        port = running.add_insecure_port("127.0.0.1:0")
    else:
        port = running.add_secure_port("127.0.0.1:0", credentials)
    await running.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await running.stop(None)


async def test_a_serving_server_has_no_problem() -> None:
    async with server(health_pb2.HealthCheckResponse.SERVING) as address:
        assert await asyncio.to_thread(probe, address, timeout=120) is None


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


@pytest.mark.parametrize("host", ["", "memory.example", "*.memory.example"])
@pytest.mark.parametrize("mutual", [False, True])
async def test_a_service_with_tls_is_asked_as_its_environment_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    mutual: bool,
) -> None:
    """It trusts the certificate that the service serves, whoever signed it."""
    (tmp_path / "clients").mkdir()
    ours = Authority(tmp_path, "ours")
    served = ours.pair("service", host=host)
    clients = Authority(tmp_path / "clients", "theirs")
    credentials = grpc.ssl_server_credentials(
        [(served.key.read_bytes(), served.certificate.read_bytes())],
        clients.file.read_bytes() if mutual else None,
        mutual,
    )
    monkeypatch.setenv("HITHERTO_TLS_CERTIFICATE_FILE", str(served.certificate))
    if mutual:
        shown = clients.pair("probe")
        monkeypatch.setenv("HITHERTO_TLS_CLIENT_CERTIFICATE_FILE", str(shown.certificate))
        monkeypatch.setenv("HITHERTO_TLS_CLIENT_KEY_FILE", str(shown.key))
    async with server(health_pb2.HealthCheckResponse.SERVING, credentials) as address:
        monkeypatch.setattr(sys, "argv", ["probe", address, "--timeout", "30"])
        await asyncio.to_thread(main)
        # Another certificate is not trusted.
        other = Authority(tmp_path / "clients", "other").pair("other", host=host)
        monkeypatch.setenv("HITHERTO_TLS_CERTIFICATE_FILE", str(other.certificate))
        monkeypatch.setattr(sys, "argv", ["probe", address, "--timeout", "2"])
        with pytest.raises(SystemExit):
            await asyncio.to_thread(main)
        # What its authority has signed is, if that is named.
        monkeypatch.setenv("HITHERTO_TLS_CA_FILE", str(ours.file))
        monkeypatch.setattr(sys, "argv", ["probe", address, "--timeout", "30"])
        await asyncio.to_thread(main)
    assert "does not answer" in capsys.readouterr().err


def test_a_certificate_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HITHERTO_TLS_CERTIFICATE_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setattr(sys, "argv", ["probe", "127.0.0.1:1"])
    with pytest.raises(SystemExit):
        main()
    assert "missing.pem" in capsys.readouterr().err
