"""TLS, and row 64: callers show a certificate of the named authority, or are not let in."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import ValidationError

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2_grpc as stubs
from hitherto_client import Hitherto, HithertoCallError
from hitherto_client.command.output import UNREACHABLE, Output, report
from hitherto_client.console.failures import explain
from hitherto_client.errors import read_error
from hitherto_extraction.doctor import examine
from hitherto_retrieval import __main__ as retrieval_process
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.examination import Diagnosis
from hitherto_shared.metrics import REGISTRY
from tests.certificates import Authority, Pair
from tests.faults.relay import Relay


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def settings(
    conninfo: str, folder: Path, service: Pair | None, clients: Path | None, **given: Any
) -> RetrievalSettings:
    return RetrievalSettings(
        **{
            "database_url": conninfo,
            "data_dir": folder / "data",
            "auth": "off",
            "retrieval_listen": "127.0.0.1:0",
            "tls_certificate_file": service.certificate if service else None,
            "tls_key_file": service.key if service else None,
            "tls_client_ca_file": clients,
            **given,
        }
    )


def showing(authority: Path, shown: Pair | None) -> grpc.ChannelCredentials:
    """What a caller connects with who shows this certificate."""
    return grpc.ssl_channel_credentials(
        authority.read_bytes(),
        shown.key.read_bytes() if shown else None,
        shown.certificate.read_bytes() if shown else None,
    )


async def answered(channel: grpc.aio.Channel) -> grpc.StatusCode:
    """How a call over the channel ends, which is closed afterwards."""
    async with channel:
        call = stubs.RetrievalServiceStub(channel).ListMemories(
            pb.ListMemoriesRequest(user_id="ana"), timeout=30
        )
        code = await call.code()
        assert isinstance(code, grpc.StatusCode)
        return code


async def test_row_64_only_a_certificate_of_the_named_authority_opens_the_door(
    conninfo: str, tmp_path: Path, ours: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, caller = Authority(tmp_path, "foreign"), ours.pair("caller")
    given = settings(conninfo, tmp_path, ours.pair("service"), ours.file)
    async with retrieval_process.running(given, conninfo) as server:
        address = f"127.0.0.1:{server.port}"
        # `ours` expires within the hour, and so does what it signs.
        for file in ("server", "client_ca"):
            expiry = REGISTRY.get_sample_value(
                "hitherto_tls_certificate_expiry_timestamp_seconds", {"file": file}
            )
            assert 0 < (expiry or 0) - time.time() <= 3_600

        async def shown(pair: Pair | None) -> grpc.StatusCode:
            return await answered(grpc.aio.secure_channel(address, showing(ours.file, pair)))

        assert await shown(caller) is grpc.StatusCode.OK
        for refused in (None, foreign.pair("stranger"), ours.pair("late", hours=-1)):
            assert await shown(refused) is grpc.StatusCode.UNAVAILABLE
        assert await answered(grpc.aio.insecure_channel(address)) is grpc.StatusCode.UNAVAILABLE
        # Whoever was refused does not keep the next one out.
        assert await shown(ours.pair("another")) is grpc.StatusCode.OK

        # The client shows the certificate that the environment names.
        def asked() -> bool:
            with Hitherto(address, tls_ca_file=ours.file, timeout=120) as client:
                return not list(client.memories("ana"))

        monkeypatch.setenv("HITHERTO_TLS_CLIENT_CERTIFICATE_FILE", str(caller.certificate))
        monkeypatch.setenv("HITHERTO_TLS_CLIENT_KEY_FILE", str(caller.key))
        assert await asyncio.to_thread(asked)


async def test_a_renewed_certificate_is_used_without_a_restart(
    conninfo: str, tmp_path: Path, ours: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, service = Authority(tmp_path, "theirs", hours=3), ours.pair("service")
    clients = tmp_path / "clients.pem"
    clients.write_bytes(ours.file.read_bytes())
    given = settings(conninfo, tmp_path, service, clients)
    callers = {each: each.pair(f"caller {each.file.stem}") for each in (ours, theirs)}
    async with retrieval_process.running(given, conninfo) as server:

        async def trusting(authority: Authority) -> grpc.StatusCode:
            showing_it = showing(authority.file, callers[authority])
            return await answered(grpc.aio.secure_channel(f"127.0.0.1:{server.port}", showing_it))

        def left() -> float:
            """Seconds until the certificate in use expires, as the metric has it."""
            expiry = REGISTRY.get_sample_value(
                "hitherto_tls_certificate_expiry_timestamp_seconds", {"file": "server"}
            )
            return (expiry or 0) - time.time()

        assert await trusting(ours) is grpc.StatusCode.OK
        renewed = theirs.pair("renewed", hours=2)
        # Between the two, the certificate is not that of the key.
        renewed.certificate.replace(service.certificate)
        assert await trusting(ours) is grpc.StatusCode.OK
        assert "what replaced a file for TLS is not used" in caplog.text
        assert "HITHERTO_TLS_KEY_FILE" in caplog.text
        assert left() <= 3_600
        renewed.key.chmod(0o644)
        renewed.key.replace(service.key)
        assert await trusting(ours) is grpc.StatusCode.OK
        service.key.chmod(0o600)
        assert await trusting(ours) is grpc.StatusCode.UNAVAILABLE
        assert left() > 3_600
        clients.write_bytes(theirs.file.read_bytes())
        assert await trusting(theirs) is grpc.StatusCode.OK
        assert await trusting(ours) is grpc.StatusCode.UNAVAILABLE


async def test_tls(conninfo: str, tmp_path: Path, ours: Authority) -> None:
    """For any caller; in clear, and for who does not trust the service, nothing is answered."""
    given = settings(
        conninfo, tmp_path, ours.pair("service"), None, retrieval_listen="0.0.0.0:0", auth="api-key"
    )
    async with retrieval_process.running(given, conninfo) as server:
        address = f"127.0.0.1:{server.port}"
        trusting, strange = showing(ours.file, None), grpc.ssl_channel_credentials()
        for channel, code in (
            (grpc.aio.secure_channel(address, trusting), grpc.StatusCode.UNAUTHENTICATED),
            (grpc.aio.insecure_channel(address), grpc.StatusCode.UNAVAILABLE),
            (grpc.aio.secure_channel(address, strange), grpc.StatusCode.UNAVAILABLE),
        ):
            assert await answered(channel) is code


def test_a_certificate_without_its_key_or_without_tls_is_told(
    tmp_path: Path, ours: Authority
) -> None:
    caller = ours.pair("caller")
    with pytest.raises(ValueError, match="goes with its key"):
        Hitherto(tls_ca_file=ours.file, tls_certificate_file=caller.certificate)
    with pytest.raises(ValueError, match="HITHERTO_TLS_CA_FILE"):
        Hitherto(tls_certificate_file=caller.certificate, tls_key_file=caller.key)
    with pytest.raises(ValueError, match="HITHERTO_TLS_CLIENT_KEY_FILE, which names"):
        Hitherto(
            tls_ca_file=ours.file,
            tls_certificate_file=caller.certificate,
            tls_key_file=tmp_path / "missing.key",
        )


async def test_why_there_is_no_connection_is_told(
    conninfo: str, tmp_path: Path, ours: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the client, the command and the console alike, with what to do about it."""

    def told(port: int, authority: Path | None) -> str:
        with (
            Hitherto(f"127.0.0.1:{port}", tls_ca_file=authority, timeout=60) as client,
            pytest.raises(HithertoCallError) as failed,
        ):
            list(client.memories("ana"))
        error = failed.value
        assert error.no_connection, error.message
        assert error.no_connection in str(error)
        assert error.no_connection in explain(error).text
        assert report(error, Output(as_json=False)) == UNREACHABLE
        assert error.no_connection in " ".join(capsys.readouterr().err.split())
        return error.no_connection

    foreign = Authority(tmp_path, "foreign")
    for pair, callers, trusted, why in (
        (ours.pair("late", hours=-1), None, ours.file, "its certificate has expired"),
        (ours.pair("far", host="elsewhere.example"), None, ours.file, "for another host"),
        (foreign.pair("strange"), None, ours.file, "holds no authority of its certificate"),
        (ours.pair("good"), None, None, "with TLS for callers without HITHERTO_TLS_CA_FILE"),
        (ours.pair("asking"), ours.file, ours.file, "without a client certificate that it trusts"),
        (None, None, ours.file, "unset HITHERTO_TLS_CA_FILE"),
    ):
        given = settings(conninfo, tmp_path, pair, callers)
        async with retrieval_process.running(given, conninfo) as server:
            assert why in await asyncio.to_thread(told, server.port, trusted)


