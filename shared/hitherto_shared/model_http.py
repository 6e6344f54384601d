"""Sends requests to a model server over HTTP, at a low cost, limited in time and size.

Chat and embeddings share it. It is aiohttp: every search embeds its query, and httpx, on which the
openai package sends by default, takes three times the CPU time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from types import SimpleNamespace

import aiohttp
from yarl import URL

from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import ModelUnavailable
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    ModelServer,
    no_answer_within,
    tls_context,
)

# Idle connections are kept this long: opening a new one costs more than a whole search.
_KEEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """`body` is its beginning if it is longer than permitted, or an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut_off: bool

    @property
    def successful(self) -> bool:
        """Whether the server did what it was asked for."""
        return 200 <= self.status < 300

    @property
    def encoding(self) -> str:
        """How the body is compressed; empty if it is not."""
        named = self.headers.get("Content-Encoding", "").strip().lower()
        return "" if named == "identity" else named


class ModelConnections:
    """A connection pool to one server, bound to the loop of its first call.

    Redirects are not followed and cookies not kept. Nothing is retried after an answer: the caller
    decides when to try again.

    If `resend`, a request is sent again if an idle connection was lost with it, as servers close
    those at any moment. It may then be paid for twice.

    Raises:
        ValueError: The proxy cannot be used; the message names the variable.
    """

    def __init__(self, server: ModelServer, *, resend: bool) -> None:
        self._server = server
        self._resend = resend
        self._proxy = proxy_for(server.root)
        schemes = {server.root.scheme, self._proxy.scheme if self._proxy else ""}
        self._tls = tls_context() if "https" in schemes else None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit what is sent inside, from the wait for a connection to the last byte.

        Raises:
            ModelUnavailable: It took longer, or the connection could not be made, or was lost.
        """
        if seconds <= 0:
            raise no_answer_within(0)
        try:
            async with asyncio.timeout(seconds):
                yield
        # `from None`: the client's messages may quote the address.
        except aiohttp.ServerTimeoutError:
            raise ModelUnavailable("the model server could not be reached in time") from None
        except TimeoutError:
            raise no_answer_within(seconds) from None
        except aiohttp.ClientHttpProxyError as error:
            raise self._server.proxy_refused(error.status) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._server.connection_failed(error) from None

    async def send(
        self, url: URL, headers: Mapping[str, str], body: bytes, *, max_bytes: int = MAX_REPLY_BYTES
    ) -> HttpReply:
        """POST a request; use it `within` a time, which also says what its errors mean.

        `headers` are all of the request's but those that describe its transfer. Of a success
        `max_bytes` are read, of an error `MAX_ERROR_BYTES`.
        """
        session = self._open()
        while True:
            trace = SimpleNamespace(reused=False)
            try:
                async with session.post(
                    url, headers=headers, data=BytesIO(body), allow_redirects=False,
                    proxy=self._proxy, trace_request_ctx=trace,
                ) as reply:  # fmt: skip
                    trace.reused = False
                    return await _received(reply, max_bytes)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not (self._resend and trace.reused) or self._closed:
                    raise

    async def close(self) -> None:
        """Close every connection, including those of running calls."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ModelUnavailable(
                "the connection to the model server is closed: this process is shutting down"
            )
        if self._session is None:
            reuse = aiohttp.TraceConfig()
            reuse.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                connector=aiohttp.TCPConnector(
                    limit=MAX_CONNECTIONS,
                    keepalive_timeout=_KEEP_SECONDS,
                    ssl=self._tls if self._tls is not None else True,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The whole call is limited by its caller.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trace_configs=[reuse],
            )
        return self._session


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    context.trace_request_ctx.reused = True


async def _received(reply: aiohttp.ClientResponse, max_bytes: int) -> HttpReply:
    """The reply, of which only as much is read as is permitted."""
    most = max_bytes if 200 <= reply.status < 300 else MAX_ERROR_BYTES
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > most:
            reply.close()
            break
    return HttpReply(reply.status, reply.headers, bytes(body[:most]), len(body) > most)
