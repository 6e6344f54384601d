"""An OpenAI-compatible server: where it is, how to be let in, and what its errors mean.

Outages, refusals and malformed answers of chat and of embeddings are reported with the same errors
(see `model_api`), whose messages never quote the server.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

import certifi
from yarl import URL

from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import (
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelTooSlow,
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
_OF_THE_INSTALLATION = frozenset({401, 402, 404, 405, 410, *_PERMANENT_5XX})
# Of these, what a server also answers that does not know a part of the request.
_PERHAPS_OF_THE_FORM = frozenset({404, 405, 501})
OF_THE_CONTENT = ("content_filter", "content_policy", "content management policy")
"""Words with which a content filter refuses a request."""
# Statuses that mean an outage unless the server speaks of the length of the request: OpenAI's limit
# of tokens per minute, llama.cpp's limit for an embedding.
_TOO_MUCH = frozenset({429, 500})
_OF_THE_LENGTH = ("too large", "too long")
# Further variables that OpenAI's own client reads from the environment.
_FROM_ENVIRONMENT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
# The work of parsing JSON: a letter of a string takes a nanosecond, a value half a microsecond.
_LETTERS_OF_A_STRING, _WORK_OF_A_VALUE = 16, 16
_TOLD = ("code", "type", "message", "param")
_STATUS = re.compile(r"[45][0-9]{2}")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_QUOTING = frozenset({"failed_generation", "input"})
"""Fields of an error in which servers quote the model's text (Groq) or the request (FastAPI)."""


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
        self.doubtful = not self.names(*OF_THE_CONTENT)

    @property
    def of_the_size(self) -> bool:
        """Whether less text might pass."""
        return self.status in (400, 413, 422, *_TOO_MUCH)

    def names(self, *words: str) -> bool:
        """Whether the server's error text contains one of `words`, given in lower case."""
        return any(word in self.detail for word in words)


@dataclass(frozen=True, slots=True)
class ModelServer:
    """Where a model is, and how to be let in.

    Attributes:
        base_url: Root of the API, such as `https://api.openai.com/v1`, with query parameters if
            any; empty means OpenAI. For Azure the resource, such as `https://x.openai.azure.com`.
        api_key: The key; a local server may need none.
        azure_version: The version of Azure's API with deployments, such as `2024-10-21`; empty for
            every other server. Models are then named by their deployments.
        azure_token: A token of Microsoft Entra ID in place of Azure's key.
        headers: Further headers of every request.
        extra: Further fields of every request.
        url_setting: The variable that holds the address, for messages.
        key_setting: The variable that holds the key, for messages.
        model_setting: The variable that names the model, for messages.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    azure_version: str = ""
    azure_token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    url_setting: str = "OPENAI_BASE_URL"
    key_setting: str = "OPENAI_API_KEY"
    model_setting: str = "MEMORY_EXTRACTION_MODEL"

    @property
    def root(self) -> URL:
        """The root of the API.

        Raises:
            ValueError: The setting is no web address; the message names the variable.
        """
        try:
            url = URL((self.base_url or "").strip() or DEFAULT_BASE_URL)
        except ValueError:
            url = URL()
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise ValueError(
                f"{self.url_setting} must be an http or https address such as {DEFAULT_BASE_URL}"
            )
        return url.with_fragment(None)

    @property
    def key(self) -> str:
        """The key, or a placeholder for a server that needs none.

        Raises:
            ValueError: It cannot be sent; the message names the variable, never the key.
        """
        key = (self.azure_token or self.api_key or "").strip() or _NO_KEY
        if not (key.isascii() and key.isprintable()):
            raise ValueError(f"{self.key_setting} contains invalid characters: copy it again")
        return key

    def address(self, path: str, model: str) -> URL:
        """The address of `path`, such as `/embeddings`, without user and password."""
        root = self.root.with_user(None)
        beginning = root.raw_path.rstrip("/")
        if self.azure_version:
            deployment = URL.build(path=f"/openai/deployments/{model}").raw_path
            url = root.with_path(f"{beginning}{deployment}{path}", encoded=True)
            return url.with_query({**root.query, "api-version": self.azure_version})
        return root.with_path(beginning + path, encoded=True).with_query(root.query)

    def request_headers(self) -> dict[str, str]:
        """The headers of every request; ValueError names a variable that cannot be sent."""
        pair = basic_authorization(self.root)
        if self.azure_version and not self.azure_token:
            login = {"api-key": self.key}
        else:
            # An address may have a user and a password, for a proxy before the server.
            login = {"Authorization": pair or f"Bearer {self.key}"}
        account = {
            header: os.environ[variable]
            for header, variable in _FROM_ENVIRONMENT.items()
            if _sendable(variable)
        }
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "hitherto",
            **login,
            **account,
            **self.headers,
        }

    def refusal_or_outage(
        self, status: int, headers: Mapping[str, str], content: bytes
    ) -> ModelUnavailable | RequestRejected:
        """The error for a reply with an error status.

        `headers` are looked up without regard to case. `content` may be the beginning of the body.
        """
        code = _error_code(content, self.key)
        what = f"the model server answered {status}" + (f" ({code})" if code else "")
        detail = _own_words(content).lower()
        too_much = status in _TOO_MUCH and any(words in detail for words in _OF_THE_LENGTH)
        outage = status in _OUTAGE_4XX or (status >= 500 and status not in _PERMANENT_5XX)
        if outage and not too_much:
            return ModelUnavailable(what, retry_after=retry_after(headers), status=status)
        if status == 407:
            return self.proxy_refused(status)
        if status in (401, 402, 403):
            what += f": check {self.key_setting}, what it may use and the account behind it"
        elif status == 404 or status < 400:
            what += f": check {self._address_setting} and {self.model_setting}"
        elif status in _OF_THE_INSTALLATION:
            what += f": check {self._address_setting}, which must be the root of the API"
        if status < 400 or status in _OF_THE_INSTALLATION:
            found = ModelMisconfigured(what, status=status)
            found.doubtful = status in _PERHAPS_OF_THE_FORM
            return found
        return RequestRejected(what, status=status, detail=detail)

    def failure_in_success(
        self, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ModelUnavailable | RequestRejected | ModelMisbehaved | None:
        """The error that the body of a success reports in place of an answer; None if it has none.

        A gateway may have sent the status before the model behind it failed. An HTTP status in the
        error's `code` counts as if it had been the reply's own.
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
            return self.refusal_or_outage(int(code), headers, content)
        name = _error_code(content, self.key)
        failure = ModelMisbehaved(
            "the model server reported an error as a success" + (f" ({name})" if name else ""),
            reply=beginning(content),
        )
        failure.doubtful = not any(word in failure.reply.lower() for word in OF_THE_CONTENT)
        return failure

    def connection_failed(self, error: BaseException) -> ModelUnavailable:
        """The outage for a connection that could not be made, or was lost.

        It names the error only by its class: the system's message may quote the address.
        """
        reason = type(error.__cause__ or error).__name__
        road = f"{self._proxy_settings}, " if proxy_for(self.root) else ""
        return ModelUnavailable(
            f"the connection to the model server failed ({reason}); "
            f"check {road}{self.url_setting} and the network if this lasts"
        )

    @property
    def _address_setting(self) -> str:
        """The variable with the address, and what most servers need that it lacks."""
        bare = not self.azure_version and self.root.path in ("", "/")
        return self.url_setting + (" (it lacks a path: most servers need /v1)" if bare else "")

    def proxy_refused(self, status: int) -> ModelUnavailable:
        """The error for the status with which a proxy refuses to pass requests on."""
        what = f"the proxy answered {status}: check {self._proxy_settings}"
        kind = ModelUnavailable if status >= 500 else ModelMisconfigured
        return kind(what, status=status)

    @property
    def _proxy_settings(self) -> str:
        return f"{self.root.scheme.upper()}_PROXY, ALL_PROXY and NO_PROXY"

    def json_object(
        self, content: bytes, load: Callable[[bytes], Any] = json.loads
    ) -> dict[str, Any]:
        """Parse the body of a success with `load`; anything but an object is ModelMisbehaved."""
        try:
            body = load(content)
        except (ValueError, RecursionError):
            raise ModelMisbehaved(
                "the model server's reply is not JSON; check that "
                f"{self._address_setting} is the API itself",
                reply=beginning(content),
            ) from None
        if not isinstance(body, dict):
            raise ModelMisbehaved(
                "the model server's reply is not a JSON object", reply=beginning(content)
            )
        return body


