"""What can go wrong between us and a paid model, said once for chat and embeddings alike.

The tree:

    ModelError
    ├── ModelUnavailable     an outage: try again later, nobody's fault (429, 5xx, timeout, reset)
    ├── ModelRefused         the server understood and said no (bad key, unknown model, bad request)
    └── ModelMisbehaved      the server answered, and the answer cannot be what was asked for
"""

from __future__ import annotations


class ModelError(Exception):
    """A call of a model did not give a usable answer. The message never holds user text."""


class ModelUnavailable(ModelError):
    """The model's service is out of reach or overloaded; the same call may succeed later.

    Attributes:
        retry_after: Seconds the server asked us to wait, if it said so.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The server refused the call itself; repeating it unchanged will not help.

    Attributes:
        status: The HTTP status; 0 where it was no server that refused.
    """

    status: int = 0


class ModelMisbehaved(ModelError):
    """The answer is malformed: wrong count or size of vectors, NaN, an endless body, no text."""
