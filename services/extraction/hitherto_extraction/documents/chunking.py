"""Divides a text into chunks at sentence boundaries, in any language.

A chunk is a stretch of the text without the white space around it. Chunks do not overlap: each
character is in one of them, so that a passage is found once and a change of one sentence changes
one chunk or two. The same text always yields the same chunks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hitherto_shared.text.graphemes import is_border

TARGET = 1_000
"""Maximum characters of a chunk; most are shorter by a sentence."""
HEADING_TITLE = 300
HEADING_SUMMARY = 700
"""Maximum characters of title and summary that precede every chunk in the indexes. With them a
chunk stays within the 8,192 bytes that embedding models read."""

_PARAGRAPH_FROM = TARGET * 3 // 5
"""A chunk of this length ends with its paragraph rather than include the beginning of the next."""
_LOOK_BACK = TARGET // 2

_CLOSERS = "\"'”’»)\\]}」』】》〉）］"
# A sentence ends at its punctuation; in scripts with spaces, only if a space follows.
_END = re.compile(
    rf"(?:(?<![.!?…‽؟۔])[.!?…‽؟۔]++[{_CLOSERS}]*+(?=\s)|[。！？｡．]++[{_CLOSERS}]*+|[।॥။។៕]++|\n)"
    r"(?P<space>\s*+)"
)
# What each of these begins with.
_STOP = re.compile(r"[.!?…‽؟۔。！？｡．।॥។៕\n]")
_WINDOW = 64 * 1024
"""Characters that are searched at once: no other thread runs meanwhile."""
_SOFT = frozenset(",;:)]}、，；：）」』・–—")


def heading(title: str, summary: str) -> str:
    """The text that precedes every chunk of a document in the indexes, but is in no chunk."""
    parts = (title.strip()[:HEADING_TITLE], summary.strip()[:HEADING_SUMMARY])
    return "\n".join(part for part in parts if part)


def passages(title: str, summary: str, content: str) -> list[str]:
    """The chunks of a document, in order.

    Title and summary have chunks of their own if there is nothing else, or if they are too long to
    precede every chunk.
    """
    title, summary = title.strip(), summary.strip()
    found = chunks(content)
    if not found or len(title) > HEADING_TITLE or len(summary) > HEADING_SUMMARY:
        found = chunks("\n\n".join(part for part in (title, summary) if part)) + found
    return found


def chunks(text: str) -> list[str]:
    """The chunks of a text: each of at most `TARGET` characters, none blank."""
    found = []
    start = end = 0
    for piece_start, piece_end in _pieces(text):
        if end > start and (piece_end - start > TARGET or _is_settled(text[start:end])):
            found.append(text[start:end])
            start = piece_start
        end = piece_end
    found.append(text[start:end])
    return [chunk for chunk in map(str.strip, found) if chunk]


def _is_settled(chunk: str) -> bool:
    """Whether a chunk is long enough to end with its paragraph, and has reached its end."""
    return len(chunk) >= _PARAGRAPH_FROM and chunk[len(chunk.rstrip()) :].count("\n") > 1


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text, with the white space after them; overlong ones in parts."""
    start = 0
    for match in _ends(text):
        if _ends_sentence(text, match):
            yield from _parts(text, start, match.end())
            start = match.end()
    if start < len(text):
        yield from _parts(text, start, len(text))


def _ends(text: str) -> Iterator[re.Match[str]]:
    """Every match of `_END`."""
    at = 0
    while at < len(text):
        stop = _STOP.search(text, at, at + _WINDOW)
        if stop is None:
            at += _WINDOW
        elif (match := _END.match(text, stop.start())) is None:
            at = stop.end()
        else:
            yield match
            at = match.end()


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether it does: "approx. five" continues, and combining marks stay with their letter."""
    end = match.end()
    if not is_border(text, end):
        return False
    stop = match.group().rstrip().endswith(".") and "\n" not in match["space"]
    return not (stop and end < len(text) and text[end].islower())


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > TARGET:
        cut = _cut(text, start, start + TARGET)
        yield start, cut
        start = cut
    yield start, end


def _cut(text: str, start: int, limit: int) -> int:
    """Where to cut within a sentence: after a space, else a comma, else between graphemes."""
    for fits in (str.isspace, _SOFT.__contains__):
        for at in range(limit, limit - _LOOK_BACK, -1):
            if fits(text[at - 1]) and is_border(text, at, start):
                return at
    # A grapheme of a thousand characters is not real text.
    return next((at for at in range(limit, start, -1) if is_border(text, at, start)), limit)
