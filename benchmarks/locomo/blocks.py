"""Asks for the context of every question, and looks at what of the evidence its block holds.

It is held against lists that anybody can make of what was said: the best by BM25 or by cosine,
until the budget is full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.locomo.answers import AT_ONCE, REFERENCE
from benchmarks.locomo.content import FIRST, AnsweringParts, beginning
from benchmarks.locomo.data import BenchmarkQuestion, Data
from benchmarks.serving import in_turns, vectors_of
from hitherto_client import AsyncHitherto
from hitherto_client.results import Context
from hitherto_retrieval.render.tokens import CountTokens, counter
from hitherto_retrieval.render.values import clean, shortened
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.text.bm25 import TermPostings, score
from hitherto_shared.text.passages import message_text
from hitherto_shared.text.terms import count_terms, query_terms

BUDGETS = (500, 1_000, 2_000, 4_000)
"""Tokens of a block."""
BLOCK, BM25, COSINE = "GetContext", "naive BM25", "naive cosine"
FRAME = "fence and headings"
_FIRST = "profile"
_READ, _LONGEST = 4_000, 500
"""Of a long message, a naive list has the beginning, as a block has a part."""
_SHOWN = 200
"""Characters of a message by which it is recognised: a long one may be cut."""


class GoldEvidence:
    """What the sessions of a data set say, by user."""

    def __init__(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        # Texts with the ids of the messages that each counts for.
        self._said: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for session in sessions:
            user, messages = session["user_id"], session["messages"]
            said = self._said.setdefault(user, [])
            said += [(_shown(each["content"]), frozenset([each["id"]])) for each in messages]
            said += [
                (_shown(fact["content"]), frozenset(fact["evidence"])) for fact in session["facts"]
            ]

    def covered(self, question: BenchmarkQuestion, text: str) -> float:
        """The share of a question's gold that stands in `text`, by itself or as a fact."""
        said = {
            message
            for words, messages in self._said.get(question.user, ())
            if not messages.isdisjoint(question.gold) and words in text
            for message in messages & question.gold
        }
        return len(said) / len(question.gold)


def _shown(text: str) -> str:
    """The beginning of a text, by which it is recognised where it is printed."""
    return clean(text)[:_SHOWN].rstrip()


