"""Asks a chat server through the openai package, limited in time and in the size of the reply.

The package knows the forms of address and of login, Azure's among them. Its own retries are off:
the caller's queue decides when to try again. Loading it takes a second and tens of megabytes, so
this module is imported only where a language model is configured.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping
from typing import Any

import httpx2
import openai

from hitherto_shared import long_json
from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import ModelMisbehaved, ModelUnavailable
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    ModelServer,
    basic_authorization,
    no_answer_within,
    oversize,
    tls_context,
    work_of_json,
)
from hitherto_shared.offloading import in_thread_if_long

_KEEP_SECONDS = 60.0
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
# How much longer JSON is than its compressed form, to judge the work of decompressing it.
_UNPACKED = 8
# What no longer holds of a body that has been read, and cookies, which are not kept.
_DROPPED_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_COOKIES = "set-cookie"

# They write addresses and headers, which may hold a password, into the log.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class ChatServer:
    """The chat endpoint of one server. Nothing is retried, redirects are not followed.

    Args:
        server: The server.
        timeout: Seconds for a whole call, to the last byte.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(self, server: ModelServer, *, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._client = _client(server)
        self._closed = False

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, and return the JSON object of the reply.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large, compressed in an unknown way, not a JSON
                object, or an error that is sent as a success.
        """
        if self._closed:
            raise ModelUnavailable(
                "the connection to the model server is closed: this process is shutting down"
            )
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._client.post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    body={**body, **self._server.extra},
                )
        # `from None`: the package's messages quote the server, and the system's the address.
        except TimeoutError:
            raise no_answer_within(self._timeout) from None
        except openai.APITimeoutError:
            raise ModelUnavailable("the model server could not be reached in time") from None
        except openai.APIConnectionError as error:
            if status := _status_of_proxy(error.__cause__):
                raise self._server.proxy_refused(status) from None
            raise self._server.connection_failed(error) from None
        except openai.APIStatusError as error:
            content = error.response.content
            raise self._server.refusal_or_outage(
                error.status_code, error.response.headers, content
            ) from None
        except (OSError, UnicodeError) as error:
            raise self._server.connection_failed(error) from None
        content = reply.content
        answer = await in_thread_if_long(
            work_of_json(content), self._server.json_object, content, long_json.loads
        )
        failure = self._server.failure_in_success(answer, reply.headers)
        if failure is not None:
            raise failure
        return answer

    async def close(self) -> None:
        """Release connections."""
        self._closed = True
        await self._client.close()


def _client(server: ModelServer) -> openai.AsyncOpenAI:
    root = server.root
    pair = basic_authorization(root)
    root = root.with_user(None)
    proxy = proxy_for(root)
    schemes = {root.scheme, proxy.scheme if proxy else ""}
    transport = httpx2.AsyncHTTPTransport(
        verify=tls_context() if "https" in schemes else False,
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEP_SECONDS),
        proxy=str(proxy) if proxy else None,
    )
    common: dict[str, Any] = {
        "max_retries": 0,
        "default_headers": {
            "Accept-Encoding": "gzip",
            "User-Agent": "hitherto",
            # An address may have a user and a password, for a proxy before the server.
            **({"Authorization": pair} if pair else {}),
            **server.headers,
        },
        "default_query": dict(root.query),
        "http_client": httpx2.AsyncClient(
            transport=_BoundedTransport(transport),
            # The whole call is limited by its caller.
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
        ),
    }
    address = str(root.with_query(None))
    if server.azure_version:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address,
            api_version=server.azure_version,
            api_key=None if server.azure_token else server.key,
            azure_ad_token=server.azure_token,
            **common,
        )
    return openai.AsyncOpenAI(base_url=address, api_key=server.key, **common)


def _status_of_proxy(error: BaseException | None) -> int:
    """The status with which a proxy refused a tunnel, which begins the message; 0 otherwise."""
    status = str(error)[:3] if isinstance(error, httpx2.ProxyError) else ""
    return int(status) if status.isascii() and status.isdecimal() else 0


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Reads every reply whole and decompressed, as far as its bound.

    The package reads the body of an error to its end, however long that is.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request.

        Raises:
            ModelMisbehaved: The body of a success is too large, or compressed in an unknown way.
        """
        response = await self._inner.handle_async_request(request)
        successful = 200 <= response.status_code < 300
        most = MAX_REPLY_BYTES if successful else MAX_ERROR_BYTES
        try:
            body = await _first(response.stream, most)
        finally:
            await response.aclose()
        try:
            body = await _decompressed(response.headers.get("content-encoding", ""), body, most)
            if len(body) > most:
                raise oversize(most)
        except ModelMisbehaved:
            if successful:
                raise
            body = body[:most] if "content-encoding" not in response.headers else b""
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in _DROPPED_HEADERS and name.lower() != _COOKIES
        ]
        return httpx2.Response(response.status_code, headers=kept, content=body, request=request)

    async def aclose(self) -> None:
        """Release connections."""
        await self._inner.aclose()


async def _first(stream: Any, most: int) -> bytes:
    """The first `most` bytes of a body, and one more if there are more."""
    body = bytearray()
    async for piece in stream:
        body += piece
        if len(body) > most:
            break
    return bytes(body[: most + 1])


async def _decompressed(encoding: str, body: bytes, most: int) -> bytes:
    """The body, or its first `most` bytes and one more.

    Raises:
        ModelMisbehaved: It is compressed in another way than was permitted.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _COMPRESSED:
        raise ModelMisbehaved(
            "the model server's reply has a Content-Encoding that was not requested; "
            "make the server or the proxy before it honour Accept-Encoding"
        )
    if len(body) > most:
        raise oversize(most)
    return await in_thread_if_long(_UNPACKED * len(body), _unpacked, body, most)


def _unpacked(body: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, most + 1)
    except zlib.error:
        raise ModelMisbehaved("the model server's reply is not the gzip it claims to be") from None
