"""Values of foreign JSON, of whatever type they turn out to be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

JsonObject = dict[str, Any]

MOST_BYTES = 60_000
"""Of one message; the services take 64 KiB."""
_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_DAY = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


def text_of(value: object) -> str:
    """The text; empty if it is none."""
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> JsonObject:
    """The object; empty if it is none."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """The list; empty if it is none."""
    return value if isinstance(value, list) else []


def objects_of(value: object) -> Iterator[JsonObject]:
    """The objects of a list; whatever else is there is left out."""
    for item in list_of(value):
        if isinstance(item, dict):
            yield item


def storable(record: JsonObject) -> JsonObject:
    """The record, with U+FFFD in place of each character that no text can hold.

    They are NUL, and half of a character: programs cut titles in the middle of an emoji.
    """
    waiting: list[Any] = [record]
    while waiting:
        held = waiting.pop()
        for name, value in list(held.items() if isinstance(held, dict) else enumerate(held)):
            if isinstance(value, dict | list):
                waiting.append(value)
            elif isinstance(value, str):
                held[name] = _UNUSABLE.sub("\ufffd", value)
            if isinstance(name, str) and _UNUSABLE.search(name):
                held[_UNUSABLE.sub("\ufffd", name)] = held.pop(name)
    return record


def instant(value: object) -> datetime | None:
    """The time of seconds since 1970, more than 0, or of an ISO text; None if it is neither.

    What lies outside of the years that the services know is milliseconds, or of a broken clock.
    """
    try:
        if isinstance(value, int | float) and math.isfinite(value) and value > 0:
            found = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str) and value:
            found = datetime.fromisoformat(value)
            found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found if _FIRST_YEAR <= found.year <= _LAST_YEAR else None


def moment(*values: object) -> str:
    """The first of these values that is a time, in RFC 3339; empty if none is."""
    found = next((time for value in values if (time := instant(value)) is not None), None)
    return "" if found is None else found.isoformat().replace("+00:00", "Z")


def end_of(value: object) -> str:
    """The time, or the end of the day, in RFC 3339; empty if it is neither."""
    found = instant(value)
    if found is None:
        return ""
    is_day = isinstance(value, str) and _DAY.fullmatch(value)
    return moment((found + timedelta(days=1) if is_day else found).isoformat())


def by_time(times: Mapping[str, object]) -> list[str]:
    """The names of these times, oldest first; what has no time comes before, in its order."""
    epoch = datetime.min.replace(tzinfo=UTC)
    return sorted(times, key=lambda name: instant(times.get(name)) or epoch)


def messages_of(given: Iterable[Mapping[str, Any]], began: str = "") -> list[JsonObject]:
    """What was said by the user and the assistant, in the form of a transcript.

    Empty messages and other roles are left out; a text beyond `MOST_BYTES` becomes several. A
    message without a time was said when the one before it was, else when the one after it was.

    Args:
        given: The messages, each with its `created_at` if it has one.
        began: When the conversation began, for one of which no message has a time. Without it,
            the messages stay without one.
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
    times = [one["created_at"] for one in made if one.get("created_at")]
    said = times[0] if times else began
    for one in made:
        said = one.get("created_at") or said
        if said:
            one["created_at"] = said
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
