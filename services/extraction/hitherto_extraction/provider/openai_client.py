"""Asks a chat server through the openai package, limited in time and in the size of the reply.

The package knows the forms of address and of login. Its own retries are off: the queue decides when
to try again. Loading it takes a second and tens of megabytes, so this module is imported only where
a language model is configured.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Any

import httpx2
import openai
from yarl import URL

from hitherto_shared import long_json
from hitherto_shared.model_api import ModelMisbehaved
from hitherto_shared.model_http import HttpReply, ModelConnections
from hitherto_shared.model_server import (
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    ModelServer,
    basic_authorization,
    oversize,
    work_of_json,
)
from hitherto_shared.offloading import in_thread_if_long

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
# How much longer JSON is than its compressed form, to judge the work of decompressing it.
_UNPACKED = 8
_OF_THE_TRANSFER = frozenset({"connection", "content-length", "transfer-encoding"})
# What no longer holds of a body that has been read, and cookies, which are not kept.
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding", "set-cookie"})

# It writes addresses, which may hold a password, into the log.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class ChatServer:
    """The chat endpoint of one server. Nothing is retried, redirects are not followed.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(self, server: ModelServer, *, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._connections = ModelConnections(server, resend=False)
        self._client = _client(server, self._connections)

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, and return the JSON object of the reply.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large, compressed in an unknown way, not a JSON
                object, or an error that is sent as a success.
        """
        try:
            async with self._connections.within(self._timeout):
                reply = await self._client.post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    body={**body, **self._server.extra},
                )
        # `from None`: the package's messages quote the server.
        except openai.APIConnectionError as error:
            raise self._server.connection_failed(error) from None
        except openai.APIStatusError as error:
            raise self._server.refusal_or_outage(
                error.status_code, error.response.headers, error.response.content
            ) from None
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
        await self._connections.close()


def _client(server: ModelServer, connections: ModelConnections) -> openai.AsyncOpenAI:
    root = server.root
    pair = basic_authorization(root)
    root = root.with_user(None)
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
            transport=_Transport(connections),
            # The whole call is limited by its caller.
            timeout=None,
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


class _Transport(httpx2.AsyncBaseTransport):
    """Sends what the package asks for, and hands it every reply whole and decompressed."""

    def __init__(self, connections: ModelConnections) -> None:
        self._connections = connections

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; errors as of `_body`."""
        headers = {k: v for k, v in request.headers.items() if k not in _OF_THE_TRANSFER}
        url = URL(str(request.url), encoded=True)
        reply = await self._connections.send(url, headers, request.content)
        return httpx2.Response(
            reply.status,
            headers=[(k, v) for k, v in reply.headers.items() if k.lower() not in _OF_THE_BODY],
            content=await _body(reply),
            request=request,
        )


async def _body(reply: HttpReply) -> bytes:
    """The body of a reply, decompressed; of an error as it came, if it cannot be read whole.

    That of a success must not be too large, or compressed in an unknown way.
    """
    most = MAX_REPLY_BYTES if reply.successful else MAX_ERROR_BYTES
    body = reply.body
    try:
        if reply.cut_off:
            raise oversize(most)
        if reply.encoding:
            if reply.encoding not in _COMPRESSED:
                raise ModelMisbehaved(
                    "the model server's reply has a Content-Encoding that was not requested; "
                    "make the server or the proxy before it honour Accept-Encoding"
                )
            body = await in_thread_if_long(_UNPACKED * len(body), _unpacked, body, most)
        if len(body) > most:
            raise oversize(most)
    except ModelMisbehaved:
        if reply.successful:
            raise
        return reply.body
    return body


def _unpacked(body: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, most + 1)
    except zlib.error:
        raise ModelMisbehaved("the model server's reply is not the gzip it claims to be") from None
