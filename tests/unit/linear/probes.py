"""Texts that are slow to read for one regular expression, made from the expression itself.

A careless expression is slow where a repeat can go on for long, fails in the end, and is tried
again from many places or in many ways. For each repeat of an expression the probes hold what stands
before it, once and again and again, and what it repeats, again and again.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from tests.growth import filled

_sre: Any = importlib.import_module("re._parser")

_LONG = 64
"""A repeat that may go on for longer than this is probed as if it had no end."""
_CANDIDATES = " \n\t-aA1zé忽アй한اạ.,:;!?'\"“([{<>@#*_/|\\`~=+%&$^\u200b\u3000\u0301🙂\x00"
_MOST_EXAMPLES = 2
_MOST_PREFIXES = 2

_WALLS = ("b", "\x01")

Probe = Callable[[int], str]


def probes(pattern: str, flags: int) -> Iterator[tuple[str, Probe]]:
    """A name and a text of any length, for each way in which the expression might be slow."""
    seen = set()
    tree = _sre.parse(pattern, flags & ~re.DEBUG)
    for before, pump in _repeats(list(tree), [""]):
        for piece in _pieces(before, pump):
            if piece not in seen:
                seen.add(piece)
                lead, again = piece
                for start, end in _walls(again):
                    name = f"{start + lead!r} + n * {again!r} + {end!r}"
                    yield name, partial(_text, start + lead, again, end)


def _text(lead: str, again: str, end: str, length: int) -> str:
    return (lead + filled(again, length))[: length - len(end)] + end


def _walls(again: str) -> Iterator[tuple[str, str]]:
    """What may stand around a run: nothing, or what does not belong to it, so that it fails there.

    An expression with an anchor at its start tries a run once that begins the text.
    """
    yield "", ""
    wall = next(each for each in _WALLS if each not in again)
    yield "", wall
    yield wall, wall


def _pieces(before: str, pump: str) -> Iterator[tuple[str, str]]:
    if pump:
        yield "", pump
        yield before, pump
        yield "", before + pump
    if before:
        yield "", before


def _repeats(items: list[Any], before: list[str]) -> Iterator[tuple[str, str]]:
    """What may stand before each long repeat, and one round of it."""
    for op, given in items:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, inner = given
            if high > _LONG:
                yield from itertools.product(before, _examples(list(inner)))
            yield from _repeats(list(inner), before)
            before = _joined(before, [one * max(int(low), 1) for one in _examples(list(inner))])
            continue
        for inner in _inside(name, given):
            yield from _repeats(inner, before)
        before = _joined(before, _examples([(op, given)]))


def _inside(name: str, given: Any) -> list[list[Any]]:
    if name == "SUBPATTERN":
        return [list(given[-1])]
    if name == "BRANCH":
        return [list(branch) for branch in given[1]]
    if name in ("ASSERT", "ASSERT_NOT"):
        return [list(given[1])]
    if name == "ATOMIC_GROUP":
        return [list(given)]
    return []


def _joined(heads: list[str], tails: list[str]) -> list[str]:
    """Some of the ways to go on; the first of each, so that no alternative is lost at once."""
    both = [head + tail for tail in tails for head in heads]
    return list(dict.fromkeys(both))[:_MOST_PREFIXES]


def _examples(items: list[Any]) -> list[str]:
    """A few short texts that the items match, as far as one can say without trying."""
    found = [""]
    for op, given in items:
        name = str(op)
        if name == "LITERAL":
            tails = [chr(given)]
        elif name == "NOT_LITERAL":
            tails = [ch for ch in _CANDIDATES if ord(ch) != given][:_MOST_EXAMPLES]
        elif name == "ANY":
            tails = ["a", " "]
        elif name == "IN":
            tails = _of_set(tuple(given))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, _, inner = given
            tails = [one * max(int(low), 1) for one in _examples(list(inner))]
            tails += [""] if not low else []
        elif name in ("SUBPATTERN", "BRANCH", "ATOMIC_GROUP"):
            branches = [_examples(inner) for inner in _inside(name, given)]
            tails = [one for ones in itertools.zip_longest(*branches) for one in ones if one]
        else:  # Assertions, positions and references to groups take nothing here.
            tails = [""]
        found = _joined(found, tails[: _MOST_EXAMPLES + 1] or [""])
    return found


@cache
def _of_set(items: tuple[tuple[Any, Any], ...]) -> list[str]:
    named = [(str(op), value) for op, value in items]
    chars = [chr(value) for name, value in named if name == "LITERAL"]
    ranges = [value for name, value in named if name == "RANGE"]
    kinds = [value for name, value in named if name == "CATEGORY"]
    negated = ("NEGATE", None) in named
    chars += [chr(low) for low, _ in ranges]

    def inside(ch: str) -> bool:
        hit = (
            ch in chars
            or any(low <= ord(ch) <= high for low, high in ranges)
            or any(_of_kind(ch, str(kind)) for kind in kinds)
        )
        return hit != negated

    wanted = [ch for ch in _CANDIDATES if inside(ch)]
    if not negated:
        wanted = list(dict.fromkeys(wanted[:2] + chars + wanted))
    # Some from the front and the last one: white space and letters and signs, where all are in it.
    return wanted[:2] + wanted[-1:]


def _of_kind(ch: str, kind: str) -> bool:
    expression = {
        "CATEGORY_DIGIT": r"\d",
        "CATEGORY_NOT_DIGIT": r"\D",
        "CATEGORY_SPACE": r"\s",
        "CATEGORY_NOT_SPACE": r"\S",
        "CATEGORY_WORD": r"\w",
        "CATEGORY_NOT_WORD": r"\W",
    }[kind]
    return re.fullmatch(expression, ch) is not None
