"""The gRPC server: limits, gateway, health, and shutdown.

On SIGTERM, SIGINT or SIGHUP, health reports NOT_SERVING, new calls are refused, and running ones
finish within `drain_seconds`. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from hitherto_shared.auth.authenticate import Authenticator
from hitherto_shared.auth.departments import Departments
from hitherto_shared.config import SharedSettings
from hitherto_shared.lifeline import watch_starter
from hitherto_shared.metrics import CERTIFICATE_EXPIRY
from hitherto_shared.private_file import named_by, open_private, open_regular
from hitherto_shared.rpc.admission import Admission, requirements_of
from hitherto_shared.rpc.bodies import MAX_BODY_BYTES, MAX_REPLY_BYTES
from hitherto_shared.rpc.edge_settings import EdgeSettings
from hitherto_shared.rpc.gateway import Gateway
from hitherto_shared.rpc.health import SERVICE, HealthService
from hitherto_shared.rpc.repeated_lines import call_lines

logger = logging.getLogger("hitherto.server")

MAX_METADATA_BYTES = 16 * 1024
"""Maximum metadata of one call, including the credential. By default gRPC refuses some calls from 8
KiB on, at random."""

_CERTIFICATE_FILE = "HITHERTO_TLS_CERTIFICATE_FILE"
_CLIENT_CA_FILE = "HITHERTO_TLS_CLIENT_CA_FILE"
_KEEPALIVE_ANSWER_SECONDS = 20.0
_FILES_OF_OUR_OWN = 256
"""Descriptors that callers' connections leave for the database, files and model servers."""


@dataclass(frozen=True, slots=True)
class Servicer:
    """One gRPC service: its descriptor, its handlers, the generated function that adds them."""

    descriptor: ServiceDescriptor
    handlers: Any
    add_to_server: Callable[[Any, Any], None]


class ServerFailed(RuntimeError):
    """The server cannot listen; the message says where and why."""


def cannot_listen(listen: str, error: OSError) -> ServerFailed:
    """The error for an address that the system refuses, with what to do."""
    if error.errno == errno.EADDRINUSE:
        hint = "is another service there already?"
    elif isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        hint = "name an address of this machine, or 0.0.0.0 for all of them"
    else:
        hint = "name another port, or let this account use it"
    return ServerFailed(f"cannot listen on {listen}: {error.strerror}; {hint}")


