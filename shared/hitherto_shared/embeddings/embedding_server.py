"""The way out to the embeddings of an OpenAI-compatible server: as cheap as a call can be.

A search waits for this call, so it does not go through the openai client, which takes four times
the processor time.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from hitherto_shared.beside import beside_loop
from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import ModelUnavailable
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    connection_failed,
    json_object,
    no_answer_within,
    not_an_address,
    not_reached_in_time,
    oversize,
    refusal_or_outage,
    unasked_encoding,
    usable_key,
    usable_timeout,
    usable_url,
)

# An idle connection is kept this long: opening one anew costs more than a whole search.
_KEEP_SECONDS = 60.0
# A server that does not let go of a connection must not hold up the end of a process.
_CLOSE_SECONDS = 2.0
# Above this size aiohttp wants a file: it sends one in pieces and lets others run in between.
_MAX_AT_ONCE = 512 * 1024
# What OpenAI's own client takes from the environment beside the key.
_FROM_ENVIRONMENT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


@dataclass(slots=True)
class _Trip:
    """One request on its way. `connected`: a connection was opened for it, not used again."""

    connected: bool = False


# Found by whatever is done for a request, in its task or in one started by it.
_trip: ContextVar[_Trip] = ContextVar("trip")


class EmbeddingServer:
    """A connection pool to one OpenAI-compatible server.

    It is bound to the loop of its first call. Redirects are not followed and cookies not kept.

    Args:
        base_url: Root of the API, such as `https://api.openai.com/v1`; empty means OpenAI.
        api_key: The key; a local server may need none.
        timeout: Seconds for a whole call, from the wait for a connection to the last byte.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(self, *, base_url: str | None, api_key: str | None, timeout: float) -> None:
        try:
            url = URL(usable_url(base_url))
        except ValueError:
            raise not_an_address() from None
        if not url.raw_host:
            raise not_an_address()
        self._key = usable_key(api_key)
        self._timeout = usable_timeout(timeout)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": _authorization(url, self._key),
            "Content-Type": "application/json",
            "User-Agent": "hitherto",
        } | {
            header: os.environ[variable]
            for header, variable in _FROM_ENVIRONMENT.items()
            if os.environ.get(variable)
        }
        self._root = url.with_user(None).with_fragment(None)
        self._proxy = proxy_for(self._root)
        self._tls = _tls() if "https" in (url.scheme, self._proxy and self._proxy.scheme) else True
        self._urls: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> dict[str, Any]:
        """Send one JSON request that may be repeated, and return the JSON object that comes back.

        Args:
            path: Below the base URL, such as `/embeddings`.
            body: The request.
            timeout: Seconds for this call; unset: the server's own.
            max_bytes: Largest reply.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured where
                the server refuses whatever is sent with these settings.
            RequestRejected: The server says no to the request.
            ModelMisbehaved: The reply is too large, compressed, or not a JSON object.
        """
        seconds = self._timeout if timeout is None else timeout
        url = self._urls.get(path) or self._urls.setdefault(path, self._below(path))
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        sent = text.encode("utf-8", "replace")
        try:
            async with asyncio.timeout(seconds):
                response = await self._send(url, sent)
                try:
                    content = await _read(response, max_bytes)
                finally:
                    # Of a reply that was read to its end the connection is back in the pool; any
                    # other is of no use any more.
                    response.close()
        # `from None`: the client's own errors quote the server, which may quote user text.
        except aiohttp.ServerTimeoutError:
            raise not_reached_in_time() from None
        except TimeoutError:
            raise no_answer_within(seconds) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise connection_failed(error) from None
        if not _successful(response):
            raise refusal_or_outage(
                response.status,
                response.headers,
                content,
                key=self._key,
                model_setting="EMBEDDING_MODEL",
            )
        return await beside_loop(len(content), json_object, content)

    async def close(self) -> None:
        """Close every connection, also those of calls under way."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await session.close()
            except TimeoutError:
                pass

    def _below(self, path: str) -> URL:
        whole = self._root.raw_path.rstrip("/") + path
        return self._root.with_path(whole, encoded=True).with_query(self._root.query)

    async def _send(self, url: URL, body: bytes) -> aiohttp.ClientResponse:
        """Send the request and return the reply, of which the body is still to be read.

        A server may close an idle connection at the very moment it is used again. A request that
        was lost in this way is sent a second time; aiohttp itself does so for GET only.
        """
        trip = _Trip()
        try:
            return await self._once(url, body, trip)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
            if trip.connected or not _unanswered(error):
                raise
        return await self._once(url, body, _Trip())

    async def _once(self, url: URL, body: bytes, trip: _Trip) -> aiohttp.ClientResponse:
        data = body if len(body) <= _MAX_AT_ONCE else io.BytesIO(body)
        session = self._opened()
        before = _trip.set(trip)
        try:
            return await session.post(url, data=data, proxy=self._proxy, allow_redirects=False)
        finally:
            _trip.reset(before)

    def _opened(self) -> aiohttp.ClientSession:
        """The session, made in the running loop at the first call."""
        if self._closed:
            raise ModelUnavailable("the way to the model server is closed: this process is ending")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=MAX_CONNECTIONS,
                    keepalive_timeout=_KEEP_SECONDS,
                    ssl=self._tls,
                    socket_factory=_new_socket,
                ),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                auto_decompress=False,
                # The proxy is known, and passwords of ~/.netrc are not for model servers.
                trust_env=False,
            )
        return self._session


def _authorization(url: URL, key: str) -> str:
    """The key, unless the address names a user and a password for a proxy before the server."""
    if url.user is None and url.password is None:
        return f"Bearer {key}"
    pair = f"{url.user or ''}:{url.password or ''}"
    return "Basic " + b64encode(pair.encode()).decode("ascii")


def _tls() -> ssl.SSLContext:
    """Trust what the openai client trusts."""
    import httpx2  # noqa: PLC0415 - a local server without TLS needs none of it

    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """The socket of a new connection, noted for the request that it is for."""
    _trip.get().connected = True
    family, kind, protocol = address[:3]
    return socket.socket(family=family, type=kind, proto=protocol)


def _unanswered(error: Exception) -> bool:
    """Whether the connection was lost before the reply began, as far as can be known."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    # With the beginning of a reply, `message` is that beginning.
    return not isinstance(error, aiohttp.ServerDisconnectedError) or isinstance(error.message, str)


def _successful(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read the body of a success whole, and of an error page what says enough.

    Raises:
        ModelMisbehaved: A success is, or announces to be, above `limit` bytes or is compressed.
    """
    plain = response.headers.get("Content-Encoding", "").strip().lower() in ("", "identity")
    if not _successful(response):
        return await _beginning(response) if plain else b""
    if not plain:
        raise unasked_encoding()
    if (response.content_length or 0) > limit:
        raise oversize(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            raise oversize(limit)
        pieces.append(piece)
    return b"".join(pieces)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    held = bytearray()
    async for piece in response.content.iter_any():
        held += piece
        if len(held) > MAX_ERROR_BYTES:
            break
    return bytes(held[:MAX_ERROR_BYTES])
