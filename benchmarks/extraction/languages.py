"""In which of the data set's languages a statement is written."""

from __future__ import annotations

import re
import unicodedata

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


def language_of(text: str) -> str | None:
    """`en`, `vi`, `ja`, or None where too little tells.

    Japanese is told by its script; English and Vietnamese by their small words, and Vietnamese by
    its letters where the words say nothing. A name or a technical term of another language inside
    a sentence does not change its language.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    letters = sum(character.isalpha() for character in plain)
    if letters and len(_JAPANESE.findall(plain)) >= _SCRIPT_SHARE * letters:
        return "ja"
    words = [word for run in plain.split() for word in _WORD.findall(run)]
    english = sum(word in _ENGLISH for word in words)
    vietnamese = sum(word in _VIETNAMESE for word in words)
    if english != vietnamese:
        return "en" if english > vietnamese else "vi"
    return "vi" if _VIETNAMESE_LETTER.search(plain) else None
