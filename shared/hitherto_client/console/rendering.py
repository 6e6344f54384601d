"""Templates, and how values are shown and drawn on pages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hitherto_client.days import local

_COLOURS = frozenset(
    (
        "semantic keyword source date entity temporal session neighbour facts speaker recency "
        "fulltext"
    ).split()
)
"""Components of a score that have a colour of their own in the stylesheet."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One component of a score as a segment of a bar."""

    name: str
    value: float
    start: float
    """Where it begins, in percent of the bar."""
    width: float
    """In percent of the bar."""
    colour: str
    """The name of its class in the stylesheet."""


def stacked(breakdown: Mapping[str, float], scale: float = 1.0) -> tuple[ScorePart, ...]:
    """The components that add to a score, the largest first, end to end.

    `scale` is the score that fills the whole bar.
    """
    parts = []
    start = 0.0
    for name, value in sorted(breakdown.items(), key=lambda item: (-item[1], item[0])):
        width = max(0.0, min(value / scale * 100, 100 - start)) if scale > 0 else 0.0
        if round(value, 3) == 0:
            continue
        colour = name if name in _COLOURS else "other"
        parts.append(ScorePart(name, value, round(start, 2), round(width, 2), colour))
        start += width
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The time for which a statement was true, as a segment of a line."""

    start: float
    """Where it begins, in percent of the line."""
    width: float
    """In percent of the line."""


def validity(
    valid_from: datetime | None,
    valid_to: datetime | None,
    first: datetime,
    last: datetime,
) -> TimeSpan:
    """Where a validity lies between two times."""
    whole = max((last - first).total_seconds(), 1.0)
    begin = max(valid_from or first, first)
    end = min(valid_to or last, last)
    start = min(max((begin - first).total_seconds() / whole * 100, 0.0), 99.0)
    width = min(max((end - begin).total_seconds() / whole * 100, 1.0), 100 - start)
    return TimeSpan(round(start, 2), round(width, 2))


def now() -> datetime:
    """The time that open spans reach to."""
    return datetime.now(UTC)


HERE = Path(__file__).parent
STATIC = HERE / "static"

_ISO_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


_LABELS = {
    "needs_followup": "needs follow-up",
    "unspecified": "not known",
    "timed_out": "timed out",
    "rolled_back": "taken back",
    "contradicted": "no longer true",
    "superseded": "merged",
    "quarantined": "to be reviewed",
    "fulltext": "full text",
    "source_priority": "source",
    "about_the_user": "About the user",
    "what_you_know": "What you know",
    "relevant_context": "Relevant context",
    "markdown": "Markdown",
    "conversation": "a conversation",
    "explicit": "said to be remembered",
    "inference": "inferred",
    "action": "an action",
    "system": "the system",
    "consolidation": "merged from several",
}


def label(word: str) -> str:
    """A word of the contract, for people."""
    return _LABELS.get(word, word.replace("_", " "))


def _version(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


_ASSETS = {path.name: _version(path.name) for path in STATIC.iterdir() if path.is_file()}


def asset(name: str) -> str:
    """The address of a static file; another one whenever its content changes."""
    return f"/static/{name}?v={_ASSETS[name]}"


def day(moment: datetime | None) -> str:
    """A day as people write it: the day of the person whose data it is."""
    if moment is None:
        return ""
    return written(local(moment).date())


def written(day: date | str) -> str:
    """A day of the calendar as people write it; it may be given in ISO form, or be empty."""
    at = date.fromisoformat(day) if isinstance(day, str) and day else day
    return f"{at.day} {at:%b %Y}" if isinstance(at, date) else ""


def unbroken(text: str) -> Markup:
    """A text whose ISO days stay on one line: browsers break lines at hyphens."""
    return Markup(_ISO_DAY.sub(r'<span class="day">\g<0></span>', str(escape(text))))


def clock(moment: datetime | None) -> str:
    """A time to the minute, in UTC."""
    if moment is None:
        return ""
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y}, {utc:%H:%M} UTC"


def iso(moment: datetime | None) -> str:
    """A time for machines."""
    return "" if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def iso_day(moment: datetime | None) -> str:
    """A day of the person, for date fields."""
    return "" if moment is None else f"{local(moment):%Y-%m-%d}"


def as_json(shown: Mapping[str, str]) -> str:
    """What an editor shows, for the field of its form that repeats it."""
    return json.dumps(shown, ensure_ascii=False)


def plain(value: Any) -> str:
    """A value of free JSON in a line."""
    if value is None or value in ("", [], {}, ()):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (list, tuple)) and not any(isinstance(one, (dict, list)) for one in value):
        return ", ".join(plain(one) for one in value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What an event of a history changed: names, earlier and later values, down to single keys."""
    old, new = dict(_flat("", before)), dict(_flat("", after))
    found = []
    for name in sorted({**old, **new}):
        was, now = plain(old.get(name)), plain(new.get(name))
        if was != now:
            found.append((name, was, now))
    return found


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from _flat(f"{path} · {key}" if path else str(key), inner)
    else:
        yield path, value


def thousands(value: int) -> str:
    """A count, with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        day=day,
        date=written,
        unbroken=unbroken,
        clock=clock,
        iso=iso,
        iso_day=iso_day,
        as_json=as_json,
        plain=plain,
        label=label,
        thousands=thousands,
    )
    environment.globals.update(asset=asset, changed=changed, stacked=stacked, validity=validity)
    return environment


_TEMPLATES = _environment()


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page; every value in it is escaped."""
    return _TEMPLATES.get_template(template).render(values)
