"""Infers preferences from how a user writes: length, subjects, time of day (F5, F6).

The rules and their words are those of document 003. The confidence is ours: it starts at 0.5, rises
by 0.1 with every repetition and falls by 0.1 with every sign to the contrary. A preference without
any remaining support is replaced by its opposite. Only messages of the user count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import Preference
from hitherto_shared.text.normalise import fold

FIRST_CONFIDENCE = 0.5
STEP = 0.1

BRIEF_BELOW = 10
DETAILED_ABOVE = 50
"""Words of a message."""
CONCISE_BELOW = 0.7
LENGTHENED_ABOVE = 1.3
"""Length of an edited answer relative to the answer, in characters."""

TOPICS: Mapping[str, frozenset[str]] = {
    "email": frozenset({"email", "mail", "send", "reply", "inbox"}),
    "calendar": frozenset({"meeting", "schedule", "calendar", "event"}),
    "tasks": frozenset({"task", "jira", "ticket", "issue", "todo"}),
    "documents": frozenset({"document", "doc", "file", "drive"}),
}

_NOT_ALONE = frozenset({"drive"})
"""Words that have too many other meanings to teach a topic by themselves."""

Key = tuple[str, str]
"""Type and key of a preference."""

_WORD = re.compile(r"\w+")
# Scripts without spaces between words; two of their characters count as a word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


def observe(messages: Iterable[StoredMessage], time_zone: str) -> list[tuple[Key, Any]]:
    """What each message of the user shows, in order: (type, key) and value."""
    zone = zone_of(time_zone)
    seen: list[tuple[Key, Any]] = []
    for message in messages:
        if message.role != "user":
            continue
        if (style := _style(message.content)) is not None:
            seen.append((("interaction", "message_style"), style))
        written = _WORD.findall(fold(message.content))
        # Document 003 looks for parts of words: "meetings", but also "doc" in "docker".
        words = {*written, *(word.removesuffix("s") for word in written)}
        seen.extend(
            (("topics", topic), True)
            for topic, named in TOPICS.items()
            if (words & named) - _NOT_ALONE
        )
        seen.append((("usage", "active_time"), _time_of_day(message.said_at.astimezone(zone))))
    return seen


def observe_edit(original: str, edited: str) -> list[tuple[Key, Any]]:
    """What an edited answer shows: nothing unless its length changed enough."""
    if not original:
        return []
    ratio = len(edited) / len(original)
    if ratio < CONCISE_BELOW:
        return [(("response", "length"), "concise")]
    if ratio > LENGTHENED_ABOVE:
        return [(("response", "length"), "detailed")]
    return []


def learn(
    known: Mapping[Key, Preference], seen: Sequence[tuple[Key, Any]], at: datetime
) -> list[Preference]:
    """The preferences changed by observations, in their new state."""
    now: dict[Key, Preference] = {}
    for key, value in seen:
        held = now.get(key) or known.get(key)
        now[key] = _after(held, key, value, at)
    return list(now.values())


def shift(known: Iterable[Preference], step: float, at: datetime) -> list[Preference]:
    """The preferences used in a good or bad answer, with confidence changed by `step`."""
    return [
        replace(held, confidence=confidence, updated_at=at)
        for held in known
        if (confidence := _clamped(held.confidence + step)) != held.confidence
    ]


def _after(held: Preference | None, key: Key, value: Any, at: datetime) -> Preference:
    if held is None:
        return Preference(
            *key, value=value, confidence=FIRST_CONFIDENCE, observations=1, updated_at=at
        )
    count, same = held.observations + 1, held.value == value
    confidence = _clamped(held.confidence + (STEP if same else -STEP))
    if same or confidence > 0:
        return replace(held, confidence=confidence, observations=count, updated_at=at)
    return Preference(*key, value, FIRST_CONFIDENCE, count, at)


def _style(text: str) -> str | None:
    words = count_words(text)
    if words < BRIEF_BELOW:
        return "brief"
    return "detailed" if words > DETAILED_ABOVE else None


def count_words(text: str) -> float:
    """Words between spaces; in scripts without spaces, two characters count as one."""
    if text.isascii():
        return len(text.split())
    unspaced = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + unspaced / 2


def _time_of_day(moment: datetime) -> str:
    if 5 <= moment.hour < 12:
        return "morning"
    if 12 <= moment.hour < 17:
        return "afternoon"
    return "evening" if 17 <= moment.hour < 21 else "night"


def _clamped(confidence: float) -> float:
    return round(min(max(confidence, 0.0), 1.0), 6)
