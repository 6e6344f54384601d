"""Does a text have the words it must have, and in which of the data set's languages is it?

Case, accents and endings of words do not matter.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from hitherto_shared.text.normalise import fold, nfc

Terms = tuple[str | tuple[str, ...], ...]
"""Every entry must be found; of an entry that is a list, one word is enough."""

_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Scripts written without spaces, where a word has no border to look for."""
_LETTER = re.compile(rf"[^\W\d_{_UNSPACED}]")
_NO_LETTER_BEFORE = rf"(?<![^\W_{_UNSPACED}])"
_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[^\W\d_]+")
_VIETNAMESE_LETTER = re.compile(r"[ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ]")
_ENGLISH = frozenset(
    "the a an is are was were has have had does did user user's users wants likes prefers lives "
    "works who that which with from for in on at by to of and or not no their they his her he she "
    "this because after before will would moved uses plans asked said about as it".split()
)
_VIETNAMESE = frozenset(
    "người dùng là có không của và ở với cho được đang đã sẽ muốn thích làm việc sống từ khi để "
    "trước sau một các những này bị cần đến trong ngoài vì mà thì rồi hay nên phải mình tôi bạn "
    "năm tháng ngày nguoi dung khong duoc lam viec song".split()
)
_SCRIPT_SHARE = 0.2


def contains_all(text: str, terms: Terms) -> bool:
    """Whether `text` has every term."""
    folded = plain(text)
    return all(_has_any(folded, term) for term in terms)


def missing(text: str, terms: Terms) -> list[str | tuple[str, ...]]:
    """The terms that `text` lacks."""
    folded = plain(text)
    return [term for term in terms if not _has_any(folded, term)]


def is_hard(term: str | tuple[str, ...]) -> bool:
    """Whether no other word can stand for the term: it is a name or a number.

    A list of alternatives is hard if every one of them is. Katakana counts as a name, because
    Japanese has no capitals.
    """
    words = (term,) if isinstance(term, str) else term
    return all(re.search(r"\d|[\u30a1-\u30fa]{2}", w) or w != w.lower() for w in words)


def plain(text: str) -> str:
    """A text as it is compared: folded, one kind of apostrophe and of width."""
    return fold(nfc(text).replace("’", "'"))


def _has_any(folded: str, term: str | tuple[str, ...]) -> bool:
    words = (term,) if isinstance(term, str) else term
    return any(_finder(word).search(folded) for word in words)


@lru_cache(maxsize=4_096)
def _finder(term: str) -> re.Pattern[str]:
    """Find a word at its beginning ("prefer" is in "prefers"), a number only as a whole."""
    word = plain(term)
    before = _NO_LETTER_BEFORE if _LETTER.match(word) else ""
    if word[:1].isdigit():
        before = r"(?<!\d)(?<!\d[.,])"
    after = r"(?!\d)(?![.,]\d)" if word[-1:].isdigit() else ""
    return re.compile(before + re.escape(word) + after)


def language_of(text: str) -> str | None:
    """`en`, `vi`, `ja`, or None where too little tells.

    Japanese is told by its script; English and Vietnamese by their small words, and Vietnamese by
    its letters where the words say nothing. A name or a technical term of another language inside
    a sentence does not change its language.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    letters = sum(character.isalpha() for character in folded)
    if letters and len(_JAPANESE.findall(folded)) >= _SCRIPT_SHARE * letters:
        return "ja"
    words = [word for run in folded.split() for word in _WORD.findall(run)]
    english = sum(word in _ENGLISH for word in words)
    vietnamese = sum(word in _VIETNAMESE for word in words)
    if english != vietnamese:
        return "en" if english > vietnamese else "vi"
    return "vi" if _VIETNAMESE_LETTER.search(folded) else None