class Server:
    """A server: build it, start it, wait for its end."""

    def __init__(
        self,
        settings: SharedSettings,
        listen: str,
        servicers: Iterable[Servicer],
        authenticator: Authenticator,
        *,
        departments: Departments,
        shares_port: bool = False,
    ) -> None:
        """A server that listens but does not answer yet.

        If `shares_port`, other processes of the same service listen on this port.

        Raises:
            ServerFailed: It cannot listen there.
            ValueError: It would send memories over a network without TLS, or a file for TLS cannot
                be used; the message names the variable.
        """
        settings.check_listen(listen)
        self._shares_port = shares_port
        servicers = list(servicers)
        descriptors = [servicer.descriptor for servicer in servicers]
        # Without authentication there is only one tenant.
        alone = settings.auth_mode(listen) == "off"
        gateway = Gateway(
            settings.model_copy(update={"tenant_share": 1.0}) if alone else settings,
            Admission(
                authenticator, departments, settings, operator_tenant=settings.operator(listen)
            ),
            requirements_of(descriptors),
        )
        self._settings = settings
        self._server = grpc.aio.server(
            interceptors=[gateway],
            # Two services that silently shared a port would each answer half of the calls.
            options=[*_options(settings), ("grpc.so_reuseport", int(shares_port))],
        )
        for servicer in servicers:
            servicer.add_to_server(servicer.handlers, self._server)
        names = [descriptor.full_name for descriptor in descriptors]
        self.health = HealthService(["", *names])
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        if settings.reflection:
            reflection.enable_server_reflection(
                [*names, SERVICE.full_name, reflection.SERVICE_NAME], self._server
            )
        self.port = self._bind(listen)

    def _bind(self, listen: str) -> int:
        credentials = tls_credentials(self._settings)
        try:
            if not self._shares_port:
                check_free(listen)
        except OSError as error:
            raise cannot_listen(listen, error) from None
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(listen))
            return int(self._server.add_secure_port(listen, credentials))
        except RuntimeError as error:
            why = "is another service there already?"
            raise ServerFailed(f"cannot listen on {listen}: {why} ({error})") from None

    async def start(self) -> None:
        """Start answering and report it in the health service."""
        await self._server.start()
        self.health.say(health_pb2.HealthCheckResponse.SERVING)

    async def say_of(self, name: str, answers: bool) -> None:
        """Set the health of a dependency of the process; its own stays unchanged."""
        status = health_pb2.HealthCheckResponse
        self.health.say_of(name, status.SERVING if answers else status.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Refuse new calls, let running ones finish for `grace` seconds."""
        self.health.end()
        await self._server.stop(grace)
        call_lines.flush()


def tls_credentials(settings: SharedSettings) -> grpc.ServerCredentials | None:
    """What callers see of the service's certificate; None without TLS.

    Raises:
        ValueError: A file cannot be used; the message names its variable.
    """
    if settings.tls_key_file is None or settings.tls_certificate_file is None:
        return None
    authority = settings.tls_client_ca_file
    files = _TlsFiles(settings.tls_key_file, settings.tls_certificate_file, authority)
    first = files.read()
    for told in expired_certificates(settings):
        logger.warning("%s; renew it", told)
    return grpc.dynamic_ssl_server_credentials(
        first,
        files.read_if_replaced,  # type: ignore[arg-type] # None is allowed: nothing is new
        authority is not None,
    )


class _TlsFiles:
    """The files for TLS: after one of them was replaced, new connections use what is there."""

    def __init__(self, key: Path, certificate: Path, authority: Path | None) -> None:
        self._key, self._certificate, self._authority = key, certificate, authority
        self._stamps = self._stamp()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """What they hold.

        Raises:
            ValueError: One cannot be used; the message names its variable.
        """
        with named_by("HITHERTO_TLS_KEY_FILE"), open_private(self._key) as file:
            key = file.read()
        chain, found = _read_certificates(self._certificate, _CERTIFICATE_FILE)
        with named_by("HITHERTO_TLS_KEY_FILE"):
            _check_key(key, chain)
        authority, used = None, {"server": found}
        if self._authority is not None:
            authority, used["client_ca"] = _read_certificates(self._authority, _CLIENT_CA_FILE)
        # Of what is used: the metric warns of the old certificate as long as a new one is refused.
        for shown_as, certificates in used.items():
            CERTIFICATE_EXPIRY.labels(shown_as).set(min(_ends(certificates)).timestamp())
        return grpc.ssl_server_certificate_configuration([(key, chain)], authority)

    def read_if_replaced(self) -> grpc.ServerCertificateConfiguration | None:
        """What they hold, if that is new and can be used; gRPC asks for each new connection."""
        found = self._stamp()
        if found == self._stamps:
            return None
        # Once for each change: the key is often written after the certificate.
        self._stamps = found
        try:
            return self.read()
        except (OSError, ValueError) as error:
            logger.warning("what replaced a file for TLS is not used: %s", error)
            return None

    def _stamp(self) -> tuple[object, ...]:
        """What changes when a file is replaced or written."""
        return tuple(map(_stamp, (self._key, self._certificate, self._authority)))


def _stamp(path: Path | None) -> tuple[int, ...] | None:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    # Of a change of rights, only the last tells.
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_ctime_ns


def expired_certificates(settings: SharedSettings) -> Iterator[str]:
    """What is wrong with certificates that no longer serve, though they can be read.

    Callers judge the service by the first certificate of its file. One authority of theirs may
    expire beside its successor.

    Raises:
        ValueError: A file cannot be used; the message names its variable.
    """
    now = datetime.now(UTC)
    if (path := settings.tls_certificate_file) is not None:
        ends = _ends(_read_certificates(path, _CERTIFICATE_FILE)[1])[0]
        if ends <= now:
            told = f"the certificate in {path} has expired on {ends:%Y-%m-%d}"
            yield f"{_CERTIFICATE_FILE}: {told}: no caller can connect"
    if (path := settings.tls_client_ca_file) is not None:
        ends = max(_ends(_read_certificates(path, _CLIENT_CA_FILE)[1]))
        if ends <= now:
            told = f"the authority in {path} has expired on {ends:%Y-%m-%d}"
            yield f"{_CLIENT_CA_FILE}: {told}: callers with certificates of it cannot connect"


def _ends(certificates: Iterable[x509.Certificate]) -> list[datetime]:
    return [each.not_valid_after_utc for each in certificates]


def _read_certificates(path: Path, setting: str) -> tuple[bytes, list[x509.Certificate]]:
    with named_by(setting), open_regular(path) as file:
        pem = file.read()
        try:
            return pem, x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise ValueError(f"{path} holds no certificate in PEM") from None


def _check_key(key: bytes, chain: bytes) -> None:
    """Raise ValueError if a key is not that of a certificate: gRPC says neither which nor why."""
    try:
        public = load_pem_private_key(key, None).public_key()
        certified = x509.load_pem_x509_certificates(chain)[0].public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("it holds no private key in PEM without a password") from None
    if certified != public:
        raise ValueError(f"it is not the key of the first certificate in {_CERTIFICATE_FILE}")


def _options(settings: EdgeSettings) -> list[tuple[str, int]]:
    """The gRPC options for connections; 0 in a setting leaves an option unlimited."""
    options = {
        "grpc.max_receive_message_length": MAX_BODY_BYTES,
        "grpc.max_send_message_length": MAX_REPLY_BYTES,
        "grpc.max_metadata_size": MAX_METADATA_BYTES,
        "grpc.absolute_max_metadata_size": MAX_METADATA_BYTES,
        "grpc.max_concurrent_streams": settings.max_streams_per_connection,
        # Clients may ping every second, and an early ping counts as a strike: the default of five
        # minutes would end long calls of ordinary clients with "too many pings".
        "grpc.http2.min_ping_interval_without_data_ms": 500,
        "grpc.keepalive_permit_without_calls": 1,
        # Our own pings detect connections whose other end has disappeared.
        "grpc.keepalive_time_ms": _milliseconds(settings.keepalive_seconds),
        "grpc.keepalive_timeout_ms": _milliseconds(_KEEPALIVE_ANSWER_SECONDS),
        "grpc.http2.max_pings_without_data": 0,
        "grpc.server_handshake_timeout_ms": _milliseconds(settings.handshake_seconds),
    }
    ends = {
        "grpc.max_connection_idle_ms": settings.max_connection_idle_seconds,
        "grpc.max_connection_age_ms": settings.max_connection_age_seconds,
        "grpc.max_connection_age_grace_ms": settings.max_connection_grace_seconds,
    }
    options |= {name: _milliseconds(seconds) for name, seconds in ends.items() if seconds}
    if (most := _max_connections(settings)) is not None:
        options["grpc.max_allowed_incoming_connections"] = most
    return list(options.items())


def _milliseconds(seconds: float) -> int:
    return round(min(seconds * 1000, 2**31 - 1))


def _max_connections(settings: EdgeSettings) -> int | None:
    """The configured limit, but never so many that no file can be opened any more."""
    if not settings.max_connections:
        return None
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(1, min(settings.max_connections, files - min(_FILES_OF_OUR_OWN, files // 2)))


def addresses(listen: str) -> list[tuple[int, int, int, tuple[Any, ...]]]:
    """The socket addresses of `host:port`: family, type, protocol, address.

    Raises:
        OSError: The host is unknown.
    """
    host, _, port = listen.rpartition(":")
    return [
        (family, kind, protocol, address)
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    ]


def check_free(listen: str) -> None:
    """Raise OSError if `host:port` is unavailable.

    GRPC gives the reason only in a log line of its own.
    """
    port = listen.rpartition(":")[2]
    if not port.isdecimal() or listen.startswith(("unix:", "unix-abstract:")):
        return
    for family, kind, protocol, address in addresses(listen):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)


def end_signal() -> asyncio.Event:
    """An event that the first SIGTERM, SIGINT or SIGHUP sets; the second ends the process.

    The end of a process that gave this one a lifeline sets it too. Of a terminal that is gone, its
    shell and the system may tell one after the other: a second SIGHUP changes nothing.
    """
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if not event.is_set():
            logger.info("%s: draining", number.name)
            event.set()
        elif number != signal.SIGHUP:
            logger.warning("second %s: ending now", number.name)
            os._exit(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # `nohup` lets it be ignored.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, received, number)

    def gone() -> None:
        logger.info("the process that started this one is gone: draining")
        event.set()

    watch_starter(sys.argv[1:], lambda: loop.call_soon_threadsafe(gone))
    return event
