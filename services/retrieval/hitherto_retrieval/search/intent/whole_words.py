"""Finds whole words in a question, in scripts with and without spaces.

"docker" is no match for "doc", nor "프로파일" for "파일". Diacritics count, because they
distinguish words ("thư" is a letter, "thu" is autumn). Only a question without any, as users type
in a hurry, is also searched for long words without theirs ("tai lieu").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hitherto_shared.dates.find import MAX_CHARACTERS
from hitherto_shared.text.normalise import fold, nfc

# Thai, Lao, Burmese, Khmer, Kana, Han: a word may begin anywhere.
_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_KATAKANA = "\u30a1-\u30ff\u31f0-\u31ff"
_HANGUL = "\uac00-\ud7a3"
# A combining mark turns the letter before it into another letter.
_LETTERS = (rf"[^\W{_NO_SPACES}{_HANGUL}]", r"[\u0300-\u036f]")
_PARTICLES = "은 는 이 가 을 를 의 에 에서 에게 로 으로 과 와 랑 이랑 도 만 부터 까지".split()
_HANGUL_END = rf"(?=들?(?:{'|'.join(_PARTICLES)})?(?![{_HANGUL}]))"
_SCRIPTS = {
    "katakana": re.compile(f"[{_KATAKANA}]"),
    "no spaces": re.compile(f"[{_NO_SPACES}]"),
    "hangul": re.compile(f"[{_HANGUL}]"),
}
_BEGINS = {
    "katakana": re.compile(f"(?<![{_KATAKANA}])"),
    "no spaces": re.compile(""),
    "hangul": re.compile(f"(?<![{_HANGUL}])"),
    "letters": re.compile("".join(f"(?<!{letter})" for letter in _LETTERS)),
}
_ENDS = {
    "katakana": re.compile(f"(?![{_KATAKANA}])"),
    "no spaces": re.compile(""),
    "hangul": re.compile(_HANGUL_END),
    "letters": re.compile("".join(f"(?!{letter})" for letter in _LETTERS)),
}
_SHORTEST_PLAIN = 5
"""Minimum letters of a word that may be spelt without diacritics: "lich" and "thu" are too
short."""
_ASCII_RUN = re.compile(r"[!-~]+")
_ADDRESS = re.compile(r"\w@\w|://|\\|\w\.\w|\A[/~]\w")
_SIGN_OF_AN_ADDRESS = re.compile(r"[@/\\.~]")


def readable(text: str) -> str:
    """The beginning of a question in the form in which words are looked up.

    Lower case, normal form C, one space for any white space, without web addresses, mail addresses
    and file names. Only the first 1,000 characters are read, as for the time of a question.
    """
    lower = spelt(text[:MAX_CHARACTERS])
    if not _SIGN_OF_AN_ADDRESS.search(lower):
        return lower
    return _ASCII_RUN.sub(lambda run: " " if _ADDRESS.search(run[0]) else run[0], lower)


def spelt(text: str) -> str:
    """`text` in the form in which words are compared: lower case, normal form C, single spaces."""
    return " ".join(nfc(nfc(text).casefold()).split())


def is_plain(text: str) -> bool:
    """Whether a text returned by `spelt` has no diacritics."""
    return text.isascii() or fold(text) == text.strip()


def plain_form(word: str) -> str | None:
    """The word without diacritics, or None if it is too short to be unambiguous."""
    plain = fold(word)
    long_enough = len(plain.replace(" ", "")) >= _SHORTEST_PLAIN
    return plain if plain != word and long_enough else None


class WholeWords:
    """Finds whole words in a text.

    Args:
        words: In the form that `spelt` returns.
        plain: Words that count only in a text without diacritics.
    """

    def __init__(self, words: Iterable[str], plain: Iterable[str] = ()) -> None:
        self._words = {word: _borders(word) for word in words}
        self._plain = self._words | {word: _borders(word) for word in plain}
        self._ascii = {word: each for word, each in self._plain.items() if word.isascii()}

    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Each word with its start and end in a `readable` text, word by word."""
        words = self._ascii
        if not text.isascii():
            words = self._plain if is_plain(text) else self._words
        for word, (begins, ends) in words.items():
            at = text.find(word)
            while at >= 0:
                end = at + len(word)
                if begins.match(text, at) and ends.match(text, end):
                    yield word, at, end
                    at = text.find(word, end)
                else:
                    at = text.find(word, at + 1)


def covered(first: int, last: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether `first:last` lies within one of the spans."""
    return any(start <= first and last <= end for start, end in spans)


def _borders(word: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What must hold before a word and after it; each matches nothing but the place."""
    return _BEGINS[_script(word[0])], _ENDS[_script(word[-1])]


def _script(letter: str) -> str:
    return next((name for name, each in _SCRIPTS.items() if each.match(letter)), "letters")
