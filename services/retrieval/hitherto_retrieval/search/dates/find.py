"""`find_window`: the time window that a question names, in any supported language."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto_retrieval.search.dates import english, vietnamese
from hitherto_retrieval.search.dates.language import DateMatch
from hitherto_retrieval.search.dates.phrases import PhraseContext
from hitherto_retrieval.search.dates.window import (
    DISTANT_PAST,
    Window,
    end_instant,
    first_instant,
)
from hitherto_shared.text.normalise import normalized
from hitherto_shared.vocabulary.world_times import named_times

_WORD = re.compile(r"\w+")
MAX_CHARACTERS = 1_000
"""Only the beginning of a longer question is read: a question states its time in one sentence."""


def find_window(query: str, now: datetime, time_zone: str = "UTC") -> Window | None:
    """The time window that a question names, or None.

    Everything below is read in English and Vietnamese; of other languages, near days and periods,
    counted units and dates (`world_times.py`).

    Days, weeks (from Monday), months and years are those of `time_zone`. A date without a year is
    the latest one that is not after `now`. Seasons are those of the northern hemisphere, and a
    winter belongs to the year of its December. "Since" and "after" reach to `now`; "before" and
    "until" start at `DISTANT_PAST`. Numeric dates are day first unless that is impossible. Of
    several times in one question the first counts.

    Args:
        query: any text; only its first 1,000 characters are read.
        now: the moment the question is asked; UTC if it has no time zone.
        time_zone: IANA name of the user's time zone.

    Raises:
        ValueError: `time_zone` is no known name.
    """
    zone = _zone(time_zone)
    if now.tzinfo is None:
        now = now.replace(tzinfo=UTC)
    try:
        local = now.astimezone(zone).replace(tzinfo=None)
        instant = now.astimezone(UTC)
    except (OverflowError, ValueError):
        local = now.replace(tzinfo=None)
        instant = local.replace(tzinfo=UTC)
    text = query[:MAX_CHARACTERS]
    if not text.isascii():
        text = normalized("NFC", text)
    lower = _lower(text)
    words = [(match.start(), match[0]) for match in _WORD.finditer(lower)]
    found = [
        DateMatch(named.span.first, named.span.last, False, named.start, named.end)
        for named in named_times(lower, words, local.date())
    ]
    for find in (english.find, vietnamese.find):
        if match := find(PhraseContext(text, lower, local, words)):
            found.append(match)
    best = min(found, key=lambda match: (match.start, -match.end), default=None)
    return _window(best, text, instant, zone) if best else None


def _window(found: DateMatch, text: str, now: datetime, zone: tzinfo) -> Window | None:
    start = DISTANT_PAST if found.first is None else first_instant(found.first, zone)
    end = now if found.to_now else end_instant(found.last, zone)
    return Window(start, end, text[found.start : found.end]) if start < end else None


def _lower(text: str) -> str:
    """Lower case that preserves every position (a plain `lower` turns "İ" into two characters)."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := ch.lower()) == 1 else ch for ch in text)


@lru_cache(maxsize=1_024)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown time zone {name[:64]!r}: use an IANA name such as Asia/Ho_Chi_Minh or UTC"
        ) from error
