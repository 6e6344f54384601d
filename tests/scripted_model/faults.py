"""Everything that goes wrong with a paid model, as values that can be queued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.scripted_model.answers import ChatAnswer

HTML = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True, slots=True)
class StatusFault:
    """An error status with OpenAI's error object, or with `body` as it stands."""

    status: int
    retry_after: str | None = None
    code: str | None = None
    message: str = "scripted fault"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is cut, after the first `after` bytes of the right answer if given."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer ever; the connection stays open until the client or the server goes."""


@dataclass(frozen=True, slots=True)
class SlowDrip:
    """The right answer, `size` bytes every `seconds`: no single read ever times out."""

    seconds: float = 0.05
    size: int = 1


@dataclass(frozen=True, slots=True)
class RawReply:
    """Status 200 with any bytes, `repeat` times over, announced or not.

    `RawReply.huge()` is a body of 50 MB.
    """

    body: bytes
    content_type: str = "application/json"
    repeat: int = 1
    announce_length: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def huge(cls, megabytes: int = 50, *, announce_length: bool = False) -> RawReply:
        """A body far above what anybody asked for."""
        return cls(b" " * 2**20, repeat=megabytes, announce_length=announce_length)

    @classmethod
    def saying(cls, text: str) -> RawReply:
        """A completion with this text, to whatever was asked."""
        return cls(json.dumps(ChatAnswer(text).body("gpt-4o-mini")).encode())

    @classmethod
    def html(cls) -> RawReply:
        """The page of a proxy that thinks all is well."""
        return cls(HTML, content_type="text/html")


@dataclass(frozen=True, slots=True)
class RefuseFormat:
    """400 if the request names one of `formats` as its response_format; else the right answer."""

    formats: tuple[str, ...] = ("json_schema",)
    status: int = 400


@dataclass(frozen=True, slots=True)
class EmbeddingFault:
    """A reply that looks right and is not. `shuffled` is allowed: only the order differs."""

    kind: Literal[
        "wrong_dimensions",
        "one_missing",
        "one_more",
        "same_index",
        "no_index",
        "zero_index",
        "nan",
        "infinity",
        "beyond_singles",
        "zero",
        "text",
        "nested",
        "bad_base64",
        "shuffled",
        "no_usage",
        "not_normalised",
    ]


Fault = StatusFault | Reset | Hang | SlowDrip | RawReply | RefuseFormat | EmbeddingFault

# The content of a completion that is not the object asked for, in every way seen in practice.
CONTENT_FAULTS: Mapping[str, str] = {
    "not_json": "I am sorry, I cannot help with that.",
    "fenced_json": '```json\n{"new_memories": []}\n```',
    "prose_with_braces": 'Here {as asked} is the result: {"new_memories": []} Anything else?',
    "truncated_json": '{"new_memories": [{"type": "fact", "content": "Anna li',
    "list": "[]",
    "empty": "",
    "empty_object": "{}",
    "wrong_schema": '{"new_memories": {"fact": "Anna likes tea"}, "profile": [1, 2]}',
}