def basic_authorization(url: URL) -> str | None:
    """The header for the user and the password in an address, if it has any."""
    if url.user is None and url.password is None:
        return None
    pair = f"{url.user or ''}:{url.password or ''}"
    return "Basic " + b64encode(pair.encode()).decode("ascii")


def tls_context() -> ssl.SSLContext:
    """Trusts the authorities of the system or `SSL_CERT_FILE`; if there are none, of certifi."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    # Windows has a store of its own, and Python for macOS comes without any.
    if sys.platform != "win32" and not (paths.cafile or paths.capath):
        context.load_verify_locations(certifi.where())
    return context


def work_of_json(content: bytes) -> int:
    """The work of parsing JSON, in characters read (`in_thread_if_long`): strings are read fast."""
    return len(content) // _LETTERS_OF_A_STRING + _WORK_OF_A_VALUE * content.count(b",")


def _sendable(variable: str) -> str:
    """The value of a variable for a header, empty if unset; ValueError if it cannot be sent."""
    value = os.environ.get(variable, "")
    if not (value.isascii() and (value.isprintable() or not value)):
        raise ValueError(f"{variable} contains invalid characters: copy it again")
    return value


def no_answer_within(seconds: float) -> ModelTooSlow:
    """The outage of a server that exceeds the time limit of a call, or what was left of it."""
    return ModelTooSlow(f"the model server did not answer within {round(seconds, 2):g} seconds")


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


def beginning(content: bytes) -> str:
    """The part of a reply that is useful for diagnosis."""
    return content[:MAX_REPLY_KEPT].decode("utf-8", "replace")


def _own_words(content: bytes) -> str:
    """An error's text without what it quotes: words of users say nothing about the request."""

    def without_quotes(part: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in part.items() if name not in _QUOTING}

    try:
        return json.dumps(json.loads(content, object_hook=without_quotes), ensure_ascii=False)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")


def _error_code(content: bytes, key: str) -> str:
    """The server's short name for the error, if it has the form of a name."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    for name in ("code", "type"):
        code = error.get(name) if isinstance(error, dict) else None
        if isinstance(code, str) and _CODE.fullmatch(code) and key not in code:
            return code
    return ""
