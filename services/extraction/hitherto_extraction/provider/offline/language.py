"""The tables of this folder, compiled: what rules mean, technologies, and a table per language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from hitherto_shared.text.normalise import fold, normalized
from hitherto_shared.text.terms import content_terms

_STANDS_FOR = re.compile(r"(?<!\?P)<(\w+)>")
_GAP = re.compile(r"\{(\w+)\}|[^{]+")
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class ClauseRule:
    """A pattern of clauses, the sentence it writes, and the pattern of such a sentence.

    `written` is None if such a sentence gives no property with one value.
    """

    meaning: Mapping[str, Any]
    says: str
    pattern: re.Pattern[str]
    written: re.Pattern[str] | None


class LanguageTable:
    """The contents of `english.toml` or `vietnamese.toml`, compiled. The first rule that fits wins.

    `subject` is that of a memory when the speaker has no name; `shared_words` is the number of
    words that a deed and its goal have in common.
    """

    def __init__(self, name: str) -> None:
        table = _read(name)
        self.code: str = table["code"]
        self.subject: str = table["subject"]
        self.shared_words: int = table["shared_words"]
        self.phrases: Mapping[str, str] = table["phrases"]
        self.known_by = frozenset(table["known_by"].split())
        stop_words = fold(f"{self.subject} {table['stop_words']}")
        self.stop_terms = frozenset(content_terms(stop_words))
        # Lower case only: a stop word with a capital is part of a name.
        word = rf"(?!(?-i:{table['words']['stops']})(?![\w'’-]))[^\s,;:()]+"
        called = ("place", "origin", "name", "job", "company")
        self._words = {part: rf"(?P<{part}>{word}(?: {word}){{0,6}})" for part in called}
        self._words |= {"x": "(?P<x>.+)$", "tech": "(?P<tech>.+)$", "rest": "(?P<rest>.*)$"}
        self._words |= table["words"]
        self.grammar = {key: self._compiled(text) for key, text in table["grammar"].items()}
        self._replace = {
            key: [(self._compiled(text), other) for text, other in rows]
            for key, rows in table["replace"].items()
        }
        self.rules = [
            ClauseRule(
                means := _MEANINGS[meaning], says, self._compiled(pattern), _written(means, says)
            )
            for meaning, says, *patterns in table["rules"]["table"]
            for pattern in patterns
        ]

    def changed(self, text: str, how: str) -> str:
        """Apply the replacements of one kind."""
        for pattern, other in self._replace[how]:
            text = pattern.sub(other, text)
        return text

    def _compiled(self, text: str) -> re.Pattern[str]:
        while _STANDS_FOR.search(text):
            text = _STANDS_FOR.sub(lambda match: self._words[match[1]], text)
        return re.compile(text.replace("\n", ""), re.IGNORECASE)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _written(meaning: Mapping[str, Any], says: str) -> re.Pattern[str] | None:
    if "slots" not in meaning and "preference" not in meaning["tags"]:
        return None
    # Bounded: what is read may have 8 KiB, and each group divides it anew.
    groups = {
        "s": r"(?P<s>\S{1,40}(?: \S{1,40})?)",
        "art": "(?P<art>an?|the)",
        "rest": "(?P<rest>(?: .{0,200})?)",
        "x": "(?P<x>.{1,200}?)",
    }
    pattern = ""
    for gap in _GAP.finditer(says.rstrip(".")):
        group = groups.get(gap[1], f"(?P<{gap[1]}>.{{1,40}}?)")
        pattern += group if gap[1] else re.escape(gap[0])
        groups[gap[1]] = f"(?P={gap[1]})"
    return re.compile(rf"{pattern}(?: \([\w ,-]{{1,60}}\))?\.?$", re.IGNORECASE)


_SHARED = _read("meanings")
_MEANINGS: Mapping[str, Mapping[str, Any]] = _SHARED["meanings"]
LANGUAGES = (LanguageTable("english"), LanguageTable("vietnamese"))
_TECHNOLOGIES = {
    name.lstrip("!").casefold(): (name.lstrip("!"), path, name[0] == "!")
    for path, names in _SHARED["technologies"].items()
    for name in names.split(",")
}
_TECHNOLOGY = re.compile(
    rf"(?<![\w.@/-])(?:{'|'.join(map(re.escape, _TECHNOLOGIES))})(?![\w#+])", re.IGNORECASE
)


def technologies(text: str) -> dict[str, str]:
    """The technologies named in a text, each with the profile's list it belongs to, if any."""
    found = ((m[0], *_TECHNOLOGIES[m[0].casefold()]) for m in _TECHNOLOGY.finditer(text))
    return {name: path for said, name, path, capital in found if not capital or said == name}


def detect(text: str) -> LanguageTable | None:
    """The language of a text, by its frequent words; None if it is not supported."""
    found = _LETTERS.findall(normalized("NFC", text).lower().replace("'", ""))
    known = {sum(word in each.known_by for word in found): each for each in LANGUAGES[::-1]}
    return known[max(known)] if max(known) >= max(1, len(found) / 12) else None