async def test_a_connection_that_is_lost_is_told_as_a_service_that_is_gone(
    conninfo: str, tmp_path: Path
) -> None:
    async with (
        retrieval_process.running(settings(conninfo, tmp_path, None, None), conninfo) as server,
        Relay(server.port) as relay,
        grpc.aio.insecure_channel(relay.address) as channel,
    ):
        changes = stubs.RetrievalServiceStub(channel).WatchMemories(pb.WatchMemoriesRequest())
        await changes.read()
        relay.cut()
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await changes.read()
    error = read_error(lost.value, service="retrieval", address=relay.address)
    assert error.no_connection == "", error.message
    assert "start it with `hitherto up`" in str(error)
    assert "Is it running?" in explain(error).text


def test_files_that_are_no_certificates_are_told(tmp_path: Path, ours: Authority) -> None:
    """At once, and not as a service that cannot be reached."""
    caller, other = ours.pair("caller"), ours.pair("other")
    garbage = tmp_path / "garbage"
    garbage.write_text("-----BEGIN nothing")
    for authority, certificate, key, told in (
        (garbage, None, None, "HITHERTO_TLS_CA_FILE: .*garbage holds no certificate"),
        (garbage / "below", None, None, "check HITHERTO_TLS_CA_FILE, which names"),
        (ours.file, caller.certificate, garbage / "below", "KEY_FILE, which names"),
        (ours.file, caller.certificate, other.key, "is not the key of the certificate"),
        (ours.file, caller.certificate, garbage, "no such pair in PEM"),
        (ours.file, garbage, caller.key, "no such pair in PEM"),
    ):
        with pytest.raises(ValueError, match=told):
            Hitherto(tls_ca_file=authority, tls_certificate_file=certificate, tls_key_file=key)


