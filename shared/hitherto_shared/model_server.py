"""Settings and errors of the client of OpenAI-compatible servers (`openai_client`).

Outages, refusals and malformed answers of chat and of embeddings are reported with the same errors
(see `model_api`), whose messages never quote the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

from yarl import URL

from hitherto_shared.model_api import (
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_REPLY_BYTES = 8 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
"""Bytes to read of a reply with an error status; its beginning is enough."""
MAX_RETRY_AFTER = 3600.0
MAX_REPLY_KEPT = 64 * 1024
"""Maximum bytes of an unusable reply, for `ModelMisbehaved.reply`."""
CONNECT_SECONDS = 10.0
MAX_CONNECTIONS = 200

# A local server needs no key; one that checks for the header gets this.
_NO_KEY = "no-key-needed"
_OUTAGE_4XX = frozenset({408, 409, 425, 429})
# Statuses that are permanent; every other 5xx is an outage.
_PERMANENT_5XX = frozenset({501, 505})
# Statuses that recur for any request until the installation is corrected. So does a redirect.
_OF_THE_INSTALLATION = frozenset({401, 402, 404, 405, 407, 410, *_PERMANENT_5XX})
# Words with which a content filter refuses a request.
_OF_THE_CONTENT = ("content_filter", "content_policy", "content management policy")
_TOLD = ("code", "type", "message", "param")
_STATUS = re.compile(r"[45][0-9]{2}")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class RequestRejected(ModelRefused):
    """The server refused the request itself (a 4xx that is neither an outage nor lasting).

    Attributes:
        status: The HTTP status.
        detail: The server's text, in lower case. It may quote user text, so it only decides what to
            do next and is never shown or logged.
    """

    def __init__(self, message: str, *, status: int, detail: str) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.doubtful = not self.names(*_OF_THE_CONTENT)

    def names(self, *words: str) -> bool:
        """Whether the server's error text contains one of `words`, given in lower case."""
        return any(word in self.detail for word in words)


def api_root(base_url: str | None) -> URL:
    """The root of the API for a setting; empty means OpenAI.

    Raises:
        ValueError: It is not a web address; the message names the variable to set.
    """
    try:
        url = URL((base_url or "").strip() or DEFAULT_BASE_URL)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError(
            f"OPENAI_BASE_URL must be an http or https address such as {DEFAULT_BASE_URL}"
        )
    return url


def usable_key(api_key: str | None) -> str:
    """The key for a setting, or a placeholder for a server that needs none.

    Raises:
        ValueError: It cannot be sent; the message names the variable, never the key.
    """
    key = (api_key or "").strip() or _NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise ValueError("OPENAI_API_KEY contains invalid characters: copy it again")
    return key


def refusal_or_outage(
    status: int, headers: Mapping[str, str], content: bytes, *, key: str, model_setting: str
) -> ModelUnavailable | RequestRejected:
    """The error for a reply with an error status.

    Args:
        status: Any status but a success.
        headers: Of the reply, looked up without regard to case.
        content: The body, or its beginning.
        key: The key that was sent, so that it is not repeated.
        model_setting: The variable that names the model, for the message.
    """
    code = _error_code(content, key)
    what = f"the model server answered {status}" + (f" ({code})" if code else "")
    if status in _OUTAGE_4XX or (status >= 500 and status not in _PERMANENT_5XX):
        return ModelUnavailable(what, retry_after=retry_after(headers))
    if status in (401, 402, 403):
        what += ": check OPENAI_API_KEY, what it may use and the account behind it"
    elif status == 404 or status < 400:
        what += f": check OPENAI_BASE_URL and {model_setting}"
    elif status in _OF_THE_INSTALLATION:
        what += ": check OPENAI_BASE_URL, which must be the root of the API"
    if status < 400 or status in _OF_THE_INSTALLATION:
        return ModelMisconfigured(what, status=status)
    return RequestRejected(what, status=status, detail=content.decode("utf-8", "replace").lower())


def failure_in_success(
    body: Mapping[str, Any], headers: Mapping[str, str], *, key: str, model_setting: str
) -> ModelUnavailable | RequestRejected | ModelMisbehaved | None:
    """The error that the body of a success reports in place of an answer; None if there is none.

    A gateway may have sent the status before the model behind it failed. An HTTP status in the
    error's `code` counts as if it had been the reply's own. Arguments as for `refusal_or_outage`.
    """
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    error = first.get("error") if isinstance(first, dict) else body.get("error")
    if not error or body.get("data"):
        return None
    said = error if isinstance(error, dict) else {"message": error}
    told = {name: said[name] for name in _TOLD if isinstance(said.get(name), str | int)}
    content = json.dumps({"error": told}).encode()
    code = str(told.get("code"))
    if _STATUS.fullmatch(code):
        return refusal_or_outage(int(code), headers, content, key=key, model_setting=model_setting)
    name = _error_code(content, key)
    failure = ModelMisbehaved(
        "the model server reported an error as a success" + (f" ({name})" if name else ""),
        reply=beginning(content),
    )
    failure.doubtful = not any(word in failure.reply.lower() for word in _OF_THE_CONTENT)
    return failure


def no_answer_within(seconds: float) -> ModelUnavailable:
    """The outage of a server that exceeds the time limit of a call."""
    return ModelUnavailable(f"the model server did not answer within {seconds:g} seconds")


def oversize(limit: int) -> ModelMisbehaved:
    """The error for a body of more than `limit` bytes."""
    return ModelMisbehaved(
        f"the model server's reply is larger than {limit} bytes and was cut off; "
        "it cannot be the answer to the request"
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds in `Retry-After`, at most an hour; None without a usable value."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if isfinite(seconds) else None


def json_object(content: bytes, load: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    """Parse the body of a success, with `load`.

    Raises:
        ModelMisbehaved: It is not a JSON object.
    """
    try:
        body = load(content)
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
    """The part of a reply that is useful for diagnosis."""
    return content[:MAX_REPLY_KEPT].decode("utf-8", "replace")


def _error_code(content: bytes, key: str) -> str:
    """The server's short name for the error, if it has the form of a name."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    for field in ("code", "type"):
        code = error.get(field) if isinstance(error, dict) else None
        if isinstance(code, str) and _CODE.fullmatch(code) and key not in code:
            return code
    return ""
