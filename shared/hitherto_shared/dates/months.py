"""The months that a text names together with their year: "since March 2019", "od marca 2019"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time
from itertools import islice

from hitherto_shared.dates.find import languages_of
from hitherto_shared.dates.phrases import Kind, PhraseContext
from hitherto_shared.dates.spans import Span
from hitherto_shared.dates.world import named_times
from hitherto_shared.text.normalise import normalized

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_BEFORE = 32
"""Characters before a year in which its month stands in words."""
_MOST = 100
"""Maximum years of a text that are read, so that a long text takes little time."""
_NO_DAY = datetime.combine(date.max, time())


def named_months(text: str) -> frozenset[tuple[int, int]]:
    """The year and the number of each month that a text names in words, in a known language."""
    text = normalized("NFC", text)
    found: set[tuple[int, int]] = set()
    done = 0
    for year in islice(_YEAR.finditer(text), _MOST):
        part = text[max(done, year.start() - _BEFORE) : year.end()]
        for span in _months(PhraseContext(part, _NO_DAY)):
            # A month that stands without the year belongs to another one.
            if span.first.year == int(year[0]):
                found.add((span.first.year, span.first.month))
        done = year.end()
    return frozenset(found)


def _months(reading: PhraseContext) -> Iterator[Span]:
    for named in named_times(reading.lower, reading.words, reading.today):
        if named.unit == "month":
            yield named.span
    for language in languages_of(reading.lower):
        for phrase in language.phrases(replace(reading, phrases=[])):
            if phrase.kind in (Kind.MONTH, Kind.DAY):
                yield phrase.span
