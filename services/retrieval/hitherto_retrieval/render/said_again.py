"""Makes one item of what was found several times in the same words.

People repeat themselves: the same request every week would fill a block with one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hitherto_retrieval.render.context import RelevantItem

_NAMED = 3
"""How many other days a line names; of the others it says how many there are."""
_TELLING = 20
"""Bytes of a message that says something without what it replies to."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def once_each(items: Sequence[RelevantItem]) -> Sequence[RelevantItem]:
    """Messages of one speaker in the same words as the newest of them.

    It stands where the best of them stood. Messages of few words stay, and those beside which
    something of another speaker was found: "Yes." says another thing after each question.
    """
    speakers: dict[str | None, set[tuple[str, str]]] = {}
    for item in items:
        if item.role:
            speakers.setdefault(item.said_in, set()).add((item.role, item.title))
    alike: dict[object, list[RelevantItem]] = {}
    for place, item in enumerate(items):
        alone = item.role and len(speakers[item.said_in]) == 1
        key = (item.role, item.title, item.text, item.partly_until, item.first)
        tells = alone and len(item.text.encode()) >= _TELLING
        alike.setdefault(key if tells else place, []).append(item)
    if len(alike) == len(items):
        return items
    return [_one_of(group) for group in alike.values()]


def also_on(days: Sequence[str]) -> str:
    """In brackets the days, the newest first, that differ from the first; empty without any."""
    _, *others = dict.fromkeys(days) or ("",)
    if not others:
        return ""
    more = len(others) - _NAMED
    rest = "" if more < 1 else f" and {more} other day{'s' if more > 1 else ''}"
    return f"(also on {', '.join(others[:_NAMED])}{rest}) "


def _one_of(group: Sequence[RelevantItem]) -> RelevantItem:
    if len(group) == 1:
        return group[0]
    newest, *others = sorted(group, key=lambda item: item.at or _LONG_AGO, reverse=True)
    return replace(
        newest,
        score=max(item.score for item in group),
        sources=list(dict.fromkeys(source for item in group for source in item.sources)),
        again=[(source, item.at) for item in others if item.at for source in item.sources],
    )
