"""From a message to sentences that the user wrote."""

from __future__ import annotations

import re

from hitherto_shared.text.normalise import normalized

# Code, quoted lines, pasted turns and speech are not the user's words.
_NOT_OWN = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NOT_OWN_LINE = re.compile(
    r"^[ \t]*(?:[>|].*|(?:assistant|system|user|human|ai|tool|trợ lý|hệ thống)[ \t]*:.*)$",
    re.MULTILINE | re.IGNORECASE,
)
# Bounded: of signs that open and never close, each would be read to the end of the line.
_SPEECH = re.compile(
    r"\"([^\"\n]*)\"|“([^“”\n]*)”"
    r"|(?<!\w)['‘]([^'‘’\n]{2,300}(?:['’]\w[^'‘’\n]{0,100}){0,8})['’](?!\w)"
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|we|our|tôi|mình|tớ|em)\b", re.IGNORECASE)
_BOUNDARY = re.compile(r"(?<=[.!?…。！？])[\"”’)\]]*\s+|\n+|(?<=[。！？])")
_DECORATION = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d\u2190-\u2bff]")
_BLANKS = re.compile(r"\s{2,}")
_LETTER = re.compile(r"[^\W\d_]")
# Also bounds the time: a pattern may need the square of what it reads.
_READ, _SENTENCE, _SENTENCES = 16_000, 500, 200


def sentences(text: str) -> list[str]:
    """The user's own sentences in a message, whose first 16,000 characters are read."""
    text = normalized("NFC", text).replace("\u2019", "'").replace("\r", "\n")
    text = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", text)[:_READ]
    text = _NOT_OWN_LINE.sub("", _NOT_OWN.sub("\n", text)).replace("`", "")

    def speech(match: re.Match[str]) -> str:
        inner = match[match.lastindex or 0]
        # A short quotation is a title or a name; a longer one, or one that says "I", is speech.
        return inner if len(inner.split()) <= 4 and not _FIRST_PERSON.search(inner) else " "

    parts = (_DECORATION.sub(" ", part) for part in _BOUNDARY.split(_SPEECH.sub(speech, text)))
    return [cut(part, _SENTENCE) for part in parts if _LETTER.search(part)][:_SENTENCES]


def cut(text: str, length: int) -> str:
    """Shorten to at most `length` characters, at a word boundary if there is one."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = text[: length - 1]
    return (head[: head.rindex(" ")] if " " in head[length // 2 :] else head).rstrip(" ,;:.") + "…"
