"""Counts the tokens of a text: with a vocabulary, or where none can be had by a cautious estimate.

The estimate needs no vocabulary. It reads a text piece by piece, as tokenisers do, and charges the
maximum cost of such a piece in o200k_base and cl100k_base: characters outside ASCII by a table,
digits in threes, letters by how frequent the pairs of letters in a word are in vocabularies. It
errs on the high side: 1.0 to 2 times the true count, most for English prose and code. Only an
invented word such as "Rcak" can take a token more per three letters.

Both counts are additive over lines that end in a line break, so that lines can be counted
separately. A vocabulary's count of a line is cached, because blocks repeat the lines of earlier
ones.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Protocol

try:
    import splintr
except ImportError:
    splintr = None  # type: ignore[assignment]


class CountTokens(Protocol):
    """Counts the tokens of a text."""

    def __call__(self, text: str) -> int:
        """The tokens of `text`."""
        ...

    def of_lines(self, lines: str) -> int:
        """What whole lines contribute to a count; `between` adds it up."""
        ...

    def between(self, before: str, lines: int, after: str) -> int:
        """The tokens of lines that were counted by `of_lines`, and of what surrounds them.

        Args:
            before: Whole lines.
            lines: What `of_lines` has counted; they begin with neither white space nor a slash.
            after: Text that begins so too.
        """
        ...


ENCODINGS = ("o200k_base", "cl100k_base")
"""The vocabularies, the default first."""

CHARACTER_TOKENS = Path(__file__).with_name("character_tokens.bin")
"""Tokens of each character up to U+FFFF, one byte each, compressed (tools/character_tokens.py)."""

_PIECE = re.compile(r" +(?= )| ?(?:[A-Z]?[a-z]+|[A-Z]+|[^\x00-\x7f]{1,16})|[0-9]{1,3}|.", re.DOTALL)
# Vocabularies merge a line break with what precedes it, never with what follows unless that is
# white space or a slash.
_LINE_END = re.compile(r"\n(?=[^\s/])")
_TOKEN = 100
"""Costs are hundredths of a token."""
_SPACE_BEFORE_A_WORD = 25
_FIRST_LETTER = 64
_FREQUENT_PAIR = 37
_RARE_PAIR = 74
_FREQUENT_CAPITALS = 68
_RARE_CAPITALS = 100
"""Measured with random letters, and with languages that the vocabularies know little of."""

_FREQUENT_PAIRS = frozenset(
    (
        "ab ac ad ag ai ak al am an ap ar as at au av ay ba be bi bl bo br bu ca cc ce ch ci ck "
        "cl co cr ct cu da dd de di do dr ds du ea eb ec ed ee ef eg ei el em en ep er es et ev "
        "ew ex ey fa fe ff fi fl fo fr fu ga ge gh gi gl gn go gr gs gu ha he hi ho ht ia ib ic "
        "id ie if ig il im in io ip ir is it iv iz je ke ki la ld le li ll lo ls lt lu ly ma mb "
        "me mi mm mo mp ms mu na nc nd ne nf ng ni nn no ns nt nu nv oa ob oc od of og oi ok ol "
        "om on oo op or os ot ou ov ow pa pe ph pi pl po pp pr ps pt pu qu ra rc rd re rg ri rk "
        "rm rn ro rr rs rt ru rv ry sa sc se sh si sl so sp ss st su ta tc te th ti tl to tr ts "
        "tt tu ty ua ub uc ud ue ug ui ul um un up ur us ut va ve vi vo wa we wi wo ys ze"
    ).split()
)
"""The third of all pairs of letters that is most frequent in vocabularies."""

_WHOLE_WORDS = frozenset(
    (
        "a about after again all also always am an and any are as ask at away back be because "
        "been before being best better between big both but by call came can city come could "
        "day days did different do does doing done down each early end even ever every family "
        "feel few find first food for free friend friends from full get give go going good "
        "great group had hard has have he help her here high him his home hope house how i "
        "idea if important in into is it its job just keep kind know known last later learn "
        "left less life like likes list little live lives long look looking love loves made "
        "main make makes many may me mean meet might more morning most move much music must "
        "my name need needs never new next nice night no not note now of off often old on "
        "once one only open or order other our out over own part people place plan plans play "
        "please point prefer prefers project put question rather read really right said same "
        "save say says school see set she should show since small so some something soon "
        "start started still stop such sure take team tell than thank thanks that the their "
        "them then there these they thing things think this those time times to today "
        "together told tomorrow too took trip true try two under until up us use used user "
        "uses using very visit visited want wants was way we week weekend well went were what "
        "when where which while who why will with work working works world would write year "
        "years yes yesterday yet you your "
    ).split()
)
"""English words of one token each, which make up half of an English text."""


class TokenEstimate:
    """Counts without a vocabulary; in any text that people write, no less than the usual ones."""

    def __call__(self, text: str) -> int:
        """The tokens of `text`."""
        return -(-self.of_lines(text) // _TOKEN)

    def of_lines(self, lines: str) -> int:
        """See `CountTokens`."""
        return sum(map(_costs.__getitem__, _PIECE.findall(lines)))

    def between(self, before: str, lines: int, after: str) -> int:
        """See `CountTokens`."""
        return -(-(self.of_lines(before) + lines + self.of_lines(after)) // _TOKEN)


estimated_tokens = TokenEstimate()


def counter(encoding: str) -> CountTokens:
    """Count by a vocabulary, or by the estimate where none could be installed.

    Args:
        encoding: One of `ENCODINGS`, or `estimate`. A vocabulary takes 0.2 s and 30 MB to load,
            once for the process.
    """
    if encoding == "estimate" or splintr is None:
        return estimated_tokens
    return _vocabulary(encoding)


@cache
def _vocabulary(encoding: str) -> CountTokens:
    """Count with a vocabulary that is loaded once per process."""
    # Text that looks like a model's control token is ordinary text here.
    encode = splintr.Tokenizer.from_pretrained(encoding).encode_ordinary
    # The first word that is not a token takes as long again, so trigger that here rather than in a
    # call.
    encode("x" * 40)
    return LineCounts(lambda text: len(encode(text)))


class LineCounts:
    """Counts the tokens of a text line by line, and each line once.

    The cache holds hashes of lines, never text. Two lines with one hash would share a count, which
    one call in 10^14 may see.

    Args:
        count: Counts the tokens of one or more whole lines.
        most: Maximum number of cached lines, of 100 bytes each. Beyond that, the cache is cleared.
    """

    def __init__(self, count: Callable[[str], int], *, most: int = 50_000) -> None:
        self._count = count
        self._most = most
        self._known: dict[int, int] = {}

    def __call__(self, text: str) -> int:
        """The tokens of `text`, exactly as if it were counted as a whole."""
        *lines, last = _LINE_END.split(text)
        total = 0
        for line in lines:
            total += self._known.get(hash(line)) or self._tokens(line, "\n")
        if last[-1:] == "\n":
            return total + self._tokens(last[:-1], "\n")
        return total + self._tokens(last, "")

    def of_lines(self, lines: str) -> int:
        """See `CountTokens`."""
        return self(lines)

    def between(self, before: str, lines: int, after: str) -> int:
        """See `CountTokens`."""
        return self(before) + lines + self(after)

    def _tokens(self, line: str, end: str) -> int:
        # Most lines end in a line break, so that those have the plain key.
        key = hash(line if end else (line,))
        tokens = self._known.get(key)
        if tokens is None:
            if len(self._known) >= self._most:
                self._known.clear()
            tokens = self._known[key] = self._count(line + end)
        return tokens


class _Costs(dict[str, int]):
    """The cost of pieces in hundredths of a token; clears its cache when that becomes large."""

    _MOST = 50_000

    def __missing__(self, piece: str) -> int:
        if len(self) >= self._MOST:
            self.clear()
        cost = self[piece] = _cost(piece)
        return cost


_costs = _Costs()


def _cost(piece: str) -> int:
    word = piece.removeprefix(" ")
    spaced = len(piece) > len(word)
    if word[:1] > "\x7f":
        return _TOKEN * (spaced + sum(map(_character_tokens, word)))
    if not word[:1].isalpha():
        return _TOKEN
    if word.lower() in _WHOLE_WORDS and not word[1:].isupper():
        return _TOKEN
    before = spaced * _SPACE_BEFORE_A_WORD
    if len(word) == 1:
        return before + _TOKEN
    if len(word) == 2 and not spaced:
        # For example the parts of "BbFt": which pair is one token depends on the context.
        return 2 * _TOKEN
    frequent, rare = (
        (_FREQUENT_CAPITALS, _RARE_CAPITALS) if word.isupper() else (_FREQUENT_PAIR, _RARE_PAIR)
    )
    pairs = (first + second for first, second in pairwise(word.lower()))
    return (
        before
        + _FIRST_LETTER
        + sum(frequent if pair in _FREQUENT_PAIRS else rare for pair in pairs)
    )


def _character_tokens(character: str) -> int:
    code = ord(character)
    if code < 0x10000:
        return _table()[code]
    return 3 if 0x1F000 <= code < 0x1FB00 else 4


@cache
def _table() -> bytes:
    return zlib.decompress(CHARACTER_TOKENS.read_bytes())
