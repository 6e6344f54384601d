"""Channels: how a client connects to an address, and how stubs on it make their calls.

gRPC's own interceptors look every method up again at each call, and in grpcio 1.85 that ends the
process when another thread has closed the channel. Here the stubs' methods are made once.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from hitherto_client.calls import Calls, Metadata

_OPTIONS: tuple[tuple[str, int], ...] = (
    # A page of 1,000 long memories is larger than gRPC's default of 4 MiB.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # By default a channel waits up to two minutes before it looks for a restarted service.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Another client of this process must not pass its failed connections on to us.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for a channel that is encrypted.

    Attributes:
        authority: Who signed the services' certificates; None for no TLS.
        certificate: The caller's own certificate chain, where the services ask for one.
        key: Its private key.
    """

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What a channel is made with; None for no TLS.

        Raises:
            ValueError: A file cannot be read, or one is there without the other that it needs.
        """
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "a certificate goes with its key: set HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and "
                "HITHERTO_TLS_CLIENT_KEY_FILE, or neither"
            )
        if self.authority is None:
            if self.certificate is not None:
                raise ValueError("a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE")
            return None
        return grpc.ssl_channel_credentials(
            _read(self.authority, "TLS authority", "HITHERTO_TLS_CA_FILE"),
            _read(self.key, "key", "HITHERTO_TLS_CLIENT_KEY_FILE") if self.key else None,
            _read(self.certificate, "certificate", "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE")
            if self.certificate
            else None,
        )


def open_channel(address: str, tls: TlsFiles) -> grpc.Channel:
    """A channel to `address`, encrypted if there is an authority to check the server against.

    Raises:
        ValueError: The files for TLS are unusable.
    """
    options = list(_OPTIONS)
    if _is_loopback(address):
        # An HTTP proxy of the environment is meant for the outside world.
        options.append(("grpc.enable_http_proxy", 0))
    credentials = tls.credentials()
    if credentials is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, credentials, options)


def _read(file: Path, what: str, setting: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the file with the {what} cannot be read ({error.strerror}): check "
            f"{setting}, which names {file}"
        ) from None


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class CallingChannel(grpc.Channel):
    """A channel whose stubs add credential and ids to every call.

    Calls with one request and one reply are repeated where that is safe and end with
    HithertoCallError. Streams, and `future`, are made once and end with `grpc.RpcError`.
    """

    def __init__(self, channel: grpc.Channel, calls: Calls) -> None:
        """Put `calls` before `channel`, which stays the caller's to close."""
        self._channel = channel
        self._calls = calls

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """The RPC at this path, as stubs ask for it."""
        return _UnaryUnary(method, self._channel.unary_unary(method, *args, **options), self._calls)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """The RPC at this path, as stubs ask for it."""
        return _Streaming(self._channel.unary_stream(method, *args, **options), self._calls)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """The RPC at this path, as stubs ask for it."""
        return _Streaming(self._channel.stream_unary(method, *args, **options), self._calls)

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """The RPC at this path, as stubs ask for it."""
        return _Streaming(self._channel.stream_stream(method, *args, **options), self._calls)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """Watch the connection."""
        self._channel.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        """Stop watching the connection."""
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        """Close the channel beneath."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self.close()
        return None


class _UnaryUnary:
    def __init__(self, method: str, once: Any, calls: Calls) -> None:
        self._method = method
        self._once = once
        self._calls = calls

    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **others: Any,
    ) -> Any:
        return self._calls.make(
            self._method, self._once, request, timeout=timeout, metadata=metadata, **others
        )

    def with_call(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **others: Any,
    ) -> Any:
        return self._calls.make(
            self._method,
            self._once.with_call,
            request,
            timeout=timeout,
            metadata=metadata,
            **others,
        )

    def future(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **others: Any,
    ) -> Any:
        _, completed = self._calls.complete(metadata)
        return self._once.future(request, timeout=timeout, metadata=completed, **others)


class _Streaming:
    def __init__(self, once: Any, calls: Calls) -> None:
        self._once = once
        self._calls = calls

    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **others: Any,
    ) -> Any:
        _, completed = self._calls.complete(metadata)
        return self._once(request, timeout=timeout, metadata=completed, **others)
