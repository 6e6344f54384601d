"""The shapes of JSON that the services read again, and would fail to read if it were otherwise.

A key that nobody reads may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hitherto_extraction.pipeline import profile, summarise
from hitherto_extraction.restoring.columns import (
    MAX_DEPTH,
    Kind,
    MayBeAbsent,
    flag,
    free,
    moment,
    name,
    number,
    one_of,
    optional,
    refused,
    several,
    shaped,
    share,
    text,
    uid,
)
from hitherto_shared.convert import CONFIDENCE, MEMORY_STATUS
from hitherto_shared.validation import Checks

_KIB = 1024
_MOST = 1024 * _KIB

_WORDS = text(64 * _KIB)
_LABELS = several(text(_KIB), 1_000)
_OBJECT = free(128 * _KIB)
_MOMENT_OR_NONE = optional(moment)
_UID_OR_NONE = optional(uid)
_STATUS = one_of(*MEMORY_STATUS.values())
_CONFIDENCE = one_of(*CONFIDENCE.values())
_ANYTHING = free(_MOST, None)
_WITHOUT_SUCCESSOR = ("active", "quarantined", "forgotten")


def _patch(names: Sequence[str]) -> Kind:
    """What a reply said of a profile or a summary, which its merge takes as it comes."""
    return shaped(dict.fromkeys(names, MayBeAbsent(_ANYTHING)), _MOST, closed=True)


def _pair(first: Kind, second: Kind, what: str) -> Kind:
    """A list of two values."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        if not (isinstance(value, list) and len(value) == 2):
            return refused(checks, field, f"must be {what}")
        return [first(checks, f"{field}[0]", value[0]), second(checks, f"{field}[1]", value[1])]

    return check


def _path(checks: Checks, field: str, value: Any) -> Any:
    """Where a value of a profile stands: a field, and the keys below it."""
    if not (isinstance(value, list) and value and value[0] in profile.FIELDS):
        return refused(checks, field, "must begin with a field of a profile")
    return several(text(_KIB), MAX_DEPTH)(checks, field, value)


_CHANGE = shaped(
    {
        "path": _path,
        "value": _ANYTHING,
        "ended": flag,
        "said_at": moment,
        "source": _OBJECT,
    },
    _MOST,
    closed=True,
)
"""What somebody said of one value of a profile."""


def _patched(checks: Checks, field: str, value: Any) -> Any:
    """What a reply said of a profile: value by value; in earlier versions as one patch."""
    if isinstance(value, dict) and "changes" in value:
        changes = {"changes": several(_CHANGE, 10_000)}
        return shaped(changes, _MOST, closed=True)(checks, field, value)
    return _patch(profile.FIELDS)(checks, field, value)


_MENTION = _pair(text(_KIB), text(_KIB), "a name and a type")
_MENTIONS = MayBeAbsent(several(_MENTION, 1_000), [])
_ENDING = _pair(uid, moment, "a memory that ends another, and a time")
_CHALLENGES = several(uid, 10_000)
_SAID = shaped(
    {
        "content": _WORDS,
        "detail": _WORDS,
        "importance": share,
        "confidence": _CONFIDENCE,
        "tags": _LABELS,
        "keywords": _LABELS,
        "questions": MayBeAbsent(_LABELS),
        "entities": _MENTIONS,
        "context": MayBeAbsent(_OBJECT),
        "metadata": MayBeAbsent(_OBJECT),
        "valid_from": moment,
        "valid_to": MayBeAbsent(_MOMENT_OR_NONE),
        "expires_at": MayBeAbsent(_MOMENT_OR_NONE),
        "suspect": flag,
        "sensitive": MayBeAbsent(flag),
        "whole": MayBeAbsent(flag),
        "repeats": MayBeAbsent(flag),
        "status": MayBeAbsent(_STATUS),
        "superseded_by": MayBeAbsent(_UID_OR_NONE),
        "ended_by": MayBeAbsent(several(_ENDING, 10_000)),
        "challenges": MayBeAbsent(_CHALLENGES),
    },
    _MOST,
)
_UPDATED = shaped(
    {
        "content": optional(_WORDS),
        "detail": optional(_WORDS),
        "importance": optional(share),
        "confidence": optional(_CONFIDENCE),
        "tags": _LABELS,
        "questions": MayBeAbsent(_LABELS),
        "entities": _MENTIONS,
        "whole": MayBeAbsent(flag),
    },
    _MOST,
)
_CLOSED = shaped(
    {"status": _STATUS, "valid_to": moment, "superseded_by": _UID_OR_NONE, "entities": _MENTIONS},
    _MOST,
)
_JOINED = shaped(
    {
        "context": _OBJECT,
        "metadata": _OBJECT,
        "expires_at": _MOMENT_OR_NONE,
        "sensitive": flag,
        "entities": _MENTIONS,
    },
    _MOST,
)
_CHALLENGED = shaped({"challenges": _CHALLENGES, "entities": _MENTIONS}, _MOST)
_TAKEN = shaped({"entities": _MENTIONS}, _MOST)
STATEMENTS: Mapping[tuple[str, str], Kind] = {
    ("memory", "said"): _SAID,
    ("memory", "updated"): _UPDATED,
    ("memory", "closed"): _CLOSED,
    ("memory", "challenged"): _CHALLENGED,
    ("memory", "joined"): _JOINED,
    ("memory", "taken"): _TAKEN,
    ("profile", "patched"): _patched,
    ("profile", "taken"): _TAKEN,
    ("summary", "concluded"): _patch(summarise.FIELDS),
}
"""What a statement says, by its subject and its action."""

