r"""Turns stored text into harmless data: one line without invisible or structural characters.

Text stays readable and keeps its meaning; what could be taken for a heading, fence, tag, role or
markdown link is broken by an escape (`\#`, `\[INST\]`), a look-alike (`‹system›`, `—`) or a space
(`] (`). Plain text, the most frequent case, is returned unchanged after one scan.
"""

from __future__ import annotations

import re
import unicodedata
from string import ascii_lowercase

from hitherto_shared.models import MEMORY_TYPES, Memory
from hitherto_shared.text.graphemes import is_border
from hitherto_shared.text.normalise import INVISIBLE, SELECTORS, nfc

_EMOJI = "\xa9\xae\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff"
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2"
# Arabic, Syriac, Indic, Burmese and Khmer letters, whose words may contain a non-joiner.
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ufb50-\ufdff\ufe70-\ufefc"

_ROLES = "system|assistant|user|human|developer|tool|function|model|bot|ai|instructions?"
_WIDE_ROLES = _ROLES.translate({ord(letter): ord(letter) + 0xFEE0 for letter in ascii_lowercase})
_ROLE = re.compile(
    rf"([\W_]{{0,8}})({_ROLES}|{_WIDE_ROLES})(\W{{0,3}}?\s?[:：∶꞉︓﹕])", re.IGNORECASE
)
# Characters that require a closer look wherever they occur.
_SUSPECT_ASCII = re.compile(r"[\x00-\x1f\x7f<\[#`~]")
_SUSPECT = re.compile(rf"[{INVISIBLE}{SELECTORS}\u200c\u200d<＜\[［#＃`~]|[^\S ]")
_SUSPECT_START = frozenset(("===", "***", "___"))
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_JOINER = re.compile(
    rf"((?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])|(?<=[{_VIRAMA}])\u200d"
    rf"|(?<=[{_JOINING}])\u200c(?=[{_JOINING}]))|[\u200c\u200d]"
)
_SELECTOR_RUN = re.compile(f"([{SELECTORS}])[{SELECTORS}]+")
# Of ASCII, only digits, # and * have other forms.
_STRAY_SELECTOR = re.compile(rf"(?<=[\x00-\"$-)+-/:-\x7f])[{SELECTORS}]")

_LEADING_BRACKET = re.compile(r"[\[［]([^\[\]［］]{0,120})([\]］]?)")
_LEADING_SIGN = re.compile(r"([^\w#＃]{0,8})([#＃])(?!#)")
_LEADING_RULE = re.compile(r"[=*_]{3,}")
_LEADING_MARKER = re.compile(r"[-+*>•]|\d{1,9}[.)]")

_TAG = re.compile(r"[<＜](?=\s*[/|!?<＜]|[^\W\d])")
_CLOSING_RUN = re.compile(r">{3,}")
_DASHES = re.compile(r"-{3,}")
_CODE_FENCE = re.compile(r"`{3,}|~{3,}")
_HEADING = re.compile(r"#{2,}")
_OUR_WORDS = "|".join(MEMORY_TYPES)
# No gap here is longer than one space: the input is one line without double spaces.
_BRACKET_TAG = re.compile(
    rf"[\[［]( ?/? ?(?:inst|sys|{_ROLES}|(?:end )?about the user|profile"
    rf"|(?:{_OUR_WORDS})(?:, \w+)?) ?)[\]］]",
    re.IGNORECASE,
)

_NOT_THE_USER = {
    "assistant": "said by the assistant",
    "tool": "from a tool",
    "document": "from a document",
    "operator": "from the operator",
}

_SOURCE_GAP = re.compile(r"[\W_]+")
_RESERVED_SOURCES = frozenset(
    "inst sys system assistant user human developer tool function model bot ai instruction "
    "instructions profile".split()
) | frozenset(MEMORY_TYPES)
_MAX_SOURCE = 40

ELLIPSIS = "…"
_ELLIPSIS_BYTES = len(ELLIPSIS.encode())
_MAX_STEPS_BACK = 24


def clean(text: str, *, line_start: bool = False) -> str:
    """`text` as one harmless line in NFC.

    Args:
        text: Any stored text.
        line_start: True where the value begins a line; a list or quote marker is then escaped too.

    Returns:
        The line, without white space at its ends; empty if nothing visible is left.
    """
    if not _is_plain(text):
        text = _neutral(text)
    if line_start and _LEADING_MARKER.match(text):
        text = "\\" + text
    return text


