"""A language: its table of rules with the grammar around them, read from a file of this folder."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from hitherto_extraction.provider.offline.meanings import MEANINGS, Meaning
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import content_terms

_STANDS_FOR = re.compile(r"(?<!\?P)<(\w+)>")
_LONGEST_NAME = 7
"""Words."""


@dataclass(frozen=True, slots=True)
class ClauseRule:
    """One pattern, its meaning, and the sentence it writes (`says`)."""

    meaning: Meaning
    says: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class LanguageTable:
    """The contents of `english.toml` or `vietnamese.toml`, compiled.

    Attributes:
        code: ISO 639-1.
        subject: The subject of a memory when the speaker has no name.
        rules: In order; the first that matches a clause wins.
        known_by: Frequent words that identify the language.
        unaccented: The same, as typed without accents.
        stop_words: Words that say nothing about the subject of a sentence.
        stop_terms: The same as terms of the index, with those of the subject.
        grammar: Patterns by name.
        replace: Replacements by name, each list to be applied in order.
        style: Patterns that read an answer style.
        phrases: Sentences of the summary.
        topics: Tag to readable topic.
        who: Pattern of a memory's subject, with `<names>`.
        shared_words: Words that a deed and its goal have in common.
    """

    code: str
    subject: str
    rules: Sequence[ClauseRule]
    known_by: frozenset[str]
    unaccented: frozenset[str]
    stop_words: frozenset[str]
    stop_terms: frozenset[str]
    grammar: Mapping[str, re.Pattern[str]]
    replace: Mapping[str, Sequence[tuple[re.Pattern[str], str]]]
    style: Mapping[str, re.Pattern[str]]
    phrases: Mapping[str, str]
    topics: Mapping[str, str]
    who: str
    shared_words: int

    def changed(self, text: str, how: str) -> str:
        """Apply the replacements of one kind."""
        for pattern, other in self.replace[how]:
            text = pattern.sub(other, text)
        return text

    def about_user(self, content: str, names: Sequence[str]) -> str | None:
        """A third-person memory in the user's own words, or None if it is about another person."""
        called = sorted((self.subject, *names), key=len, reverse=True)
        who = "|".join(re.escape(name) for name in called)
        match = re.match(self.who.replace("<names>", who), content, re.IGNORECASE)
        return self.changed(content[match.end() :], "first") if match else None


def load(name: str) -> LanguageTable:
    """Read a language from `<name>.toml` in this folder."""
    table = tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    words = table["words"] | _parts(table["parts"])

    def compiled(text: str) -> re.Pattern[str]:
        text = text.replace("\n", "")
        while _STANDS_FOR.search(text):
            text = _STANDS_FOR.sub(lambda match: words[match.group(1)].replace("\n", ""), text)
        return re.compile(text, re.IGNORECASE)

    grammar = {key: compiled(text) for key, text in (table["grammar"] | table["parts"]).items()}
    return LanguageTable(
        code=table["code"],
        subject=table["subject"],
        rules=[
            ClauseRule(MEANINGS[meaning], says, compiled(pattern))
            for meaning, says, *patterns in table["rules"]["table"]
            for pattern in patterns
        ],
        known_by=frozenset(table["known_by"].split()),
        unaccented=frozenset(table.get("unaccented", "").split()),
        stop_words=frozenset(table["stop_words"].split()),
        stop_terms=frozenset(content_terms(fold(f"{table['subject']} {table['stop_words']}"))),
        grammar=grammar,
        replace={
            key: [(compiled(text), other) for text, other in rows]
            for key, rows in table["replace"].items()
        },
        style={key: compiled(text) for key, text in table["style"].items()},
        phrases=table["phrases"],
        topics=table["topics"],
        who=table["who"],
        shared_words=table["shared_words"],
    )


def _parts(parts: Mapping[str, Any]) -> dict[str, str]:
    """The groups of a pattern: a name of a few words that ends where a word of `stops` begins."""
    # Lower case only: a stop word with a capital is part of a name.
    word = rf"(?!(?-i:{parts['stops']})(?![\w'’-]))[^\s,;:()]+"
    names = {
        part: rf"(?P<{part}>{word}(?: {word}){{0,{_LONGEST_NAME - 1}}})"
        for part in ("place", "origin", "name", "job", "trade", "company")
    }
    return names | {
        "company": parts["of_company"] + names["company"],
        "x": rf"(?!{parts['not_x']})(?P<x>.+)$",
        "tech": "(?P<tech>.+)$",
        "rest": "(?P<rest>.*)$",
    }


ENGLISH = load("english")
VIETNAMESE = load("vietnamese")
LANGUAGES = (ENGLISH, VIETNAMESE)
