"""Embeddings without a model: words and parts of words, hashed into a vector.

Similar texts share words, word stems or spelling; synonyms are unrelated. That is enough to see the
whole system work without a key, in any script.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from hitherto_shared.embeddings.protocol import EmbeddingBatch, Vector
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.normalise import normalized
from hitherto_shared.text.word_forms import stem

NAME = "offline-hash-1"
DIMENSIONS = 512
# Tested on some 154,000 pairs of different statements about the same people: one reached 0.9, and
# pairs that differ only in a name stay near 0.8. Rewordings by an ending or an article are above.
DEDUPE_THRESHOLD = 0.9

# The weight of each kind of feature relative to a word's stem at 1. Retrieval hardly depends on
# them (recall changed by one point over a grid); these favour words typed without their diacritics.
_FOLDED = 0.6  # the word without its diacritics: "ca phe" still finds "cà phê"
_PIECES = 1.0  # all character n-grams of a word together: inflection and typing errors
_SINGLE_CHARACTER = 0.5  # one CJK character beside the pairs
_STOP_WORD = 0.15
_SYMBOL = 0.7  # emoji and other signs

_PIECE_LENGTHS = (3, 4)
_LONGEST_WORD = 64
_REMEMBERED_WORDS = 20_000

_STOP_WORDS_EN = (
    "a about also am an and any are as at be been but by can could did do does for from had has "
    "have he her him his i if in into is it its just me my of on or our out she so some that the "
    "their them then there they this to up us user users was we were what when where which who "
    "will with would you your s t re ve ll d m"
)
_STOP_WORDS_VI = (
    "bị bởi các cái cho có con của cùng cũng đã đang để đến đó được gì hay hoặc khi là lại mà một "
    "mình nào này nên nếu người những như nhưng ở ra rất rồi sẽ tại theo thì tôi trên trong từ và "
    "vào về với"
)
_STOP_WORDS = frozenset(_STOP_WORDS_EN.split()) | frozenset(_STOP_WORDS_VI.split())

# Scripts written without spaces: Thai to Khmer are left to the n-grams of whole runs.
_CJK = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK += "\uff66-\uff9f\U00020000-\U0003ffff"


def _marks() -> str:
    """Every combining mark of the basic plane: part of a word, though not for `re`."""
    return "".join(chr(code) for code in range(0x300, 0xFE30) if unicodedata.combining(chr(code)))


_TOKEN = re.compile(
    rf"(?P<cjk>[{_CJK}]+)|(?P<word>(?:(?![{_CJK}])[^\W_]|[{_marks()}])+)"
    r"|(?P<symbol>[\u2190-\u2bff\U0001f000-\U0001faff])"
)

_WORK_OF_A_CHARACTER = 8
"""The cost of hashing a text, relative to reading it."""


class OfflineEmbedder:
    """Signed feature hashing: the same text always yields the same vector on every machine.

    A text without a single token (empty, or punctuation only) gets one fixed vector.
    """

    name = NAME
    dimensions = DIMENSIONS
    dedupe_threshold = DEDUPE_THRESHOLD
    offline = True

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed all texts at once; `timeout` has no effect, and no error is possible."""
        work = sum(map(len, texts)) * _WORK_OF_A_CHARACTER
        vectors = await in_thread_if_long(work, lambda: [_vector(text) for text in texts])
        return EmbeddingBatch(vectors, calls=1 if vectors else 0, tokens=0)

    async def close(self) -> None:
        """Nothing to release."""


def _vector(text: str) -> Vector:
    """Hash one text into a vector of length 1."""
    words = Counter(_words(text))
    if not words:
        return _fixed()
    # The second "dog" counts less than the first.
    features = [(_features(*word), 1.0 + log(count)) for word, count in words.items()]
    places = np.concatenate([places for (places, _), _ in features])
    values = np.concatenate([values * weight for (_, values), weight in features])
    sums = np.bincount(places, weights=values, minlength=DIMENSIONS)
    norm = float(np.linalg.norm(sums))
    if norm == 0.0:
        return _fixed()
    return (sums / norm).astype(np.float32)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The kind and the normal form of every token, in order."""
    normal = normalized("NFC", normalized("NFC", text).casefold())
    for match in _TOKEN.finditer(normal):
        token = match.group()
        if match.lastgroup != "cjk":
            yield match.lastgroup or "", token[:_LONGEST_WORD]
            continue
        for character in token:
            yield "character", character
        for first in range(len(token) - 1):
            yield "pair", token[first : first + 2]


@lru_cache(maxsize=_REMEMBERED_WORDS)
def _features(kind: str, word: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Positions in the vector and signed weights of one token."""
    weighted = list(_weighted(kind, word))
    places = np.empty(len(weighted), dtype=np.intp)
    values = np.empty(len(weighted))
    for number, (feature, weight) in enumerate(weighted):
        digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
        places[number] = digest % DIMENSIONS
        values[number] = weight if digest >> 63 else -weight
    return places, values


def _weighted(kind: str, word: str) -> Iterator[tuple[str, float]]:
    """The features of one token and their weights."""
    if kind == "pair":
        yield f"p:{word}", 1.0
    elif kind == "character":
        yield f"c:{word}", _SINGLE_CHARACTER
    elif kind == "symbol":
        yield f"s:{word}", _SYMBOL
    elif word in _STOP_WORDS:
        yield f"w:{word}", _STOP_WORD
    else:
        yield f"w:{stem(word) if word.isascii() else word}", 1.0
        yield from _loose(word)


def _loose(word: str) -> Iterator[tuple[str, float]]:
    """What a word shares with its other spellings; numbers have none."""
    if word.isdecimal():
        return
    folded = _fold(word)
    yield f"f:{folded}", _FOLDED
    framed = f"<{folded}>"
    pieces = [
        framed[start : start + length]
        for length in _PIECE_LENGTHS
        for start in range(len(framed) - length + 1)
    ]
    for piece in pieces:
        yield f"n:{piece}", _PIECES / sqrt(len(pieces))


def _fold(word: str) -> str:
    """The word without diacritics; Unicode does not decompose `đ`."""
    plain = "".join(c for c in normalized("NFD", word) if not unicodedata.combining(c))
    return plain.replace("đ", "d").replace("ı", "i").replace("ł", "l").replace("ø", "o")


@lru_cache(maxsize=1)
def _fixed() -> Vector:
    """The vector of a text without tokens; read-only, because all such texts share it."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[0] = 1.0
    vector.flags.writeable = False
    return vector
