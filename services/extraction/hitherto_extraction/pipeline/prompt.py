"""Builds the prompt of an extraction: instructions in the system message, data in the user message.

Only our own lines start with `[` or a heading: a line break inside content, names or memories is
followed by two spaces, so that no text can imitate another message or section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto_extraction.provider.protocol import Batch, Prompt, PromptMemory, PromptMessage

VERSION = "extraction_4"

_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

HARMLESS = Batch(
    profile={},
    summary=None,
    memories=(),
    messages=(PromptMessage("m1", "user", "", "Hello.", datetime(2000, 1, 1, tzinfo=UTC)),),
)
"""A prompt that any working model answers, sent when a refusal may not be about the content."""


def load_prompt(version: str) -> tuple[str, Mapping[str, Any]]:
    """The instructions of a version, and the schema of the answer."""
    folder = resources.files("hitherto_extraction.prompts")
    schema = json.loads((folder / f"{version}.json").read_text("utf-8"))
    return (folder / f"{version}.md").read_text("utf-8"), schema


_SYSTEM, _SCHEMA = load_prompt(VERSION)


def build_prompt(batch: Batch) -> Prompt:
    """The prompt for `batch`."""
    return Prompt(_SYSTEM, _user_message(batch), batch, _SCHEMA)


def _user_message(batch: Batch) -> str:
    zone = zone_of(batch.time_zone)
    profile = dict(batch.profile)
    if batch.tags_in_use:
        # Tags come from what users said, and so belong to the data.
        profile["tags_in_use"] = list(batch.tags_in_use)
    sections = ["CURRENT PROFILE:", _json(profile), ""]
    if batch.summary:
        sections += ["CURRENT SUMMARY:", _json(batch.summary), ""]
    sections += ["EXISTING MEMORIES:", *(memory_line(item, zone) for item in batch.memories), ""]
    sections += ["CONVERSATION:", *(_message(item, zone) for item in batch.messages)]
    return "\n".join(sections)


def memory_line(memory: PromptMemory, zone: tzinfo) -> str:
    """A known memory in the prompt."""
    day = memory.date.astimezone(zone).date().isoformat()
    marks = ", ".join([memory.type, day, *memory.marks])
    return f"[{memory.local_id}] ({marks}) {one_line(memory.content)}"


def _message(message: PromptMessage, zone: ZoneInfo) -> str:
    name = f" {one_line(message.name)}" if message.name else ""
    time = _with_weekday(message.created_at, zone)
    return f"[{message.local_id}] {message.role}{name} {time}: {one_line(message.content)}"


def one_line(text: str) -> str:
    """`text` whose every further line is indented by two spaces."""
    return _LINE_BREAK.sub("\n  ", text)


def rfc3339(moment: datetime, zone: ZoneInfo) -> str:
    """`moment` in `zone`, to the second.

    In UTC if the zone then kept local mean time: RFC 3339 has no offsets with seconds.
    """
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        local = moment.astimezone(UTC)
    if (local.utcoffset() or timedelta()).seconds % 60:
        local = moment.astimezone(UTC)
    return local.isoformat(timespec="seconds")


def _with_weekday(moment: datetime, zone: ZoneInfo) -> str:
    """A time with its weekday, from which "last Friday" is counted."""
    time = rfc3339(moment, zone)
    return f"{_WEEKDAYS[datetime.fromisoformat(time).weekday()]} {time}"


def zone_of(name: str) -> ZoneInfo:
    """The IANA zone `name`, or UTC if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def _json(value: Mapping[str, Any]) -> str:
    # JSON escapes line breaks but not U+2028 and its like.
    return one_line(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


_ID = re.compile(r"([a-z]?[0-9]{1,6})(?:[\])\s:]|\Z)", re.IGNORECASE)
_MOST = 999_999


def local_id(value: Any) -> str:
    """The id that a text names; empty for anything else."""
    found = _ID.match(value.lstrip("[( \n\t")) if isinstance(value, str) else None
    return found[1].lower() if found else ""


def message_ids(given: list[Any], shown: Collection[str]) -> list[str]:
    """The messages that were `shown` among those that an item cites, in its order."""
    found = []
    for value in given:
        number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
        name = local_id(str(value) if number else value)
        found += [name if name in shown else f"m{name}"]
    return [name for name in found if name in shown]
