"""Reads a key set from a file or from a web address."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from pathlib import Path
from typing import Protocol

import aiohttp
from yarl import URL

from hitherto_shared.auth.key_set import MAX_BYTES
from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.private_file import NotRegular, open_regular

VARIABLE = "HITHERTO_JWT_JWKS"
_FETCH_SECONDS = 10.0
_PIECE = 16 * 1024


class KeysUnreachable(Exception):
    """The key set is unavailable.

    The message gives the reason and quotes neither place nor content.
    """


class KeySource(Protocol):
    """A source that can be read repeatedly."""

    @property
    def every(self) -> float:
        """Seconds between two refreshes in the background."""
        ...

    @property
    def between_surprises(self) -> float:
        """Minimum seconds between two refreshes for unknown keys."""
        ...

    async def read(self) -> bytes:
        """The text of the key set.

        Raises:
            KeysUnreachable: It is unavailable.
        """
        ...


class KeyFile:
    """A key set in a file, which may be replaced at any time."""

    every = 10.0
    between_surprises = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> bytes:
        """The file's bytes.

        Raises:
            KeysUnreachable: It is not there or cannot be read.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            with open_regular(self._path) as file:
                return file.read(MAX_BYTES + 1)
        except NotRegular:
            raise KeysUnreachable("it is a directory, a pipe or a device, and no file") from None
        except OSError as error:
            raise KeysUnreachable(
                f"the file cannot be read ({error.strerror or 'I/O error'})"
            ) from None


class KeyAddress:
    """A key set at an http or https address.

    It follows no redirects, accepts no compression, and reads no more than the maximum size of a
    key set. Certificates are checked against the system's authorities, or `SSL_CERT_FILE`.

    Args:
        url: The address. An https one is reached through the proxy in the environment.

    Raises:
        ValueError: That proxy cannot be used.
    """

    every = 300.0
    between_surprises = 60.0

    def __init__(self, url: URL) -> None:
        self._url = url
        self._proxy = proxy_for(url) if url.scheme == "https" else None

    async def read(self) -> bytes:
        """The body of the reply.

        Raises:
            KeysUnreachable: The server is unreachable, is slow, or replies with something else.
        """
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                return await self._fetch()
        except TimeoutError:
            raise KeysUnreachable(f"the server took more than {_FETCH_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The client's own message quotes the address, which may contain a password.
            raise KeysUnreachable(
                f"the server cannot be reached ({type(error).__name__})"
            ) from None

    async def _fetch(self) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            aiohttp.ClientSession(
                auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), headers=headers
            ) as session,
            session.get(self._url, allow_redirects=False, proxy=self._proxy) as response,
        ):
            if response.status != 200:
                raise KeysUnreachable(f"the server answered {response.status}")
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise KeysUnreachable(
                    "the server compresses although the request does not permit it"
                )
            body = bytearray()
            async for piece in response.content.iter_chunked(_PIECE):
                body += piece
                if len(body) > MAX_BYTES:
                    break
            return bytes(body)


def key_source(place: str) -> KeySource:
    """The source that a path or an address names.

    Raises:
        ValueError: It is an address that cannot be used; the message names the variable.
    """
    place = place.strip()
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place):
        return KeyFile(Path(place))
    try:
        url = URL(place)
    except ValueError:
        url = URL()
    host = url.host or ""
    if not host or (url.scheme != "https" and not (url.scheme == "http" and is_local(host))):
        raise ValueError(
            f"{VARIABLE} must be the path of a file or an https address (http only on loopback): "
            "an attacker who can change the keys in transit can sign any token"
        )
    return KeyAddress(url.with_fragment(None))


def is_local(host: str) -> bool:
    """Whether a host is this machine, by a name or address that no other one has."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