PROFILE = shaped(
    {
        "department": MayBeAbsent(_WORDS),
        "summary": MayBeAbsent(_WORDS),
        "current_projects": MayBeAbsent(_LABELS),
        "preferences": MayBeAbsent(_OBJECT),
        "frequent_intents": MayBeAbsent(_LABELS),
        "access_level": MayBeAbsent(_WORDS),
        "facts": MayBeAbsent(_OBJECT),
        "metadata": MayBeAbsent(_OBJECT),
    },
    _MOST,
    closed=True,
)
"""A version of a profile."""

CONTEXT_ITEMS = several(
    shaped({"id": name(1024), "relevance": MayBeAbsent(number(0, 1_000))}, 4 * _KIB), 1_000
)
"""What an answer was based on, and what a session showed."""


_SOURCE = shaped(
    {
        "path": _path,
        "conversation_id": text(_KIB),
        "message_id": text(_KIB),
        "said_at": moment,
        "memory_ids": several(uid, 10_000),
        "quote": _WORDS,
    },
    _MOST,
)


def sources(checks: Checks, field: str, value: Any) -> Any:
    """Where each value of a profile comes from, by its path."""
    found = free(_MOST)(checks, field, value)
    return {
        path: _SOURCE(checks, f"{field}.{path[:64]!r}", source)
        for path, source in (found or {}).items()
    }


def said_at(checks: Checks, field: str, value: Any) -> Any:
    """When each value of a profile was said, by its path."""
    found = free(_MOST)(checks, field, value)
    for path, at in (found or {}).items():
        if not isinstance(at, str):
            refused(checks, f"{field}.{path[:64]!r}", "must be a time")
    return found


def check_said(checks: Checks, field: str, row: dict[str, Any]) -> None:
    """Check what a statement says, which depends on its subject and its action."""
    subject, action = row["subject"], row["action"]
    if (kind := STATEMENTS.get((subject, action))) is not None:
        row["said"] = kind(checks, f"{field}.said", row["said"])
    elif subject is not None and action is not None:
        refused(checks, f"{field}.action", f"is no action of a statement about a {subject}")


def check_ending(checks: Checks, field: str, row: dict[str, Any]) -> None:
    """Check that status, successor and times of a memory agree: a version may be written again."""
    status, successor = row["status"], row["superseded_by"]
    if successor is not None and (status in _WITHOUT_SUCCESSOR or successor == row["memory_id"]):
        refused(checks, f"{field}.superseded_by", "must be null, or another memory if it has ended")
    if status == "superseded" and successor is None:
        refused(checks, f"{field}.superseded_by", "must name a memory")
    since, until = row["valid_from"], row["valid_to"]
    if since and until and datetime.fromisoformat(until) < datetime.fromisoformat(since):
        refused(checks, f"{field}.valid_to", "must not precede valid_from")
