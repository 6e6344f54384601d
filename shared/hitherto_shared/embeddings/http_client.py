"""Asks an embedding server for JSON.

Every search embeds its query, so requests are built here rather than by the openai package, which
takes more CPU time than the rest of the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hitherto_shared.model_api import ModelMisbehaved
from hitherto_shared.model_http import HttpReply, ModelConnections
from hitherto_shared.model_server import MAX_REPLY_BYTES, ModelServer, oversize, work_of_json
from hitherto_shared.offloading import in_thread_if_long

_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class EmbeddingServer:
    """One model's address on a server, with connections that its calls share.

    A request is repeated only if an idle connection was lost with it.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(self, server: ModelServer, model: str, *, timeout: float) -> None:
        self._server = server
        self._address = server.address("/embeddings", model)
        self._timeout = timeout
        self._headers = server.request_headers() | {"Accept-Encoding": "identity"}
        self._connections = ModelConnections(server, resend=True)

    async def post(
        self,
        body: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> dict[str, Any]:
        """Send one JSON request, and return the JSON object of the reply.

        Without `timeout`, the client's own applies.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large, compressed, not a JSON object, or an error that
                is sent as a success.
        """
        content = _encoded({**body, **self._server.extra}).encode("utf-8", "replace")
        async with self._connections.within(self._timeout if timeout is None else timeout):
            reply = await self._connections.send(
                self._address, self._headers, content, max_bytes=max_bytes
            )
        return await self._read(reply, max_bytes)

    async def close(self) -> None:
        """Close every connection, including those of running calls."""
        await self._connections.close()

    async def _read(self, reply: HttpReply, max_bytes: int) -> dict[str, Any]:
        if not reply.successful:
            content = b"" if reply.encoding else reply.body
            raise self._server.refusal_or_outage(reply.status, reply.headers, content)
        if reply.encoding:
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
