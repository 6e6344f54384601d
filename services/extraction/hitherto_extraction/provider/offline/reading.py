"""The engine: a message becomes sentences, clauses, and what the first rule that fits writes.

It knows no language itself; `language` holds the tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hitherto_extraction.provider.offline.language import (
    ClauseRule,
    LanguageTable,
    technologies,
)
from hitherto_shared.dates.clauses import RelativeDate, resolve_dates
from hitherto_shared.text.graphemes import beginning
from hitherto_shared.text.normalise import fold, normalized

_EVENTS, _EVENT_LENGTH, _VALUE_LENGTH = ("question", "problem", "learning"), 200, 400
_NAMES = {"place": "place", "origin": "place", "name": "person", "company": "company"}
_GAP = re.compile(r"\{(\w+)\}")
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


@dataclass(slots=True)
class UserStatement:
    """A statement of the speaker about themselves.

    Attributes:
        memory: The memory that it makes, as a language model would write it.
        slots: Folded value of each slot.
        profile: Dotted path and value, in order; a path that ends in `[]` appends.
        topic: What the sentence is about, without its subject and verb.
        ends: The list of a reply for what it denies, or asks to forget; empty for a statement.
    """

    meaning: Mapping[str, Any]
    memory: dict[str, Any]
    slots: dict[str, str]
    profile: list[tuple[str, str]]
    topic: str
    ends: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a message of one speaker. `said_at` is in the speaker's time zone."""

    language: LanguageTable
    subject: str
    message_id: str
    said_at: datetime

    def read(self, text: str) -> tuple[list[UserStatement], list[str]]:
        """What a message states, and the sentences that ask something."""
        language, grammar = self.language, self.language.grammar
        found: list[UserStatement | None] = []
        questions = []
        for sentence in sentences(text):
            spoken = language.changed(sentence, "spoken")
            opened = self._trimmed(spoken)
            if grammar["refuse_rest"].match(opened):
                break
            if grammar["refuse"].search(spoken):
                continue
            asked = sentence.endswith(("?", "？")) or grammar["question"].search(opened)
            if asked:
                questions.append(sentence)
            for clause in self._clauses(spoken.rstrip("?？ ")):
                if not (asked and grammar["question"].search(clause)):
                    found.append(self._read_clause(clause))
        return [each for each in found if each], questions

    def _clauses(self, sentence: str) -> list[str]:
        """Divide a sentence; a clause that begins with its verb takes over the subject."""
        grammar, subject = self.language.grammar, self.language.phrases["subject"]
        clauses, rest = (parts := grammar["split"].split(sentence))[:1], parts[1:]
        for gap, part in zip(rest[::2], rest[1::2], strict=True):
            if not grammar["continues"].match(part):
                clauses.append(part)
            elif self._trimmed(clauses[-1]).startswith(subject):
                clauses.append(subject + part)
            else:
                clauses[-1] += gap + part
        return [clause for each in clauses if (clause := self._trimmed(each.strip(" ,")))]

    def _trimmed(self, clause: str) -> str:
        """A clause without fillers at its ends, and with its subject."""
        while match := self.language.grammar["opening"].match(clause):
            clause = clause[match.end() :]
        before = ""
        while clause != before:
            before, clause = clause, self.language.grammar["closing"].sub("", clause).strip()
        return self.language.changed(clause, "subject")

    def _read_clause(self, clause: str) -> UserStatement | None:
        grammar = self.language.grammar
        clause, moments = resolve_dates(clause, self.language.code, self.said_at.date())
        clause = self._trimmed(clause)
        statement, ends = self._first_fit(clause, moments), ""
        if statement is None and (match := grammar["forget"].match(clause)):
            statement, ends = self._first_fit(clause[match.end() :], []), "forgotten_memories"
        elif statement is None and (match := grammar["denied"].match(clause)):
            subject = self.language.phrases["subject"] + ("am " if match["be"] == "am" else "")
            positive = subject + clause[match.end() :]
            statement, ends = self._first_fit(positive, []), "contradicted_memories"
        if statement:
            statement.ends = ends
        return statement

    def _first_fit(self, clause: str, moments: list[RelativeDate]) -> UserStatement | None:
        for rule in self.language.rules:
            if match := rule.pattern.match(clause):
                said = {
                    key: cut(value.strip(" ,.;:!?…-"), _VALUE_LENGTH)
                    for key, value in match.groupdict().items()
                    if value
                }
                if all(self._fits(part, value) for part, value in said.items()):
                    return self._statement(rule, said, clause, moments)
        return None

    def _fits(self, part: str, value: str) -> bool:
        """Whether a part of a clause can have the role that its rule gives it."""
        if part not in _NAMES:
            return part != "tech" or bool(technologies(value))
        # Capitals tell names from common nouns; a company needs one somewhere.
        capitals = [not word[0].islower() for word in value.split()] or [False]
        fits = any(capitals) if part == "company" else capitals[0]
        name = part != "name" or (
            capitals[-1] and not self.language.grammar["no_name"].match(value)
        )
        return fits and name

    def _statement(
        self, rule: ClauseRule, said: dict[str, str], clause: str, moments: list[RelativeDate]
    ) -> UserStatement:
        meaning = rule.meaning
        groups = {key: self._value(key, value, clause) for key, value in said.items()} | {
            "s": self.subject
        }
        content = filled(rule.says, groups).rstrip(" .")
        if moments:
            content += f" ({', '.join(moment.text for moment in moments)})"
        content = content[:1].upper() + content[1:] + ("" if content.endswith(("?", "？")) else ".")
        slots = slots_of(meaning, groups, self.language)
        profile = [
            (path, filled(text, groups)) for path, text in meaning.get("profile", {}).items()
        ]
        profile.append(("preferences.response_style", slots.get("answer length", "")))
        named = technologies(clause)
        if meaning["type"] in ("fact", "context"):
            profile += [(path, name) for name, path in named.items() if path]
        memory = {
            "type": meaning["type"],
            "content": cut(content, _EVENT_LENGTH) if meaning["type"] in _EVENTS else content,
            "importance": meaning["importance"],
            "confidence": "high",
            "tags": meaning["tags"].split(),
            "entities": [
                *(
                    {"name": groups[part], "type": _NAMES[part]}
                    for part in _NAMES
                    if part in groups
                ),
                *({"name": name, "type": "topic"} for name in named),
            ],
            "source_message_ids": [self.message_id],
            "origin": "user",
        }
        for moment in moments[:1]:
            if moment.start <= self.said_at.date():
                memory["valid_from"] = moment.start.isoformat()
        given = [(path, value) for path, value in profile if value]
        return UserStatement(meaning, memory, slots, given, groups.get("x") or content)

    def _value(self, part: str, value: str, clause: str) -> str:
        """A part of a clause in its written form."""
        if part in _NAMES:
            return value
        if clause.startswith(value) and value[1:2].islower():
            # It opened the sentence; inside ours it needs no capital.
            value = value[0].lower() + value[1:]
        return (" " if part == "rest" else "") + self.language.changed(value, "third")


def filled(text: str, groups: Mapping[str, str]) -> str:
    """A template with what was said in its gaps."""
    return _GAP.sub(lambda match: groups.get(match[1], ""), text)


def slots_of(
    meaning: Mapping[str, Any], groups: Mapping[str, str], language: LanguageTable
) -> dict[str, str]:
    """The properties with one value that a statement gives, folded."""
    slots = {
        fold(filled(key, groups)): fold(filled(text, groups)).replace(" ", "")
        for key, text in meaning.get("slots", {}).items()
    }
    about = groups.get("x", "")
    if "preference" in meaning["tags"] and language.grammar["about_answers"].search(about):
        lengths = (key for key in ("short", "detailed") if language.grammar[key].search(about))
        slots["answer length"] = next(lengths, "")
    return {key: value for key, value in slots.items() if value}


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
    head = beginning(text, length - 1)
    return (head[: head.rindex(" ")] if " " in head[length // 2 :] else head).rstrip(" ,;:.") + "…"
