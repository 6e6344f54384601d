"""Reads a key set from a web address."""

from __future__ import annotations

import asyncio

import aiohttp
from yarl import URL

from hitherto_shared.auth.key_set import MAX_BYTES, KeysUnreachable
from hitherto_shared.embeddings.proxies import proxy_for

_FETCH_SECONDS = 10.0
_PIECE = 16 * 1024


class KeyAddress:
    """A key set at an http or https address, the latter by way of the environment's proxy.

    It follows no redirects, accepts no compression, and reads no more than the maximum size of a
    key set. Certificates are checked against the system's authorities, or `SSL_CERT_FILE`.

    Raises:
        ValueError: That proxy cannot be used.
    """

    every = 300.0
    between_surprises = 60.0

    def __init__(self, url: URL) -> None:
        self._url = url
        self._proxy = proxy_for(url) if url.scheme == "https" else None

    async def read(self) -> bytes:
        """The body of the reply; see `KeySource`."""
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
