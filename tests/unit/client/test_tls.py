"""TLS: the client trusts the authority it was given, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from hitherto_client import Hitherto, HithertoCallError, RetryPolicy
from hitherto_client.command import main
from tests.certificates import Authority
from tests.unit.client.fake_services import Others, Recorder

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server with TLS, and the file that vouches for it."""
    authority = Authority(tmp_path, "ours")
    pair = authority.pair("server")
    files = pair.key.read_bytes(), pair.certificate.read_bytes()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((Others(Recorder()),))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([files]))
    server.start()
    yield f"127.0.0.1:{port}", authority.file
    server.stop(None).wait(10)


def test_another_one_is_not(
    secure: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, _ = secure
    other = Authority(tmp_path, "other").file
    with (
        Hitherto(address, tls_ca_file=other, retry=ONCE) as client,
        pytest.raises(HithertoCallError) as caught,
    ):
        client.get_context("sarah")
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    monkeypatch.setenv("HITHERTO_TLS_CA_FILE", str(other))
    assert main(["context", "sarah", "--retrieval", address]) == 3
    assert "HITHERTO_TLS_CA_FILE" in capsys.readouterr().err
