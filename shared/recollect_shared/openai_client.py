"""The one way out to an OpenAI-compatible server: bounded in time and size, errors in our words.

Chat and embeddings share it, so that an outage, a refusal and a broken answer mean the same thing
for both (see `model_api`). Nothing is retried here: the caller's queue knows when to try again.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

import httpx2
import openai

from recollect_shared.bounded_body import ACCEPT_ENCODING, bound
from recollect_shared.model_api import ModelMisbehaved, ModelRefused, ModelUnavailable

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_REPLY_BYTES = 8 * 1024 * 1024
MAX_RETRY_AFTER = 3600.0
MAX_REPLY_KEPT = 64 * 1024
"""Bytes of a reply that nothing could be made of, for `ModelMisbehaved.reply`."""

_MAX_ERROR_BYTES = 64 * 1024
_CONNECT_SECONDS = 10.0
# A local server wants no key, but the client insists on sending one.
_NO_KEY = "no-key-needed"
_OUTAGE_4XX = frozenset({408, 409, 425, 429})
# The server says it will never do this; every other 5xx is an outage.
_PERMANENT_5XX = frozenset({501, 505})
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

_reply_limit: ContextVar[int] = ContextVar("reply_limit", default=MAX_REPLY_BYTES)


class RequestRejected(ModelRefused):
    """The server refused the request itself (a 4xx that is not an outage).

    Attributes:
        status: The HTTP status.
        detail: What the server wrote, in lower case. It may quote user text, so it decides what to
            do next and is never shown or logged.
    """

    def __init__(self, message: str, *, status: int, detail: str) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail

    def names(self, *words: str) -> bool:
        """Whether the server's complaint contains one of `words`, given in lower case."""
        return any(word in self.detail for word in words)


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
        url = (base_url or "").strip() or DEFAULT_BASE_URL
        if not re.match(r"https?://[^/\s]+", url):
            raise ValueError(
                "OPENAI_BASE_URL must be an http or https address such as " + DEFAULT_BASE_URL
            )
        key = (api_key or "").strip() or _NO_KEY
        if not (key.isascii() and key.isprintable()):
            raise ValueError("OPENAI_API_KEY holds characters that no key has: copy it again")
        if not timeout > 0:
            raise ValueError("the timeout of the model server must be above 0 seconds")
        self._timeout = timeout
        self._key = key
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=200, max_keepalive_connections=50),
            headers={"Accept-Encoding": ACCEPT_ENCODING},
            event_hooks={"response": [_bound_reply]},
        )
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=key, max_retries=0, http_client=self._http
        )

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> dict[str, Any]:
        """Send one JSON request and return the JSON object that comes back.

        The reply is read as it is, not through the client's models: those accept any shape.

        Args:
            path: Below the base URL, such as `/embeddings`.
            body: The request.
            timeout: Seconds for this call; unset: the server's own.
            max_bytes: Largest reply, decompressed.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout.
            RequestRejected: The server says no to the request.
            ModelMisbehaved: The reply is too large or not a JSON object.
        """
        seconds = self._timeout if timeout is None else timeout
        limit = _reply_limit.set(max_bytes)
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(path, cast_to=httpx2.Response, body=dict(body))
        # `from None`: the client's own errors quote the server, which may quote user text.
        except TimeoutError:
            raise ModelUnavailable(
                f"the model server did not answer within {seconds:g} seconds"
            ) from None
        except openai.APIStatusError as error:
            raise self._translate(error.response) from None
        except openai.APITimeoutError:
            raise ModelUnavailable("the model server could not be reached in time") from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            reason = type(error.__cause__ or error).__name__
            raise ModelUnavailable(
                f"the connection to the model server failed ({reason}); "
                "check OPENAI_BASE_URL and the network if this lasts"
            ) from None
        finally:
            _reply_limit.reset(limit)
        return _json_object(response.content)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    def _translate(self, response: httpx2.Response) -> ModelUnavailable | RequestRejected:
        """Put a reply with an error status into our words."""
        status = response.status_code
        code = self._error_code(response)
        what = f"the model server answered {status}" + (f" ({code})" if code else "")
        if status in _OUTAGE_4XX or (status >= 500 and status not in _PERMANENT_5XX):
            return ModelUnavailable(what, retry_after=retry_after(response.headers))
        if status in (401, 403):
            what += ": check OPENAI_API_KEY and what it may use"
        elif status == 404 or status < 400:
            what += ": check OPENAI_BASE_URL and the name of the model"
        return RequestRejected(what, status=status, detail=response.text.lower())

    def _error_code(self, response: httpx2.Response) -> str:
        """The server's short name for the error, if it looks like one and not like a text."""
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            return ""
        error = body.get("error") if isinstance(body, dict) else None
        for field in ("code", "type"):
            code = error.get(field) if isinstance(error, dict) else None
            if isinstance(code, str) and _CODE.fullmatch(code) and self._key not in code:
                return code
        return ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks for, at most an hour; None if it says nothing usable."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if isfinite(seconds) else None


async def _bound_reply(response: httpx2.Response) -> None:
    """Before the client reads a body: hold it to what this call may read."""
    if response.is_success:
        bound(response, limit=_reply_limit.get(), cut=False)
    else:
        # The status says enough: of an endless error page the beginning will do.
        bound(response, limit=_MAX_ERROR_BYTES, cut=True)


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelMisbehaved(
            "the model server's reply is not JSON; check that OPENAI_BASE_URL is the API itself",
            reply=beginning(content),
        ) from None
    if not isinstance(body, dict):
        raise ModelMisbehaved(
            "the model server's reply is not a JSON object", reply=beginning(content)
        )
    return body


def beginning(content: bytes) -> str:
    """As much of a reply as is of use to whoever has to find out what it is."""
    return content[:MAX_REPLY_KEPT].decode("utf-8", "replace")