def source_word(source: str) -> str:
    """`source` as the one upper-case word in brackets, such as `GMAIL`.

    It is never a role, a memory type or a heading; an empty source becomes `ITEM`.
    """
    word = _SOURCE_GAP.sub("_", clean(source)).strip("_")[:_MAX_SOURCE]
    if not word:
        return "ITEM"
    return f"SOURCE_{word.upper()}" if word.casefold() in _RESERVED_SOURCES else word.upper()


def labelled(label: str, value: str) -> str:
    """`label: value` for a stored label; `value` is already clean.

    A label such as `system` does not turn the line into a role. Without a visible label, the value
    is alone, and so is the label without a value.
    """
    shown = clean(label)
    return f"{clean(f'{shown}:')} {value}" if shown and value else shown or value


def said_once(title: str, text: str) -> str:
    """`title: text`, or the one that has the other's words, from the beginning of a word on."""
    if f" {clean(title).removesuffix(ELLIPSIS)}" in f" {text}":
        return text
    # The first sentence of a conversation may be its title.
    return title if title.startswith(text) else labelled(title.removesuffix("."), text)


def byte_length(text: str) -> int:
    """The length of `text` in UTF-8, in bytes."""
    return len(text) if text.isascii() else len(text.encode())


def shortened(text: str, max_bytes: int) -> str:
    """`text` cut to `max_bytes` of UTF-8 with an ellipsis, at a word boundary if one is near.

    Combining marks stay with their letter. Empty if not even the ellipsis fits.
    """
    if byte_length(text) <= max_bytes:
        return text
    room = max_bytes - _ELLIPSIS_BYTES
    if room < 0:
        return ""
    head = text[: whole_letters(text, len(text.encode()[:room].decode("utf-8", "ignore")))]
    word_end = head.rfind(" ", max(0, len(head) - _MAX_STEPS_BACK))
    return (head[:word_end] if word_end > 0 else head).rstrip() + ELLIPSIS


def beginning(text: str, max_characters: int) -> str:
    """The first `max_characters` of `text`, with an ellipsis if it is longer."""
    if len(text) <= max_characters:
        return text
    return text[: whole_letters(text, max_characters)] + ELLIPSIS


def _is_plain(text: str) -> bool:
    if text.isascii():
        suspect = _SUSPECT_ASCII.search(text)
    elif unicodedata.is_normalized("NFC", text):
        suspect = _SUSPECT.search(text)
    else:
        return False
    # Written out because this runs for every value of every block.
    return not (
        suspect is not None
        or "  " in text
        or "---" in text
        or ">>>" in text
        or "](" in text
        or text[:1] == " "
        or text[-1:] == " "
        or text[:3] in _SUSPECT_START
        or _ROLE.match(text) is not None
    )


def whole_letters(text: str, end: int, since: int = 0) -> int:
    """`end`, or a place shortly before it between two letters with all their marks.

    `since` is an earlier such place.
    """
    near = range(end, end - _MAX_STEPS_BACK, -1)
    return next((at for at in near if is_border(text, at, since)), end)


def _neutral(text: str) -> str:
    text = _INVISIBLE.sub("", text)
    text = _JOINER.sub(lambda match: match[1] or "", text)
    text = nfc(_STRAY_SELECTOR.sub("", _SELECTOR_RUN.sub(r"\1", text)))
    # After joining, a model still recognises what began a line in the original.
    text = " ".join(line for part in text.splitlines() if (line := _neutral_start(part)))
    text = _TAG.sub("‹", text)
    text = _CLOSING_RUN.sub(lambda match: "›" * len(match[0]), text)
    text = _DASHES.sub("—", text)
    text = _CODE_FENCE.sub("'''", text)
    text = _HEADING.sub(lambda match: "\\#" * len(match[0]), text)
    text = _BRACKET_TAG.sub(r"\\[\1\\]", text)
    return text.replace("![", "! [").replace("](", "] (")


def _neutral_start(line: str) -> str:
    line = " ".join(line.split())
    if bracket := _LEADING_BRACKET.match(line):
        closing = "\\]" if bracket[2] else ""
        line = f"\\[{bracket[1]}{closing}{line[bracket.end() :]}"
    if sign := _LEADING_SIGN.match(line):
        line = f"{sign[1]}\\{line[sign.end(1) :]}"
    if _LEADING_RULE.match(line):
        line = "\\" + line
    if role := _ROLE.match(line):
        line = f"{role[1]}“{role[2]}”{line[role.end(2) :]}"
    return line


def speaker_of(memory: Memory) -> str:
    """Whose word a memory is; empty if it is the user's."""
    if memory.origin == "assistant" and memory.source == "inference":
        # So are those that another product had concluded, whoever said what they rest on.
        return "concluded by an assistant"
    return _NOT_THE_USER.get(memory.origin, "")
