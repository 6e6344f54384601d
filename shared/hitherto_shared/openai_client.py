"""Calls an OpenAI-compatible server through the openai client, limited in time and size.

Nothing is retried here: the caller's queue decides when to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import anyio  # noqa: F401 - httpx2 would import it in the middle of the first call
import httpx2
import openai

from hitherto_shared import long_json
from hitherto_shared.bounded_body import ACCEPT_ENCODING, bound
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    connection_failed,
    json_object,
    no_answer_within,
    not_reached_in_time,
    refusal_or_outage,
    usable_key,
    usable_timeout,
    usable_url,
)
from hitherto_shared.offloading import beside_loop

_reply_limit: ContextVar[int] = ContextVar("reply_limit", default=MAX_REPLY_BYTES)


class OpenAIServer:
    """A connection pool to one OpenAI-compatible server.

    Args:
        base_url: Root of the API, such as `https://api.openai.com/v1`; empty means OpenAI.
        api_key: The key; a local server may need none.
        timeout: Seconds for a whole call, from the wait for a connection to the last byte.

    Raises:
        ValueError: The URL or the key cannot be used; the message names the variable to set.
    """

    def __init__(self, *, base_url: str | None, api_key: str | None, timeout: float) -> None:
        url = usable_url(base_url)
        self._key = usable_key(api_key)
        self._timeout = usable_timeout(timeout)
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=50),
            headers={"Accept-Encoding": ACCEPT_ENCODING},
            event_hooks={"response": [_bound_reply]},
        )
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=self._key, max_retries=0, http_client=self._http
        )

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> dict[str, Any]:
        """Send one JSON request and return the JSON object of the reply.

        The reply is parsed directly, not with the client's models, which accept any form.

        Args:
            path: Below the base URL, such as `/chat/completions`.
            body: The request.
            timeout: Seconds for this call; unset: the server's own.
            max_bytes: Maximum size of the decompressed reply.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large or not a JSON object.
        """
        seconds = self._timeout if timeout is None else timeout
        limit = _reply_limit.set(max_bytes)
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(path, cast_to=httpx2.Response, body=dict(body))
        # `from None`: the client's own errors quote the server, which may quote user text.
        except TimeoutError:
            raise no_answer_within(seconds) from None
        except openai.APIStatusError as error:
            reply = error.response
            raise refusal_or_outage(
                reply.status_code,
                reply.headers,
                reply.content,
                key=self._key,
                model_setting="MEMORY_EXTRACTION_MODEL",
            ) from None
        except openai.APITimeoutError:
            raise not_reached_in_time() from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise connection_failed(error) from None
        finally:
            _reply_limit.reset(limit)
        content = response.content
        return await beside_loop(len(content), json_object, content, long_json.loads)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


async def _bound_reply(response: httpx2.Response) -> None:
    """Limit the body of this call's reply before the client reads it."""
    if response.is_success:
        bound(response, limit=_reply_limit.get(), cut=False)
    else:
        # The status is enough: of an endless error page only the beginning is read.
        bound(response, limit=MAX_ERROR_BYTES, cut=True)
