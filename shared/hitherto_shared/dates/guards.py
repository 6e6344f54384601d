"""Whether words that could name a time do: "may" and "march" are verbs, "June" is a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hitherto_shared.dates.phrases import PhraseContext, joined
from hitherto_shared.dates.readers import Found

_VERBS = frozenset({"may", "march"})
_CERTAIN = frozenset("january february july september october november december".split())
_WHOLE_DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())


def _capital(reading: PhraseContext, at: int) -> bool:
    """Whether a word is capitalised for itself, not for upper-case text or its position."""
    if not reading.text[at : at + 1].isupper() or reading.text[at + 1 : at + 2].isupper():
        return False
    ahead = reading.text[:at].rstrip(" \t\n\u00a0\"'“‘(")
    return bool(ahead) and ahead[-1] not in ".?!:"


def _follows(it: Found, name: str) -> bool:
    return it.words.near[name].match(it.reading.lower, it.match.end()) is not None


def _precedes(it: Found, name: str) -> bool:
    return it.reading.preceded(it.words.near[name], it.match.start()) is not None


def _date(it: Found) -> bool:
    """Whether a number beside a month's name forms a date."""
    month = it.parts["month"]
    return (
        month not in _VERBS
        or bool(it.parts.get("th"))
        or _capital(it.reading, it.match.start("month"))
        or _precedes(it, "date_word")
        or _follows(it, "year_follows")
        or _follows(it, "clause_ends")
    )


def _month(it: Found) -> bool:
    """Whether a month's name alone means the month, and not a verb or a personal name."""
    month = it.parts["month"]
    if month in _CERTAIN or _follows(it, "year_follows"):
        return True
    if month in _VERBS and _follows(it, "modal"):
        return False
    if "which" in it.parts:
        # "Last march" ends the clause or is written as a name.
        ends = _follows(it, "clause_ends") and not _precedes(it, "the")
        return month not in _VERBS or ends or _capital(it.reading, it.match.start("month"))
    if _precedes(it, "range_opens"):
        return _follows(it, "range_goes_on")
    return (
        _precedes(it, "strong")
        or _follows(it, "month_to_month")
        or joined(it.reading, it.match.start())
    )


def _weekday(it: Found) -> bool:
    """Whether a day is meant: "sun", "sat" and "wed" are also ordinary words."""
    name = it.parts["weekday"]
    placed = "which" in it.parts or _precedes(it, "near_weekday")
    capital = _capital(it.reading, it.match.start("weekday"))
    return name in _WHOLE_DAYS or (placed and capital and name != "sun")


def _no_count(it: Found) -> bool:
    """Whether a year is meant: a round number before a plural ("2000 users") is none."""
    plural = it.words.near["plural"].match(it.reading.text, it.match.end())
    return not (it.parts["year"].endswith("00") and plural) or it.continues


def _spoken_month(it: Found) -> bool:
    return (
        it.parts["month"].isdigit()
        or _follows(it, "year_follows")
        or _precedes(it, "spoken_month")
        or joined(it.reading, it.match.start())
    )


def _spoken_weekday(it: Found) -> bool:
    start = it.match.start("weekday")
    return (
        start < 0
        or "which" in it.parts
        or it.reading.text[start : start + 2].istitle()
        or _precedes(it, "weekday")
        or _follows(it, "week_follows")
        or joined(it.reading, it.match.start())
    )


GUARDS: Mapping[str, Callable[[Found], bool]] = {
    "date": _date,
    "month": _month,
    "weekday": _weekday,
    "no_count": _no_count,
    "spoken_month": _spoken_month,
    "spoken_weekday": _spoken_weekday,
}
