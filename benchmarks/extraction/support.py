"""Does the conversation carry what a memory says? If not, it was made up.

Three tests, each on the words alone: every number of the memory stands in the conversation (dates
near it are taken for resolved relative dates), whatever it quotes does, and at least half of its
content words do. A nearness by an embedder can stand in for the third, never for the others: a
false number is near the right one.

What the rules cannot see: a statement made of the conversation's own words that says something
else ("hates" for "loves"); that is what `forbidden` is for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime

from benchmarks.extraction.matching import Nearness
from benchmarks.extraction.rows import ConversationCase
from hitherto_extraction.pipeline.quotes import stands_in
from hitherto_shared.text.terms import query_terms

WORDS_NEEDED = 0.5
"""Share of a memory's content words that must stand in the conversation."""

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATES = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?"
    r"|(?:\d{4}年)?(?:度|の)?\d{1,2}月(?:\d{1,2}日|第\d週)?|\d{4}年"
    r"|\d{1,2}/\d{1,2}(?:/\d{4})?"
    r"|(?:ngày \d{1,2} )?tháng \d{1,2}(?: năm \d{4})?|năm \d{4}"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?:,? \d{{4}})?"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
    rf"|\b{_MONTH} \d{{4}}|\b(?:in|since) \d{{4}}(?![-\d])"
)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_COUNTS = (
    "zero one two three four five six seven eight nine ten eleven twelve",
    "không một hai ba bốn năm sáu bảy tám chín mười",
    "〇 一 二 三 四 五 六 七 八 九 十",
)
_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_QUOTED = re.compile(r"[“\"«「『]([^“”\"«»「」『』]{2,200})[”\"»」』]")
_LETTERS = re.compile(r"[^\W_]")
_KATAKANA = re.compile(r"[\u30a1-\u30fa][\u30a1-\u30fc]+")
# How memories are told, in any conversation: these words need no support.
_FRAME = re.compile(
    r"\b(?:the )?users?(?:'s)?\b|\b(?:wants?|likes?|prefers?|said|asked|lives?|works?|plans?|has|"
    r"wanted|know|found|goal|named|called|currently|dislikes?|finds?)\b"
    r"|người dùng|muốn|thích|hiện|đang|hỏi|biết|thấy"
    r"|ユーザー(?:は|の|が)?|である|している|したい|さん"
)


def unsupported(text: str, row: ConversationCase, nearness: Nearness | None = None) -> list[str]:
    """What of `text` the row's conversation and known memories do not carry; empty if all is.

    Returns:
        Short findings such as `number 12`, `quote no`, `words 1 of 6`.
    """
    said = _said(row)
    spoken = " \n ".join(said)
    found = [
        *_numbers(text, spoken, [message.created_at for message in row.transcript]),
        *(f"quote {q}" for q in _QUOTED.findall(text) if not any(stands_in(q, s) for s in said)),
    ]
    if found:
        return found
    return _words(text, said, nearness or Nearness())


def _said(row: ConversationCase) -> list[str]:
    return [
        *(f"{message.name} {message.content}".strip() for message in row.transcript),
        *(known.content for known in row.existing_memories),
    ]


def _numbers(text: str, spoken: str, times: Sequence[datetime]) -> list[str]:
    normal = unicodedata.normalize("NFKC", text).casefold()
    source = unicodedata.normalize("NFKC", spoken).casefold()
    known = set(map(_numeral, _NUMBER.findall(source))) | _counted(source)
    years = {str(moment.year + offset) for moment in times for offset in (-1, 0, 1)}
    strange = [
        year
        for date in _DATES.findall(normal)
        for year in _YEAR.findall(date)
        if year not in years and year not in known
    ]
    rest = _DATES.sub(" ", normal)
    strange += [
        number
        for number in _NUMBER.findall(rest)
        if _numeral(number) not in known and number not in years
    ]
    return [f"number {number}" for number in strange]


def _numeral(digits: str) -> str:
    """One spelling: 40,000 and 40000, 7.0 and 7."""
    if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", digits):
        return re.sub("[.,]", "", digits)
    return re.sub(r"[.,]0+$", "", digits)


def _counted(source: str) -> set[str]:
    """The digits of the number words in a text."""
    found = set()
    for table in _COUNTS:
        for value, word in enumerate(table.split()):
            bounded = word if word[0] >= "\u3000" else rf"\b{word}\b"
            if re.search(bounded, source):
                found.add(str(value))
    return found


def _words(text: str, said: Sequence[str], nearness: Nearness) -> list[str]:
    normal = unicodedata.normalize("NFKC", text).casefold()
    bare = _FRAME.sub(" ", _DATES.sub(" ", normal))
    wanted = _content(bare)
    if not wanted:
        return []
    source: set[str] = set()
    for part in said:
        source.update(_content(unicodedata.normalize("NFKC", part)))
    shared = len(wanted & source)
    if shared >= WORDS_NEEDED * len(wanted):
        return []
    if any(nearness.paraphrase(text, part) for part in said):
        return []
    return [f"words {shared} of {len(wanted)}"]


def _content(text: str) -> set[str]:
    """The stems of the words.

    Of Japanese it is each Han character and each Katakana word, as Hiragana is mostly grammar.
    """
    rest = _JAPANESE.sub(" ", text)
    found = set(query_terms(rest)) if _LETTERS.search(rest) else set()
    return found | set(_HAN.findall(text)) | set(_KATAKANA.findall(text))
