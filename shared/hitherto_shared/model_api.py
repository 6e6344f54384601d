"""Errors and token counts of paid model APIs, shared by chat and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_MOST_TOKENS = 10**9


def estimate_tokens(text: str) -> int:
    """A cautious estimate without a vocabulary: a third of the bytes in UTF-8."""
    return (len(text.encode("utf-8", "replace")) + 2) // 3


def used_tokens(usage: object, field: str, texts: Sequence[str]) -> tuple[int, bool]:
    """The tokens of texts by a server's report, or an estimate; and whether it is an estimate.

    Many servers report nothing. Work that counted as free would have no budget.
    """
    count = usage.get(field) if isinstance(usage, dict) else None
    estimate = sum(map(estimate_tokens, texts))
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_TOKENS:
        return estimate, True
    return (count, False) if count or not estimate else (estimate, True)


class ModelUsage(Protocol):
    """The usage of model calls."""

    @property
    def model(self) -> str:
        """The model."""
        ...

    @property
    def calls(self) -> int:
        """The number of calls."""
        ...

    @property
    def input_tokens(self) -> int:
        """Input tokens."""
        ...

    @property
    def output_tokens(self) -> int:
        """Output tokens."""
        ...


class ModelError(Exception):
    """A call of a model gave no usable answer. The message never contains user text.

    Attributes:
        spent: The usage of calls before the error, which must be paid for.
        doubtful: Whether any other request may fail in the same way. A harmless request shows
            whether it does.
    """

    spent: Sequence[ModelUsage] = ()
    doubtful: bool = False


class ModelUnavailable(ModelError):
    """The model's service is unreachable or overloaded; the same call may succeed later.

    Attributes:
        retry_after: Seconds to wait as requested by the server, if any.
        asked: False if the model was not called, because it had just been unreachable.
        status: The HTTP status; 0 if there was no reply.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        asked: bool = True,
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.asked = asked
        self.status = status

    @property
    def may_be_of_the_request(self) -> bool:
        """Whether the one request may be at fault, and not the server: it fails or hangs on it."""
        return self.asked and self.status in (0, 500, 502, 504)


class ModelTooSlow(ModelUnavailable):
    """The server did not answer within the time limit of the call."""


class ModelMisconfigured(ModelUnavailable):
    """The server refuses every request of this installation because of its key, address or model.

    It lasts until the settings or the server are corrected. The message names the settings. It is
    `doubtful` if the server may object to the form of the request as well.

    Attributes:
        asked_harmless: Whether a harmless request in the same form was refused too.
    """

    asked_harmless = False

    @property
    def may_be_of_the_request(self) -> bool:
        """False: the installation is at fault."""
        return False


class ModelRefused(ModelError):
    """The server refused the call itself; repeating it unchanged will not help.

    Attributes:
        status: The HTTP status; 0 if the refusal did not come from a server.
    """

    status: int = 0


class PromptTooLong(ModelRefused):
    """The request has more text than the model accepts at once; half of it may succeed."""


class ContentRefused(ModelRefused):
    """A content filter refuses the request for what it says; a part of it may pass."""


class ModelMisbehaved(ModelError):
    """The answer is malformed: wrong count or size of vectors, NaN, an endless body, no text.

    It is `doubtful`: a proxy or another server may answer everything in this way.

    Attributes:
        reply: What the model or its server replied, if it is useful. It contains user text, so it
            is stored sealed or not at all, and is never shown or logged.
    """

    doubtful = True

    def __init__(self, message: str, *, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply
