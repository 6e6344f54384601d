"""Where the services are and how to reach them: from arguments, else from the environment."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from hitherto_client.calls import Credential, Endpoint, RetryPolicy, countable

_File = str | os.PathLike[str] | None

DEFAULT_RETRIEVAL = "127.0.0.1:50051"
DEFAULT_EXTRACTION = "127.0.0.1:50052"
_LAST_PORT = 65_535
_NAMED_OTHERWISE = re.compile("(?:dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):")
"""Other forms of addresses that gRPC knows, such as `dns:///hitherto:50051`."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a connection is made from."""

    retrieval: Endpoint
    extraction: Endpoint
    credential: Credential | None
    tls: grpc.ChannelCredentials | None
    """None for no TLS."""
    timeout: float | None
    """Seconds for every call, retries included; None: the default of each call."""
    retry: RetryPolicy


def find_target(
    retrieval: str | None,
    extraction: str | None,
    *,
    api_key: str | None,
    token: str | Callable[[], str] | None,
    tls_files: Sequence[_File],
    timeout: float | None,
    retry: RetryPolicy | None,
) -> Target:
    """The target that the arguments of `Hitherto` and, for unset ones, the environment describe.

    `tls_files` are those with the authority, the client certificate and its key.

    Raises:
        TypeError: `timeout` is no number.
        ValueError: The key, the token or a file for TLS is unusable, there are both key and token,
            or `timeout` leaves no time.
    """
    env = os.environ
    if not (api_key or token):
        api_key, token = env.get("HITHERTO_API_KEY"), env.get("HITHERTO_TOKEN")
    return Target(
        *find_endpoints(retrieval, extraction),
        _credential(api_key, token),
        find_tls(*tls_files),
        countable(timeout),
        retry or RetryPolicy(),
    )


def find_endpoints(retrieval: str | None, extraction: str | None) -> tuple[Endpoint, Endpoint]:
    """The services at these addresses or, for unset ones, at those of the environment.

    Raises:
        ValueError: An address is that of a web page, or without a port.
    """
    env = os.environ
    return (
        _endpoint(
            "retrieval", retrieval or env.get("HITHERTO_RETRIEVAL_ADDRESS") or DEFAULT_RETRIEVAL
        ),
        _endpoint(
            "extraction",
            extraction or env.get("HITHERTO_EXTRACTION_ADDRESS") or DEFAULT_EXTRACTION,
        ),
    )


def _endpoint(name: str, address: str) -> Endpoint:
    scheme, found, rest = address.partition("://")
    if found and scheme.lower() in ("http", "https"):
        raise ValueError(
            f"the address of the {name} service is HOST:PORT, such as {rest.rstrip('/')}, and not "
            f"{address}"
        )
    host, _, port = address.rpartition(":")
    right = host and port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _LAST_PORT
    # gRPC would go to another port: 443 without one, and 34463 instead of 99999.
    if not right and _NAMED_OTHERWISE.match(address) is None:
        host = host or ("" if address.startswith(":") else address)
        known = DEFAULT_RETRIEVAL if name == "retrieval" else DEFAULT_EXTRACTION
        raise ValueError(
            f"the address of the {name} service is HOST:PORT, such as "
            f"{host or known.partition(':')[0]}:{known.rpartition(':')[2]}, and not {address}"
        )
    return Endpoint(name, address)


def find_tls(
    authority: _File = None, certificate: _File = None, key: _File = None
) -> grpc.ChannelCredentials | None:
    """What a channel is encrypted with; without an authority, nothing. An empty name is none.

    Unset files are those of the environment.

    Raises:
        ValueError: A file is unusable.
    """
    env = os.environ
    authority = authority or env.get("HITHERTO_TLS_CA_FILE")
    certificate = certificate or env.get("HITHERTO_TLS_CLIENT_CERTIFICATE_FILE")
    key = key or env.get("HITHERTO_TLS_CLIENT_KEY_FILE")
    if bool(certificate) != bool(key):
        raise ValueError(
            "a certificate goes with its key: set HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and "
            "HITHERTO_TLS_CLIENT_KEY_FILE, or neither"
        )
    if not authority:
        if certificate:
            raise ValueError("a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE")
        return None
    _check_tls(authority, certificate, key)
    return grpc.ssl_channel_credentials(
        _read(authority, "TLS authority", "HITHERTO_TLS_CA_FILE"),
        _read(key, "key", "HITHERTO_TLS_CLIENT_KEY_FILE"),
        _read(certificate, "certificate", "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE"),
    )


def _check_tls(authority: _File, certificate: _File, key: _File) -> None:
    """See that files for TLS can be used: gRPC would only say that there is no connection.

    Raises:
        ValueError: One cannot; the text names its setting. `_read` tells what cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # How strong a key must be is for gRPC to say.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with suppress(OSError):
        try:
            context.load_verify_locations(authority)
        except ssl.SSLError:
            raise ValueError(
                f"HITHERTO_TLS_CA_FILE: {authority} holds no certificate in PEM"
            ) from None
        if not certificate:
            return
        try:
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as error:
            why = "is not the key of the certificate"
            if error.reason != "KEY_VALUES_MISMATCH":
                why = "and the certificate are no such pair in PEM without a password"
            raise ValueError(
                f"HITHERTO_TLS_CLIENT_KEY_FILE: {key} {why} in "
                f"HITHERTO_TLS_CLIENT_CERTIFICATE_FILE, {certificate}"
            ) from None


def _read(file: _File, what: str, setting: str) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise ValueError(
            f"the file with the {what} cannot be read ({error.strerror}): check "
            f"{setting}, which names {file}"
        ) from None


def _credential(api_key: str | None, token: str | Callable[[], str] | None) -> Credential | None:
    """What to send; an empty text counts as nothing."""
    if api_key and token:
        raise ValueError(
            "there are an API key and a token: give one of them, or unset HITHERTO_API_KEY or "
            "HITHERTO_TOKEN"
        )
    if callable(token):
        provider = token
        return lambda: _checked_token(provider())
    text = _checked_token(token) if token and token.strip() else _checked_key(api_key or "")
    return None if text is None else lambda: text


def _checked_token(token: str) -> str:
    token = token.strip()
    if not token or not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("the token is empty or holds characters that no token has")
    return token


def _checked_key(key: str) -> str | None:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError(
            "the API key holds characters that no key has: copy it again as "
            "`hitherto keys create` printed it"
        )
    return key or None
