"""Errors of paid model APIs, shared by chat and embeddings.

The tree:

    ModelError
    ├── ModelUnavailable     an outage: try again later, nobody's fault (429, 5xx, timeout, reset)
    │   └── ModelMisconfigured   no request of this installation passes (bad key, wrong address)
    ├── ModelRefused         the server understood and said no to this request
    │   └── PromptTooLong    because there is more text than the model can take at once
    └── ModelMisbehaved      the server answered, and the answer cannot be what was asked for
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ModelUsage(Protocol):
    """What calls of a model used."""

    @property
    def model(self) -> str:
        """The model that was asked."""
        ...

    @property
    def calls(self) -> int:
        """How often."""
        ...

    @property
    def input_tokens(self) -> int:
        """What it read."""
        ...

    @property
    def output_tokens(self) -> int:
        """What it wrote."""
        ...


class ModelError(Exception):
    """A call of a model did not give a usable answer. The message never holds user text.

    Attributes:
        spent: What was answered, and has to be paid for, before it came to this.
        doubtful: Whether every other request may meet the same error. A harmless request tells.
    """

    spent: Sequence[ModelUsage] = ()
    doubtful: bool = False


class ModelUnavailable(ModelError):
    """The model's service is out of reach or overloaded; the same call may succeed later.

    Attributes:
        retry_after: Seconds the server asked us to wait, if it said so.
        asked: False if the model was not even asked, because it had just been out of reach.
    """

    def __init__(
        self, message: str, *, retry_after: float | None = None, asked: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.asked = asked


class ModelMisconfigured(ModelUnavailable):
    """The server refuses whatever this installation sends: its key, its address or its model.

    It lasts until somebody mends the settings or the server. The message names the settings.

    Attributes:
        status: The HTTP status; 0 where there is none that tells.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        retry_after: float | None = None,
        asked: bool = True,
    ) -> None:
        super().__init__(message, retry_after=retry_after, asked=asked)
        self.status = status


class ModelRefused(ModelError):
    """The server refused the call itself; repeating it unchanged will not help.

    Attributes:
        status: The HTTP status; 0 where it was no server that refused.
    """

    status: int = 0


class PromptTooLong(ModelRefused):
    """The request holds more text than the model can take at once; half of it may pass."""


class ModelMisbehaved(ModelError):
    """The answer is malformed: wrong count or size of vectors, NaN, an endless body, no text.

    Attributes:
        reply: What the model or its server said, where that is of use. It holds what users said,
            so that it is kept sealed or not at all, and is never shown or logged.
    """

    def __init__(self, message: str, *, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply
