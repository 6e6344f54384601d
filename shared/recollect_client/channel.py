"""Channels: how a client connects to an address."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import grpc

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


def open_channel(address: str, tls_ca_file: str | os.PathLike[str] | None) -> grpc.Channel:
    """A channel to `address`, encrypted if there is an authority to check the server against.

    Raises:
        ValueError: The file with the authority cannot be read.
    """
    options = list(_OPTIONS)
    if _is_loopback(address):
        # An HTTP proxy of the environment is meant for the outside world.
        options.append(("grpc.enable_http_proxy", 0))
    if tls_ca_file is None:
        return grpc.insecure_channel(address, options)
    try:
        authority = Path(tls_ca_file).read_bytes()
    except OSError as error:
        raise ValueError(
            f"the file with the TLS authority cannot be read ({error.strerror}): check "
            f"RECOLLECT_TLS_CA_FILE, which names {os.fspath(tls_ca_file)}"
        ) from None
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority), options)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
