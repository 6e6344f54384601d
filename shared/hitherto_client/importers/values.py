"""Values of foreign JSON, of whatever type they turn out to be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

JsonObject = dict[str, Any]

MOST_BYTES = 60_000
"""Of one message; the services take 64 KiB."""


def text_of(value: object) -> str:
    """The text; empty if it is none."""
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> JsonObject:
    """The object; empty if it is none."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> Iterator[JsonObject]:
    """The objects of a list; whatever else is there is left out."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def moment(value: object) -> str:
    """An RFC 3339 time of seconds since 1970 or of an ISO text; empty if it is neither."""
    try:
        if isinstance(value, int | float) and math.isfinite(value):
            found = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str) and value:
            found = datetime.fromisoformat(value)
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
        else:
            return ""
        return found.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def messages_of(given: Iterable[Mapping[str, Any]]) -> list[JsonObject]:
    """What was said by the user and the assistant, in the form of a transcript.

    Empty messages and other roles are left out; a text beyond `MOST_BYTES` becomes several.
    """
    made: list[JsonObject] = []
    for message in given:
        if message.get("role") not in {"user", "assistant"}:
            continue
        pieces = list(_pieces(str(message.get("content", "")).strip()))
        for number, piece in enumerate(pieces):
            one = {key: value for key, value in message.items() if value} | {"content": piece}
            if number and "id" in one:
                one["id"] = f"{one['id']}#{number + 1}"
            made.append(one)
    return made


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most `MOST_BYTES`, cut at a line or a space where there is one."""
    at = 0
    while at < len(text):
        window = text[at : at + MOST_BYTES + 1]
        raw = window.encode("utf-8", "surrogatepass")
        if len(raw) <= MOST_BYTES:
            yield window
            return
        size = MOST_BYTES
        while raw[size] & 0xC0 == 0x80:  # in the middle of a character
            size -= 1
        end = len(raw[:size].decode("utf-8", "surrogatepass"))
        cut = max(window.rfind("\n", end // 2, end), window.rfind(" ", end // 2, end))
        end = cut if cut > 0 else end
        yield window[:end].strip()
        at += end
        while at < len(text) and text[at].isspace():
            at += 1
