"""TLS: the client trusts the authority it was given, and nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from concurrent import futures
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hitherto.v1 import retrieval_service_pb2_grpc
from hitherto_client import Hitherto, HithertoCallError, RetryPolicy
from hitherto_client.command import main
from tests.unit.client.fake_services import PATIENT_SECONDS, FakeRetrieval, Recorder, make

ONCE = RetryPolicy(attempts=1)


def certificate() -> tuple[bytes, bytes]:
    """A key and a self-signed certificate for the loopback address, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hitherto test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem, signed.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server with TLS, and the file that vouches for it."""
    key, signed = certificate()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(
        make(FakeRetrieval, Recorder()), server
    )
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, signed)]))
    server.start()
    authority = tmp_path / "authority.pem"
    authority.write_bytes(signed)
    yield f"127.0.0.1:{port}", authority
    server.stop(None).wait(10)


def test_the_given_authority_is_trusted(secure: tuple[str, Path]) -> None:
    address, authority = secure
    with Hitherto(address, tls_ca_file=authority, retry=ONCE) as client:
        grpc.channel_ready_future(client.connection.channels["retrieval"]).result(PATIENT_SECONDS)
        client.get_context("sarah")


def test_another_one_is_not(
    secure: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, _ = secure
    other = tmp_path / "other.pem"
    other.write_bytes(certificate()[1])
    with (
        Hitherto(address, tls_ca_file=other, retry=ONCE) as client,
        pytest.raises(HithertoCallError) as caught,
    ):
        client.get_context("sarah")
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    monkeypatch.setenv("HITHERTO_TLS_CA_FILE", str(other))
    assert main(["context", "sarah", "--retrieval", address]) == 3
    assert "HITHERTO_TLS_CA_FILE" in capsys.readouterr().err
