"""Replaces secrets in a text by markers: keys, tokens, passwords and card numbers.

A marker is the same for every secret of a kind, and is no secret itself: what was redacted once
stays as it is. So a message that is sent again is redacted to the same text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hitherto_shared.text.secret_shapes import (
    SECRET_NAMES,
    SHAPES,
    SHORTEST_UNBROKEN,
    SecretShape,
)

CARD = "card number"
_NAMED = "secret"
MARKED = re.compile(
    rf"\[redacted: (?:{'|'.join(sorted({re.escape(s.name) for s in SHAPES} | {CARD, _NAMED}))})\]"
)
"""A marker, as it stands in a text."""

Anchors = Sequence[tuple[SecretShape, str]]
"""Anchors, each with its shape, in the order of `SHAPES`."""
ANCHORS: Anchors = [(shape, anchor) for shape in SHAPES for anchor in shape.anchors]

_LIKE_CARD = re.compile(r"[2-6][0-9]{3}[ -]?[0-9]{4,6}")
# Of one piece or in the groups that stand on a card, between other than digits and letters.
_CARD = re.compile(
    r"(?<![0-9A-Za-z_.+-])(?<![0-9] )(?:"
    r"(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6011|64[4-9][0-9]|65[0-9]{2}|352[89]|35[3-8][0-9]"
    r"|62[0-9]{2})(?:[ -]?[0-9]{4}){3}(?:[ -]?[0-9]{3})?"
    r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}"
    r"|3(?:0[0-5]|[68][0-9])[0-9][ -]?[0-9]{6}[ -]?[0-9]{4}"
    r")(?![0-9A-Za-z_])(?![ .,-][0-9])"
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a text: its place, and the name of its shape."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """What is left of a text, and the names of the shapes of the secrets that were in it."""

    text: str
    names: tuple[str, ...] = ()


def marker(name: str) -> str:
    """What stands in the place of a secret."""
    return f"[redacted: {name}]"


def count_marked(text: str) -> int:
    """The number of markers in a text."""
    return sum(1 for _ in MARKED.finditer(text)) if "[redacted: " in text else 0


def anchors_in(text: str, among: Anchors = ANCHORS) -> Anchors:
    """Of these anchors, those that a text has; all that its parts have, if a line break is between.

    To look for them in several texts together takes far less time than in each.
    """
    folded = _folded(text)
    # Few words of a text are that long, so that few anchors are looked for in all of it.
    long_words = "\n".join([word for word in text.split() if len(word) >= SHORTEST_UNBROKEN])
    return [each for each in among if each[1] in (folded if each[0].named else long_words)]


def find_secrets(text: str, among: Anchors = ANCHORS) -> list[Secret]:
    """The secrets in a text that have one of these anchors, in order; they do not overlap."""
    anchors = anchors_in(text, among) if among else among
    folded = _folded(text) if anchors else ""
    found = [
        Secret(*place, shape.name)
        for shape, anchor in anchors
        for place in _places(shape, anchor, text, folded if shape.named else text)
    ]
    for like in _LIKE_CARD.finditer(text):
        card = _CARD.match(text, like.start())
        if card is not None and is_card_number(card.group()):
            found.append(Secret(*card.span(), CARD))
    apart: list[Secret] = []
    # Of those that overlap, the first counts, as far as the last of them ends.
    for each in sorted(found, key=lambda secret: secret.start):
        if apart and each.start < apart[-1].end:
            apart[-1] = replace(apart[-1], end=max(apart[-1].end, each.end))
        else:
            apart.append(each)
    return apart


def redact_text(text: str, among: Anchors = ANCHORS) -> Redacted:
    """A text with markers in the place of its secrets.

    `among` are the anchors that it may have.
    """
    secrets = find_secrets(text, among)
    if not secrets:
        return Redacted(text)
    parts: list[str] = []
    end = 0
    for secret in secrets:
        parts += (text[end : secret.start], marker(secret.name))
        end = secret.end
    return Redacted("".join((*parts, text[end:])), tuple(secret.name for secret in secrets))


def redact_named(name: str, text: str, among: Anchors = ANCHORS) -> Redacted:
    """`redact_text` of a field of free JSON: one whose name says that it is a secret, is one."""
    if _names_a_secret(name) and text.strip() and not MARKED.search(text):
        return Redacted(marker(_NAMED), (_NAMED,))
    return redact_text(text, among)


def is_card_number(digits: str) -> bool:
    """Whether the digits of a text, right to left, fulfil Luhn's check and are not all equal."""
    numbers = [int(each) for each in reversed(digits) if each.isdecimal()]
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[1::2])
    return len(set(numbers)) > 1 and (sum(numbers[::2]) + sum(doubled)) % 10 == 0


def _folded(text: str) -> str:
    # Of all letters, only this one has another number of letters in lower case.
    return text.replace("İ", "i").lower()


def _places(shape: SecretShape, anchor: str, text: str, compared: str) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    at = compared.find(anchor)
    while at >= 0:
        place = shape.at(text, compared, at)
        if place is not None:
            places.append(place)
        at = compared.find(anchor, max(at + 1, place[1] if place else 0))
    return places


def _names_a_secret(key: str) -> bool:
    return len(key) <= 40 and key.lower().translate(_JOINED) in SECRET_NAMES


_JOINED = str.maketrans("", "", "-_ ")
