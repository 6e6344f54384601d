"""What a block says of the answers, by its words: ids cannot see that a line lacks what answers.

Of each gold message the answering part is looked for: the sentence, of at most 60 words, that
shares most with the answer (without one: with the question and what was learnt from the message).
It is told by a line printed from that message, or one that is no message, if that holds 60 % of the
part's words, or 80 % of those that the answer has and the question has not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from benchmarks.locomo.data import BenchmarkQuestion
from hitherto_retrieval.render.tokens import CountTokens
from hitherto_retrieval.render.values import ELLIPSIS, clean
from hitherto_shared.text.terms import content_terms

FIRST = 300
"""Tokens in which the best should stand."""
_PART, _REST = 45, 15
_SHARE, _NEW, _CORE, _ONE = 0.6, 0.8, 0.5, 0.6
_BREAK = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z\"'*\-])|(?<=[。！？])")
_HEADING = re.compile(r"(?:In .{1,80}|\d{4}-\d\d-\d\d):$")
_SAID = re.compile(r"- (?:\[MESSAGE\] |\(partly [^)]*\) |\d{4}-\d\d-\d\d )*[^:]{1,80}: (.*)")
_NOT_WORD = re.compile(r"\W+")


@lru_cache(200_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))


def _plain(text: str) -> str:
    return _NOT_WORD.sub(" ", clean(text)).strip().casefold()


class AnsweringParts:
    """The parts of messages that answer the questions of a data set."""

    def __init__(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        self._content: dict[tuple[str, str], str] = {}
        self._learnt: dict[tuple[str, str], list[str]] = {}
        self._plain: dict[str, list[tuple[str, str]]] = {}
        for session in sessions:
            user = session["user_id"]
            for message in session["messages"]:
                self._content[user, message["id"]] = message["content"]
                said = self._plain.setdefault(user, [])
                said.append((message["id"], _plain(message["content"])))
            for fact in session["facts"]:
                for source in fact["evidence"]:
                    self._learnt.setdefault((user, source), []).append(fact["content"])
        self._having: dict[str, Counter[str]] = {}
        for (user, _), content in self._content.items():
            self._having.setdefault(user, Counter()).update(_words(content))

    def told(self, question: BenchmarkQuestion, text: str) -> float:
        """The share of the question's answering parts that a text says."""
        lines = self._lines(question.user, text)
        found = [self._says(question, gold, lines) for gold in sorted(question.gold)]
        return sum(found) / len(found)

    def _says(
        self, question: BenchmarkQuestion, gold: str, lines: Sequence[tuple[str, frozenset[str]]]
    ) -> bool:
        key = self._key(question, gold)
        part = self._part(question.user, gold, key)
        core = part & key
        new = core - _words(question.text)
        for words in (words for source, words in lines if source in ("", gold)):
            if len(part & words) >= _SHARE * len(part):
                return True
            least = _CORE if len(new) > 1 else _ONE
            if (
                new
                and len(core) > 1
                and len(new & words) >= _NEW * len(new)
                and len(core & words) >= least * len(core)
            ):
                return True
        return False

    def _key(self, question: BenchmarkQuestion, gold: str) -> frozenset[str]:
        if question.answer:
            return _words(question.answer)
        learnt = self._learnt.get((question.user, gold), ())
        return _words(" ".join([question.text, *learnt]))

    def _part(self, user: str, gold: str, key: frozenset[str]) -> frozenset[str]:
        """The words of the part of a message that shares most with `key`, for its length."""

        def value(words: frozenset[str]) -> float:
            shared = sum(self._idf(user, word) for word in words & key)
            whole = sum(self._idf(user, word) for word in words) or 1.0
            return shared * math.sqrt(shared / whole)

        return max(map(_words, _parts(self._content.get((user, gold), ""))), key=value)

    def _idf(self, user: str, word: str) -> float:
        documents = len(self._plain[user])
        having = self._having[user].get(word, 0)
        return math.log1p((documents - having + 0.5) / (having + 0.5))

    def _lines(self, user: str, text: str) -> list[tuple[str, frozenset[str]]]:
        """The words of each line with the message that it is printed from; none if it is none."""
        found: list[tuple[str, frozenset[str]]] = []
        under = False
        for line in text.splitlines():
            under = bool(_HEADING.match(line)) or (under and line.startswith("- "))
            said = _SAID.match(line)
            if said and (under or not line.startswith("- [") or line.startswith("- [MESSAGE]")):
                # Of a long message, parts that may be far from each other.
                parts = [words for part in said[1].split(ELLIPSIS) if (words := _plain(part))]
                sources = [
                    key
                    for key, content in self._plain.get(user, ())
                    if all(words in content for words in parts)
                ]
                if parts and sources:
                    found += [(source, _words(line)) for source in sources]
                    continue
            found.append(("", _words(line)))
        return found


def _parts(text: str) -> list[str]:
    """Sentences and lines, of at most 60 words and at least three that count."""
    found = []
    for line in _BREAK.split(text):
        words = line.split()
        for first in range(0, len(words), _PART):
            left = len(words) - first
            part = " ".join(words[first : first + (left if left < _PART + _REST else _PART)])
            if len(_words(part)) > 2:
                found.append(part)
            if left < _PART + _REST:
                break
    return found or [text]


def beginning(text: str, tokens: int, count: CountTokens) -> str:
    """The first `tokens` of a text, to the word."""
    kept: list[str] = []
    for line in text.splitlines():
        size = count(f"{line}\n")
        if size <= tokens:
            kept.append(line)
            tokens -= size
            continue
        words = line.split(" ")
        while words and count(" ".join(words)) > tokens:
            words = words[: -max(1, len(words) // 8)]
        return "\n".join([*kept, " ".join(words)])
    return "\n".join(kept)
