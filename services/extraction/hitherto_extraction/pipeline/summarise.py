"""Merges a batch's summary into the summary of the conversation.

The model sees the summary so far and describes the whole conversation, so its values replace the
old ones; fields it leaves out stay. The reply is untrusted: a field of the wrong type counts as
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hitherto_shared.models import NEUTRAL_TITLE, OUTCOMES, Summary
from hitherto_shared.text.graphemes import beginning
from hitherto_shared.text.instructions import overrides_instructions
from hitherto_shared.text.normalise import nfc, unusable_characters

MAX_TITLE = 255
MAX_SUMMARY = 8_000
"""Maximum characters of the summary text."""
MAX_ITEMS = 20
MAX_SUGGESTIONS = 10
MAX_ITEM = 100
"""Maximum characters of a topic or suggestion; a longer one is cut."""

_FIRST_WORDS = 10
_FIRST_CHARACTERS = 80
_FIRST_OUTCOME = "ongoing"


@dataclass(frozen=True, slots=True)
class SummaryFields:
    """The fields to store."""

    title: str
    summary: str
    outcome: str
    key_topics: tuple[str, ...]
    technical_topics: tuple[str, ...]
    followup_suggestions: tuple[str, ...]


FIELDS = tuple(field.name for field in fields(SummaryFields))


def merge_summary(
    current: Summary | None,
    given: Mapping[str, Any],
    *,
    first_user_words: str,
    late: bool = False,
) -> SummaryFields:
    """Merge the model's summary of a conversation into the stored one.

    An absent or empty field keeps the old value, a list replaces the old one. Text that overrides
    the assistant's instructions counts as absent: a summary has no quarantine.

    `given` holds any of `FIELDS`, of any type. Without a title, `first_user_words` give one. If
    `late`, the reply is about messages before those that the summary already covers, as when an
    older job is retried: it fills empty fields and replaces nothing.
    """
    old = current
    new = {name: None if late and getattr(old, name, None) else given.get(name) for name in FIELDS}
    return SummaryFields(
        title=_line(new["title"], MAX_TITLE)
        or _line(old.title if old else "", MAX_TITLE)
        or _line(_first_words(first_user_words), MAX_TITLE)
        or NEUTRAL_TITLE,
        summary=_text(new["summary"], MAX_SUMMARY) or (old.summary if old else ""),
        outcome=_outcome(new["outcome"]) or _outcome(old and old.outcome) or _FIRST_OUTCOME,
        key_topics=_items(new["key_topics"], old.key_topics if old else ()),
        technical_topics=_items(new["technical_topics"], old.technical_topics if old else ()),
        followup_suggestions=_items(
            new["followup_suggestions"],
            old.followup_suggestions if old else (),
            at_most=MAX_SUGGESTIONS,
        ),
    )


def _text(value: Any, limit: int) -> str:
    """The text without surrounding space, cut at `limit` characters; empty for anything else."""
    if not isinstance(value, str) or unusable_characters(value):
        return ""
    text = nfc(value).strip()
    if overrides_instructions(text):
        return ""
    return text if len(text) <= limit else beginning(text, limit - 1).rstrip() + "…"


def _line(value: Any, limit: int) -> str:
    return _text(" ".join(value.split()), limit) if isinstance(value, str) else ""


def _first_words(text: str) -> str:
    usable = text.replace("\x00", " ").encode("utf-8", "ignore").decode()
    words = usable.split()
    line = " ".join(words[:_FIRST_WORDS])
    cut = beginning(line, _FIRST_CHARACTERS).rstrip()
    return cut if len(cut) == len(" ".join(words)) else cut + "…"


def _outcome(value: Any) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in OUTCOMES else ""


def _items(given: Any, old: Sequence[str], *, at_most: int = MAX_ITEMS) -> tuple[str, ...]:
    lines = [_line(item, MAX_ITEM) for item in given] if isinstance(given, list | tuple) else []
    found: dict[str, str] = {}
    for line in lines:
        if line:
            found.setdefault(line.casefold(), line)
    return tuple(found.values())[:at_most] or tuple(old)
