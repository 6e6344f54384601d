"""`find_window`: the time window that a question names, in any supported language."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto_shared.dates.language import DateMatch, Language
from hitherto_shared.dates.phrases import PhraseContext
from hitherto_shared.dates.window import (
    DISTANT_PAST,
    Window,
    end_instant,
    first_instant,
)
from hitherto_shared.dates.world import named_times
from hitherto_shared.text.normalise import normalized

MAX_CHARACTERS = 1_000
"""Only the beginning of a longer question is read: a question states its time in one sentence."""


ENGLISH, VIETNAMESE, _PLAIN = (
    Language("english"),
    Language("vietnamese"),
    Language("vietnamese", plain=True),
)
_VIETNAMESE_ONLY = re.compile("[ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịĩọỏốồổỗộớờởỡợụủũứừửữựỳỵỷỹ]")


def languages_of(lower: str) -> tuple[Language, ...]:
    """The languages whose words a text may hold, the one to be tried first in front.

    Vietnamese words without diacritics count unless the text shows that it has them.
    """
    if lower.isascii():
        return (ENGLISH, _PLAIN)
    # "hom qua o café": the accents may belong to a word of another language.
    only = _VIETNAMESE_ONLY.search(lower)
    return (ENGLISH, VIETNAMESE) if only else (ENGLISH, VIETNAMESE, _PLAIN)


def find_window(query: str, now: datetime, time_zone: str = "UTC") -> Window | None:
    """The time window that a question names, or None.

    Everything below is read in English and Vietnamese; of other languages, near days and periods,
    counted units and dates (`world.py`).

    Days, weeks (from Monday), months and years are those of `time_zone`. A date without a year is
    the latest one that is not after `now`. Seasons are those of the northern hemisphere, and a
    winter belongs to the year of its December. "Since" and "after" reach to `now`; "before" and
    "until" start at `DISTANT_PAST`. Numeric dates are day first unless that is impossible. Of
    several times in one question the first counts.

    Only the first 1,000 characters of `query` are read. `now` counts as UTC if it has no time zone;
    `time_zone` is the IANA name of the user's.

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
    reading = PhraseContext(text, local)
    found = [
        DateMatch(named.span.first, named.span.last, False, named.start, named.end)
        for named in named_times(reading.lower, reading.words, reading.today)
    ]
    for language in languages_of(reading.lower):
        if match := language.find(replace(reading, phrases=[])):
            found.append(match)
            if language is not ENGLISH:
                break
    best = min(found, key=lambda match: (match.start, -match.end), default=None)
    return _window(best, text, instant, zone) if best else None


def _window(found: DateMatch, text: str, now: datetime, zone: tzinfo) -> Window | None:
    start = DISTANT_PAST if found.first is None else first_instant(found.first, zone)
    end = now if found.to_now else end_instant(found.last, zone)
    return Window(start, end, text[found.start : found.end]) if start < end else None


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
