"""What one embedding server accepts, as far as its answers have shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hitherto_shared.model_api import ModelError, ModelMisbehaved, ModelUnavailable
from hitherto_shared.model_server import RequestRejected

_UNPROVEN_FAILURES = 2
"""Errors 500 in a row after which other forms are tried, if no vector ever came."""


class WrongSize(ModelMisbehaved):
    """A vector has another length than it should have."""

    def __init__(self, size: int, wanted: int) -> None:
        super().__init__(
            f"an embedding has {size} numbers instead of {wanted}; "
            "EMBEDDING_DIMENSIONS must be what EMBEDDING_MODEL gives"
        )
        self.size = size
        self.longer = size > wanted


@dataclass(slots=True)
class EmbeddingDialect:
    """What a server accepts.

    Attributes:
        dimensions: Whether the length of the vectors is sent along.
        most_texts: Texts in one call.
        most_tokens: Tokens in one call.
        most_bytes: Bytes of one text.
        base64: Whether vectors are asked for as base64, and not as numbers.
        proven: Whether vectors have come back.
        shortens: False if it does not shorten vectors on request.
        searched: Whether other forms of request were refused like the first one.
        failures: Errors 500 before any vector came back.
        proven_texts: The most texts that were answered in one call.
        failures_of_many: How often it failed on more texts, and then answered them in parts.
        by_position: Whether it was told that all vectors have the index 0.
    """

    dimensions: bool
    most_texts: int
    most_tokens: int
    most_bytes: int
    base64: bool = True
    proven: bool = False
    shortens: bool = True
    searched: bool = False
    failures: int = 0
    proven_texts: int = 1
    failures_of_many: int = 0
    by_position: bool = False

    def take(self, form: Mapping[str, bool]) -> Mapping[str, bool]:
        """Change the form of requests; returns what it was."""
        usual = {name: getattr(self, name) for name in form}
        for name, value in form.items():
            setattr(self, name, value)
        return usual

    def other_forms(self, error: ModelError) -> list[Mapping[str, bool]]:
        """The forms of request that may pass where the usual one met this error."""
        if isinstance(error, WrongSize):
            grown = error.longer and self.shortens and not self.dimensions
            return [{"dimensions": True}] if grown else []
        numbers: list[Mapping[str, bool]] = [{"base64": False}] if self.base64 else []
        if not self._may_be_of_the_form(error):
            named = isinstance(error, RequestRejected) and error.names("encoding_format", "base64")
            return numbers if named else []
        if not self.dimensions:
            return numbers
        return [
            *numbers,
            {"dimensions": False},
            *({**form, "dimensions": False} for form in numbers),
        ]

    def note_refusal(self, error: ModelError) -> None:
        """Remember that none of the other forms has passed either."""
        if isinstance(error, WrongSize):
            self.shortens = False
        else:
            self.searched = True

    def _may_be_of_the_form(self, error: ModelError) -> bool:
        """Whether a server that has not answered yet may object to the form of the request."""
        if self.proven:
            return False
        if isinstance(error, RequestRejected) or error.doubtful:
            return not self.searched
        if not isinstance(error, ModelUnavailable) or error.status != 500:
            return False
        self.failures += 1
        return self.failures >= _UNPROVEN_FAILURES
