"""From a message to sentences the user wrote about themselves, and the language they are in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from hitherto_extraction.provider.offline.language import LanguageTable
from hitherto_shared.text.normalise import normalized

# Code, markup, quoted lines and pasted turns are not the user's words.
_NOT_OWN = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<(\w{2,20})[^<>]{0,200}>[^<]{0,4000}</\1>", re.DOTALL
)
_NOT_OWN_LINE = re.compile(
    r"^[ \t]*(?:[>|].*|\[?(?:assistant|system|user|human|ai|bot|chatgpt|developer|tool|trợ lý|"
    r"hệ thống|người dùng)\]?[ \t]*:.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_INLINE_CODE = re.compile(r"`([^`\n]{1,200})`")
# Bounded: of signs that open and never close, each would be read to the end of the line.
_SPEECH = re.compile(
    r"\"([^\"\n]*)\"|“([^“”\n]*)”|«([^«»\n]*)»|「([^「」\n]*)」|„([^„“”\n]*)[“”]"
    r"|(?<!\w)['‘]([^'‘’\n]{2,300}(?:['’]\w[^'‘’\n]{0,100}){0,8})['’](?!\w)"
)
_FIRST_PERSON = re.compile(
    r"\b(?:I|I['’]?m|my|me|we|our|tôi|mình|tớ|tui|em|chúng tôi)\b", re.IGNORECASE
)
_PLANTED = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}"
    r"\b(?:instructions?|prompts?|rules|guidelines|context|everything above)\b"
    r"|\byou are (?:now|no longer)\b|\b(?:developer|god|dan|jailbreak|admin(?:istrator)?) mode\b"
    r"|\bsystem (?:prompt|message|override)\b|\bnew instructions?\b"
    r"|\b(?:the|this) user (?:is|has|must|should|wants|prefers)\b.{0,60}"
    r"\b(?:admin\w*|root|access|permissions?|trusted|authori[sz]ed|verified)\b"
    r"|\b(?:save|store|write|add|record)\b.{0,30}\b(?:to|in|into) (?:your |the )?(?:long[- ]term )?"
    r"memory\b|\b(?:an? admin|root|superuser|sysadmin rights)\b"
    r"|\b(?:unlimited|full|unrestricted|root|admin\w*) (?:access|privileges?|rights|permissions?)\b"
    r"|(?:bỏ qua|phớt lờ|quên|làm ngơ)\b.{0,40}(?:hướng dẫn|chỉ dẫn|chỉ thị|quy tắc|lệnh|chỉ lệnh)"
    r"|bạn (?:bây giờ |giờ )?là (?:quản trị|admin|một AI|hệ thống)"
    r"|toàn quyền|quyền (?:quản trị|admin|root)|lưu (?:điều này |cái này )?vào bộ nhớ"
    r"|(?:người dùng (?:này )?(?:là|có)|\blà|\blàm) (?:quản trị|admin|quyền|root)"
    r"|chế độ (?:nhà phát triển|developer|quản trị)",
    re.IGNORECASE,
)
_SARCASM = re.compile(r"(?:^|\s)/s(?:\s|$)|🙄|🙃|\byeah,? right\b|\boh,? sure\b", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Prof|e\.g|i\.e|etc|vs|TP|ThS|TS)\.", re.IGNORECASE)
_BOUNDARY = re.compile(r"(?<=[.!?…。！？])[\"”’)\]]*\s+|\n+|(?<=[。！？])")
_DECORATION = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d\u2190-\u21ff]|(?<=\\s)[:;]-?[)(DPp](?=\\s|$)"
)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])\s+", re.MULTILINE)
_BLANKS = re.compile(r"\s{2,}")
_LETTERS = re.compile(r"[^\W\d_]+")
_SENTENCE_START = re.compile(r"(?:^|[.!?…]\s+|\n)[^\w\n]{0,20}\w|\bI\b")
_VIETNAMESE_LETTERS = re.compile(r"[ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ]")
_ARTICLE = re.compile(r"\b(?:the|a|an)\b|[\W_]+")

# Also bounds the time: a pattern may need the square of what it reads.
_READ = 16_000
_SENTENCE = 500
_SENTENCES = 200
_UNACCENTED = 3
"""Different words without accents that show Vietnamese; fewer may be a name."""


def _normalised(text: str) -> str:
    """NFC, with typographic apostrophes and blanks made plain."""
    text = normalized("NFC", text).replace("\u2019", "'").replace("\u00a0", " ")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_planted(text: str) -> bool:
    """Whether a text gives orders to the assistant or to its memory, or claims rights."""
    return _PLANTED.search(_normalised(text)) is not None


def is_sarcastic(text: str) -> bool:
    """Whether a text has one of the few marks of sarcasm that are recognisable without a model."""
    return _SARCASM.search(text) is not None


def own_words(text: str) -> str:
    """The rest of a message without code, quotations and pasted turns.

    Only the first 16,000 characters are read: a longer text was pasted, not said.
    """
    text = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", _normalised(text))[:_READ]
    text = _INLINE_CODE.sub(r"\1", _NOT_OWN_LINE.sub("", _NOT_OWN.sub("\n", text)))

    def speech(match: re.Match[str]) -> str:
        inner = next(group for group in match.groups() if group is not None)
        # A short quotation is a title or a name; a longer one, or one that says "I", is speech.
        short = len(inner.split()) <= 4 and not _FIRST_PERSON.search(inner)
        return inner if short else " "

    return _SPEECH.sub(speech, text)


def sentences(text: str) -> list[str]:
    """Split own words into at most 200 sentences; closing marks stay on, decoration goes."""
    # A one-dot leader stands in for the full stop of an abbreviation while splitting.
    text = _ABBREVIATION.sub(lambda match: match.group(1) + "\u2024", _LIST_MARK.sub("", text))
    parts = (_DECORATION.sub(" ", part).replace("\u2024", ".") for part in _BOUNDARY.split(text))
    return [cut(part, _SENTENCE) for part in parts if _LETTERS.search(part)][:_SENTENCES]


def has_capitals(text: str) -> bool:
    """Whether a writer uses capitals beyond "I", sentence starts and shouting."""
    inner = _LETTERS.findall(_SENTENCE_START.sub(" ", text))
    return not text.isupper() and any(word[0].isupper() for word in inner)


def detect(text: str, languages: Sequence[LanguageTable]) -> LanguageTable | None:
    """The language of a text, by its frequent words; None if it is not supported."""
    plain = _normalised(text).lower()
    found = _LETTERS.findall(plain.replace("'", ""))
    scores = []
    for language in languages:
        score: float = sum(word in language.known_by for word in found)
        bare = [word for word in found if word in language.unaccented]
        if len(set(bare)) >= _UNACCENTED:
            score += len(bare)
        if language.unaccented and _VIETNAMESE_LETTERS.search(plain):
            score += 0.5
        scores.append(score)
    best = max(range(len(languages)), key=lambda index: scores[index])
    return languages[best] if scores[best] >= max(0.5, len(found) / 12) else None


def cut(text: str, length: int) -> str:
    """Shorten to at most `length` characters, at a word boundary if there is one."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = text[: length - 1]
    if " " in head[length // 2 :]:
        head = head[: head.rindex(" ")]
    return head.rstrip(" ,;:.") + "…"


def fold(text: str) -> str:
    """A form for comparing: no case, accents, articles or punctuation."""
    decomposed = normalized("NFD", text.casefold().replace("đ", "d"))
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(_ARTICLE.sub(" ", bare).split())
