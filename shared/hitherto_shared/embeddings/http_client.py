"""Asks a model server for JSON over HTTP, at a low cost, limited in time and size.

Every search embeds its query, so this is aiohttp rather than the openai package, which takes three
times its CPU time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import ModelMisbehaved, ModelUnavailable
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    ModelServer,
    no_answer_within,
    oversize,
    tls_context,
    work_of_json,
)
from hitherto_shared.offloading import in_thread_if_long

# Idle connections are kept this long: opening a new one costs more than a whole search.
_KEEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Reply:
    """`body` is its beginning if it is longer than permitted, or an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut_off: bool


class ModelHttp:
    """A connection pool to one server, bound to the loop of its first call.

    Redirects are not followed and cookies not kept. A request is repeated only if an idle
    connection was lost with it, as servers close those at any moment. Nothing is retried after an
    answer: the caller decides when to try again.

    Args:
        server: The server.
        timeout: Seconds for a whole call, from the wait for a connection to the last byte.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(self, server: ModelServer, *, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._headers = server.request_headers() | {"Accept-Encoding": "identity"}
        self._proxy = proxy_for(server.root)
        schemes = {server.root.scheme, self._proxy.scheme if self._proxy else ""}
        self._tls = tls_context() if "https" in schemes else None
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
        """Send one JSON request, and return the JSON object of the reply.

        Args:
            path: Below the root of the API, such as `/embeddings`.
            body: The request, with its `model`.
            timeout: Seconds for this call; unset: the client's own.
            max_bytes: Maximum size of the reply.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large, compressed, not a JSON object, or an error that
                is sent as a success.
        """
        seconds = self._timeout if timeout is None else timeout
        if seconds <= 0:
            raise no_answer_within(0)
        url = self._server.address(path, str(body["model"]))
        whole = {**body, **self._server.extra}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        try:
            async with asyncio.timeout(seconds):
                reply = await self._ask(url, text.encode("utf-8", "replace"), max_bytes)
        # `from None`: the client's messages may quote the address.
        except aiohttp.ServerTimeoutError:
            raise ModelUnavailable("the model server could not be reached in time") from None
        except TimeoutError:
            raise no_answer_within(seconds) from None
        except aiohttp.ClientHttpProxyError as error:
            raise self._server.proxy_refused(error.status) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._server.connection_failed(error) from None
        return await self._read(reply, max_bytes)

    async def close(self) -> None:
        """Close every connection, including those of running calls."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _read(self, reply: _Reply, max_bytes: int) -> dict[str, Any]:
        compressed = reply.headers.get("Content-Encoding", "").strip().lower() not in (
            "",
            "identity",
        )
        if not 200 <= reply.status < 300:
            content = b"" if compressed else reply.body
            raise self._server.refusal_or_outage(reply.status, reply.headers, content)
        if compressed:
            raise ModelMisbehaved(
                "the model server's reply has a Content-Encoding that was not requested; "
                "make the server or the proxy before it honour Accept-Encoding"
            )
        if reply.cut_off:
            raise oversize(max_bytes)
        work = work_of_json(reply.body)
        answer = await in_thread_if_long(work, self._server.json_object, reply.body)
        failure = self._server.failure_in_success(answer, reply.headers)
        if failure is not None:
            raise failure
        return answer

    async def _ask(self, url: URL, body: bytes, max_bytes: int) -> _Reply:
        """Send the request, and again over a new connection if an idle one was lost with it."""
        session = self._open()
        while True:
            trace = SimpleNamespace(reused=False)
            try:
                async with session.post(
                    url, data=BytesIO(body), allow_redirects=False, proxy=self._proxy,
                    trace_request_ctx=trace,
                ) as reply:  # fmt: skip
                    trace.reused = False
                    return await _received(reply, max_bytes)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not trace.reused or self._closed:
                    raise

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
                headers=self._headers,
                # The whole call is limited by its caller.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trace_configs=[reuse],
            )
        return self._session


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    context.trace_request_ctx.reused = True


async def _received(reply: aiohttp.ClientResponse, max_bytes: int) -> _Reply:
    """The reply, of which only as much is read as is permitted."""
    most = max_bytes if 200 <= reply.status < 300 else MAX_ERROR_BYTES
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > most:
            reply.close()
            break
    return _Reply(reply.status, reply.headers, bytes(body[:most]), len(body) > most)
