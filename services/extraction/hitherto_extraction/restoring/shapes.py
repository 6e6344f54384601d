"""The shapes of JSON that the services read again, and would fail to read if it were otherwise.

What a statement says, and a version of a profile, are values of columns of other tables under their
names, and follow the rules of these columns. A key that nobody reads may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hitherto_extraction.pipeline import profile, summarise
from hitherto_extraction.restoring.columns import (
    MAX_DEPTH,
    Column,
    Kind,
    MayBeAbsent,
    RowCheck,
    flag,
    free,
    moment,
    name,
    number,
    optional,
    refused,
    several,
    shaped,
    text,
    uid,
)
from hitherto_shared.validation import Checks

_KIB = 1024
_MOST = 1024 * _KIB

_ANYTHING = free(_MOST, None)
_WITHOUT_SUCCESSOR = ("active", "quarantined", "forgotten")


def _pair(first: Kind, second: Kind, what: str) -> Kind:
    """A list of two values."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        if not (isinstance(value, list) and len(value) == 2):
            return refused(checks, field, f"must be {what}")
        return [first(checks, f"{field}[0]", value[0]), second(checks, f"{field}[1]", value[1])]

    return check


def _path(checks: Checks, field: str, value: Any) -> Any:
    """Where a value of a profile stands: a field, and the keys below one that has any."""
    if not (isinstance(value, list) and value and value[0] in profile.FIELDS):
        return refused(checks, field, "must begin with a field of a profile")
    if (len(value) > 1) is not (value[0] in profile.STRUCTS):
        return refused(checks, field, "must name a value of a profile")
    return several(text(_KIB), MAX_DEPTH)(checks, field, value)


_CONCLUDED = shaped(dict.fromkeys(summarise.FIELDS, MayBeAbsent(_ANYTHING)), _MOST, closed=True)
"""What a reply said of a summary, which its merge takes as it comes."""

_SOURCE: Mapping[str, Kind] = {
    "path": _path,
    "conversation_id": text(_KIB),
    "message_id": text(_KIB),
    "said_at": moment,
    "memory_ids": several(uid, 10_000),
}
"""Where a value of a profile comes from."""


def _source_if_any(checks: Checks, field: str, value: Any) -> Any:
    return {} if value == {} else shaped(_SOURCE, _MOST)(checks, field, value)


_CHANGE = shaped(
    {
        "path": _path,
        "value": _ANYTHING,
        "ended": flag,
        "said_at": moment,
        "source": _source_if_any,
    },
    _MOST,
    closed=True,
)
"""What somebody said of one value of a profile."""


_MENTIONS = several(_pair(text(_KIB), text(_KIB), "a name and a type"), 1_000)
_BESIDE: Mapping[str, Kind] = {
    "entities": _MENTIONS,
    "ended_by": several(_pair(uid, moment, "a memory that ends another, and a time"), 10_000),
    **dict.fromkeys(("suspect", "whole", "repeats"), flag),
}
"""What statements about memories say besides values of columns of `memories`."""
_OF_MEMORIES = {
    "said": "content detail importance confidence tags keywords valid_from suspect",
    "updated": "content? detail? importance? confidence? tags",
    "closed": "status valid_to superseded_by?",
    "challenged": "challenges",
    "joined": "context metadata expires_at? sensitive",
    "taken": "",
}
"""What a statement about a memory says at least, by its action; with ? it may be null."""


def statements_as(kinds: Mapping[str, Kind], columns: Mapping[str, Column]) -> RowCheck:
    """Checks what a statement says, which depends on its subject and its action.

    `kinds` and `columns` are those of the table of memories, without and with null.
    """
    may_say = {
        told: MayBeAbsent(rule.kind if isinstance(rule, MayBeAbsent) else rule)
        for told, rule in (*columns.items(), *_BESIDE.items())
    }
    known: dict[tuple[str, str], Kind] = {
        ("profile", "patched"): shaped({"changes": several(_CHANGE, 10_000)}, _MOST, closed=True),
        ("profile", "taken"): shaped({"entities": MayBeAbsent(_MENTIONS)}, _MOST),
        ("summary", "concluded"): _CONCLUDED,
    }
    for action, words in _OF_MEMORIES.items():
        must: dict[str, Column] = {}
        for word in words.split():
            kind = {**kinds, **_BESIDE}[word.rstrip("?")]
            must[word.rstrip("?")] = optional(kind) if word.endswith("?") else kind
        known["memory", action] = shaped({**may_say, **must}, _MOST)

    def check(checks: Checks, field: str, row: dict[str, Any]) -> None:
        subject, action = row["subject"], row["action"]
        if (kind := known.get((subject, action))) is not None:
            row["said"] = kind(checks, f"{field}.said", row["said"])
        elif subject is not None and action is not None:
            refused(checks, f"{field}.action", f"is no action of a statement about a {subject}")

    return check


def version_of_profile(columns: Mapping[str, Column]) -> Kind:
    """A version of a profile; `columns` are those of the table of profiles."""
    fields = (*profile.FIELDS, "department", "access_level", "metadata")
    return shaped({each: columns[each] for each in fields}, _MOST, closed=True)


CONTEXT_ITEMS = several(
    shaped({"id": name(1024), "relevance": MayBeAbsent(number(0, 1_000))}, 4 * _KIB), 1_000
)
"""What an answer was based on, and what a session showed."""

DOUBT = shaped({"because": uid, "reason": text(_KIB), "since": moment}, 4 * _KIB, closed=True)
"""Why a memory may no longer hold."""


def _by_path(kind: Kind) -> Kind:
    """An object with something about each value of a profile, by the value's path."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        found = free(_MOST)(checks, field, value)
        return {
            path: kind(checks, f"{field}.{path[:64]!r}", item)
            for path, item in (found or {}).items()
        }

    return check


SOURCES = _by_path(shaped({**_SOURCE, "quote": text(64 * _KIB)}, _MOST))
"""Where each value of a profile comes from."""
SAID_AT = _by_path(moment)
"""When each value of a profile was said."""


def check_ending(checks: Checks, field: str, row: dict[str, Any]) -> None:
    """Check that status, successor and times of a version of a memory agree.

    It may be written again as the memory, of which the catalogue requires it.
    """
    status, successor = row["status"], row["superseded_by"]
    if successor is not None and (status in _WITHOUT_SUCCESSOR or successor == row["memory_id"]):
        refused(checks, f"{field}.superseded_by", "must be null, or another memory if it has ended")
    if status == "superseded" and successor is None:
        refused(checks, f"{field}.superseded_by", "must name a memory")
    since, until = row["valid_from"], row["valid_to"]
    if since and until and datetime.fromisoformat(until) < datetime.fromisoformat(since):
        refused(checks, f"{field}.valid_to", "must not precede valid_from")
