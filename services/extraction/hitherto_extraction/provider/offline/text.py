"""From a message to sentences the user wrote about themselves, and the language they are in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from hitherto_extraction.provider.offline.language import Language
from hitherto_shared.text.normalise import normalized

_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]{1,200})`")
_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|\|).*$", re.MULTILINE)
_PASTED_TURN = re.compile(
    r"^[ \t]*\[?(?:assistant|system|user|human|ai|bot|chatgpt|developer|tool|trợ lý|hệ thống|"
    r"người dùng)\]?[ \t]*:.*$",
    re.MULTILINE | re.IGNORECASE,
)
_MARKUP = re.compile(r"<(\w{2,20})[^<>]{0,200}>[^<]{0,4000}</\1>")
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
    r"memory\b"
    r"|\b(?:unlimited|full|unrestricted|root|admin\w*) (?:access|privileges?|rights|permissions?)\b"
    r"|(?:bỏ qua|phớt lờ|quên|làm ngơ)\b.{0,40}(?:hướng dẫn|chỉ dẫn|chỉ thị|quy tắc|lệnh|chỉ lệnh)"
    r"|bạn (?:bây giờ |giờ )?là (?:quản trị|admin|một AI|hệ thống)"
    r"|(?:toàn quyền|quyền (?:quản trị|admin|root))|lưu (?:điều này |cái này )?vào bộ nhớ"
    r"|người dùng (?:này )?(?:là|có) (?:quản trị|admin|quyền|root)"
    r"|chế độ (?:nhà phát triển|developer|quản trị)",
    re.IGNORECASE,
)
_PRIVILEGE = re.compile(
    r"\b(?:an? admin|root|superuser|sysadmin rights)\b|(?:là|làm) (?:quản trị viên|admin)\b",
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
# Fewer words typed without accents may be a name, or another language's.
_UNACCENTED = 3
_VIETNAMESE_LETTERS = re.compile(r"[ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ]")


# Also bounds the time: a pattern may need the square of what it reads.
_READ = 16_000
_SENTENCE = 500
_SENTENCES = 200


def normalise(text: str) -> str:
    """NFC, with typographic apostrophes and blanks made plain."""
    text = normalized("NFC", text).replace("\u2019", "'").replace("\u00a0", " ")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_planted(text: str) -> bool:
    """Whether a text gives orders to the assistant or to its memory, or claims rights."""
    text = normalise(text)
    return bool(_PLANTED.search(text) or _PRIVILEGE.search(text))


def is_sarcastic(text: str) -> bool:
    """Whether a text bears one of the few marks of sarcasm that can be told without a model."""
    return bool(_SARCASM.search(text))


def _short_blank(match: re.Match[str]) -> str:
    return "\n" if "\n" in match.group() else " "


def own_words(text: str) -> str:
    """What is left of a message without code, quotations and pasted turns.

    Only the first 16,000 characters are read: what is longer was pasted, not said.
    """
    text = _FENCE.sub("\n", _BLANKS.sub(_short_blank, normalise(text))[:_READ])
    text = _MARKUP.sub("\n", text)
    text = _QUOTED_LINE.sub("", _PASTED_TURN.sub("", text))
    text = _INLINE_CODE.sub(r"\1", text)

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
    found = []
    for part in _BOUNDARY.split(text):
        plain = _DECORATION.sub(" ", part).replace("\u2024", ".").strip()
        if _LETTERS.search(plain):
            found.append(cut(plain, _SENTENCE))
    return found[:_SENTENCES]


def has_capitals(text: str) -> bool:
    """Whether a writer uses capitals beyond "I", sentence starts and shouting."""
    if text.isupper():
        return False
    inner = re.sub(r"(?:^|[.!?…]\s+|\n)[^\w\n]{0,20}\w", " ", text)
    return any(word[:1].isupper() for word in _LETTERS.findall(re.sub(r"\bI\b", " ", inner)))


def detect(text: str, languages: Sequence[Language]) -> Language | None:
    """The language a text is in, by its function words; None when it is none of ours."""
    plain = normalise(text).lower()
    found = _LETTERS.findall(plain.replace("'", ""))
    if not found:
        return None
    scores: dict[str, float] = {
        language.code: sum(word in language.function_words for word in found)
        for language in languages
    }
    if _VIETNAMESE_LETTERS.search(plain):
        scores["vi"] = scores.get("vi", 0) + 0.5
    for language in languages:
        bare = [word for word in found if word in language.unaccented]
        if len(set(bare)) >= _UNACCENTED:
            scores[language.code] += len(bare)
    best = max(languages, key=lambda language: scores[language.code])
    return best if scores[best.code] >= max(0.5, len(found) / 12) else None


def cut(text: str, length: int) -> str:
    """Shorten to at most `length` characters, at a word where there is one."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = text[: length - 1]
    if " " in head[length // 2 :]:
        head = head[: head.rindex(" ")]
    return head.rstrip(" ,;:.") + "…"


def fold(text: str) -> str:
    """A form for comparing: no case, accents, punctuation or blanks around it."""
    decomposed = normalized("NFD", text.casefold().replace("đ", "d"))
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    bare = re.sub(r"\b(?:the|a|an)\b", " ", bare)
    return " ".join(re.sub(r"[\W_]+", " ", bare).split())


@lru_cache(maxsize=8)
def fold_all(words: frozenset[str]) -> frozenset[str]:
    """Fold each of some words; a language's stop words are asked for again and again."""
    return frozenset(fold(word) for word in words)