class NaiveLists:
    """All that was said in the sessions of one user, to be put in order by one feature."""

    def __init__(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        said = [message for session in sessions for message in session["messages"]]
        self._texts = [message_text(each.get("name", ""), each["content"]) for each in said]
        self._lines = [
            f"- {each['created_at'][:10]} {shortened(clean(text[:_READ]), _LONGEST)}\n"
            for each, text in zip(said, self._texts, strict=True)
        ]
        counted = [count_terms(text) for text in self._texts]
        self._lengths = [counts.total() for counts in counted]
        self._postings: dict[str, Counter[int]] = {}
        for number, counts in enumerate(counted):
            for term, frequency in counts.items():
                self._postings.setdefault(term, Counter())[number] = frequency
        self._vectors = np.zeros((0, 0))

    async def embed(self, embedder: Embedder) -> None:
        """Have the vectors of all, which `by_cosine` needs."""
        self._vectors = np.asarray(await vectors_of(embedder, self._texts), dtype=np.float32)

    def by_words(self, question: BenchmarkQuestion) -> Sequence[int]:
        """Numbers of the messages that have a word of the question, best first."""
        postings = []
        for term in dict.fromkeys(query_terms(question.text)):
            if found := self._postings.get(term):
                numbers = list(found)
                lengths = [self._lengths[number] for number in numbers]
                postings.append(TermPostings(term, numbers, list(found.values()), lengths))
        return score(postings, len(self._texts), sum(self._lengths)).best(len(self._texts))

    def by_cosine(self, vector: np.ndarray[Any, Any]) -> Sequence[int]:
        """Numbers of all messages, the nearest first."""
        order: list[int] = np.argsort(-(self._vectors @ vector), kind="stable").tolist()
        return order

    def printed(self, numbers: Sequence[int], budget: int, count: CountTokens) -> str:
        """Their lines with day and speaker, in this order, until one does not fit."""
        lines: list[str] = []
        for number in numbers:
            budget -= count(self._lines[number])
            if budget < 0:
                break
            lines.append(self._lines[number])
        return "".join(lines)


@dataclass(slots=True)
class ContextFigures:
    """What came of asking for the context of every question."""

    # By list and budget, one figure for each question, in their order.
    covered: dict[str, dict[int, Sequence[float]]] = field(default_factory=dict)
    # By budget the tokens of a block, on average.
    tokens: dict[int, float] = field(default_factory=dict)
    # By budget the share of the tokens that each section has, by its heading.
    shares: dict[int, dict[str, float]] = field(default_factory=dict)
    degraded: int = 0  # answers of which a leg was missing
    # By list and budget the share of each question's answering parts that it says.
    says: dict[str, dict[int, Sequence[float]]] = field(default_factory=dict)
    # The same of a block as it is told without any setting, and the tokens of each.
    default: Sequence[float] = ()
    default_tokens: Sequence[int] = ()
    # By list whether an answering part of each question stands in its first tokens.
    first: dict[str, Sequence[bool]] = field(default_factory=dict)
    # Questions for which nothing was relevant.
    nothing: int = 0


async def tell_all(client: AsyncHitherto, data: Data, embedder: Embedder) -> ContextFigures:
    """Ask for every context at every budget, and make the naive lists; `embedder` is for these.

    Raises:
        HithertoCallError: A call failed.
    """
    told = ContextFigures()
    count = counter("o200k_base")
    evidence = GoldEvidence(data.sessions)

    def judged(texts: Sequence[str]) -> list[float]:
        pairs = zip(data.questions, texts, strict=True)
        return [evidence.covered(question, text) for question, text in pairs]

    parts = AnsweringParts(data.sessions)

    def saying(texts: Sequence[str]) -> list[float]:
        return [parts.told(each, text) for each, text in zip(data.questions, texts, strict=True)]

    def first_of(texts: Sequence[str]) -> list[bool]:
        return [share > 0 for share in saying([beginning(text, FIRST, count) for text in texts])]

    async def told_by_default(question: BenchmarkQuestion) -> Context:
        # What a caller gets who sets nothing.
        at = question.asked_at or REFERENCE
        return await client.get_context(question.user, question.text, reference_time=at)

    plain = await in_turns(data.questions, told_by_default, at_once=AT_ONCE, phase="default blocks")
    told.default = saying([reply.prompt_block for reply in plain])
    told.default_tokens = [reply.prompt_tokens for reply in plain]
    told.nothing = sum(reply.nothing_relevant for reply in plain)
    told.first[BLOCK] = first_of([reply.prompt_block for reply in plain])
    for budget in BUDGETS:

        async def ask(question: BenchmarkQuestion, budget: int = budget) -> Context:
            # Everything that fits, so that lists of one size are compared.
            at = question.asked_at or REFERENCE
            return await client.get_context(
                question.user,
                question.text,
                max_tokens=budget,
                min_relevance=0.0,
                reference_time=at,
            )

        phase = f"contexts of {budget:,} tokens"
        replies = await in_turns(data.questions, ask, at_once=AT_ONCE, phase=phase)
        blocks = [reply.prompt_block for reply in replies]
        told.degraded += sum(reply.degraded for reply in replies)
        told.tokens[budget] = sum(reply.prompt_tokens for reply in replies) / len(replies)
        told.shares[budget] = _shares(blocks, count)
        told.covered.setdefault(BLOCK, {})[budget] = judged(blocks)
        told.says.setdefault(BLOCK, {})[budget] = saying(blocks)
    for name, printed in (await _naive(data, embedder, count)).items():
        told.first[name] = first_of(printed.pop(FIRST))
        told.covered[name] = {budget: judged(texts) for budget, texts in printed.items()}
        told.says[name] = {budget: saying(texts) for budget, texts in printed.items()}
    return told


async def _naive(
    data: Data, embedder: Embedder, count: CountTokens
) -> Mapping[str, dict[int, list[str]]]:
    """By list and budget what is printed for each question."""
    sessions: dict[str, list[Mapping[str, Any]]] = {}
    for session in data.sessions:
        sessions.setdefault(session["user_id"], []).append(session)
    asked = {question.user for question in data.questions}
    lists = {user: NaiveLists(of_user) for user, of_user in sessions.items() if user in asked}
    for one in lists.values():
        await one.embed(embedder)
    vectors = await vectors_of(embedder, [question.text for question in data.questions])
    printed: dict[str, dict[int, list[str]]] = {BM25: {}, COSINE: {}}
    for question, vector in zip(data.questions, vectors, strict=True):
        one = lists[question.user]
        best = {BM25: one.by_words(question), COSINE: one.by_cosine(vector)}
        for name, numbers in best.items():
            for budget in (FIRST, *BUDGETS):
                texts = printed[name].setdefault(budget, [])
                texts.append(one.printed(numbers, budget, count))
    return printed


def _shares(blocks: Sequence[str], count: CountTokens) -> dict[str, float]:
    """The share of all tokens that each section of the default template has."""
    tokens: dict[str, int] = {FRAME: 0}
    for block in blocks:
        section = _FIRST
        for line in block.splitlines():
            size = count(f"{line}\n")
            if line.startswith(("<<<", "[")):
                tokens[FRAME] += size
            elif line.endswith(":") and not line.startswith("-"):
                section = line.removesuffix(":").lower()
                tokens[FRAME] += size
            else:
                tokens[section] = tokens.get(section, 0) + size
    total = sum(tokens.values()) or 1
    return {section: size / total for section, size in tokens.items() if size}