async def test_a_certificate_that_has_expired_is_told_by_the_service_and_the_doctor(
    conninfo: str,
    tmp_path: Path,
    ours: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = ours.pair("late", hours=-1)
    told = f"HITHERTO_TLS_CERTIFICATE_FILE: the certificate in {late.certificate} has expired"
    async with retrieval_process.running(settings(conninfo, tmp_path, late, None), conninfo):
        assert told in caplog.text
    doctored(monkeypatch, conninfo, tmp_path, late)
    (fault,) = await examined()
    assert (fault.state, told in fault.told) == ("fault", True)


def doctored(monkeypatch: pytest.MonkeyPatch, conninfo: str, folder: Path, service: Pair) -> None:
    """Make the environment that of an installation with this certificate."""
    monkeypatch.setenv("HITHERTO_TLS_CERTIFICATE_FILE", str(service.certificate))
    monkeypatch.setenv("HITHERTO_TLS_KEY_FILE", str(service.key))
    monkeypatch.setenv("DATABASE_URL", conninfo)
    monkeypatch.setenv("HITHERTO_DATA_DIR", str(folder / "data"))


async def examined() -> list[Diagnosis]:
    """What the doctor says of certificates."""
    found = await asyncio.to_thread(examine)
    return [each for each in found if each.check == "certificate"]


async def test_what_has_expired_beside_its_successor_is_no_fault(
    conninfo: str,
    tmp_path: Path,
    ours: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An old authority of callers, or at the end of the chain that the service shows."""
    old, own = Authority(tmp_path, "old", hours=-1), ours.pair("service")
    chain, clients = tmp_path / "chain.pem", tmp_path / "clients.pem"
    chain.write_bytes(own.certificate.read_bytes() + old.file.read_bytes())
    clients.write_bytes(old.file.read_bytes() + ours.file.read_bytes())
    given = settings(conninfo, tmp_path, Pair(chain, own.key), clients)
    async with retrieval_process.running(given, conninfo) as server:
        assert "has expired" not in caplog.text
        shown = showing(ours.file, ours.pair("caller"))
        address = f"127.0.0.1:{server.port}"
        assert await answered(grpc.aio.secure_channel(address, shown)) is grpc.StatusCode.OK
    doctored(monkeypatch, conninfo, tmp_path, Pair(chain, own.key))
    monkeypatch.setenv("HITHERTO_TLS_CLIENT_CA_FILE", str(clients))
    assert await examined() == []
    monkeypatch.setenv("HITHERTO_TLS_CLIENT_CA_FILE", str(old.file))
    (fault,) = await examined()
    assert "callers with certificates of it cannot connect" in fault.told


async def test_an_authority_that_cannot_be_used_ends_the_start(
    conninfo: str, tmp_path: Path, ours: Authority
) -> None:
    given = settings(conninfo, tmp_path, ours.pair("service"), tmp_path / "missing.pem")
    with pytest.raises(ValueError, match=r"HITHERTO_TLS_CLIENT_CA_FILE: .*missing\.pem"):
        async with retrieval_process.running(given, conninfo):
            raise AssertionError("it listened")
    with pytest.raises(ValidationError, match="HITHERTO_TLS_CERTIFICATE_FILE"):
        RetrievalSettings(database_url=conninfo, tls_client_ca_file=ours.file)
