"""Asks for the context of every question, and looks at what of the evidence its block holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.locomo.data import BenchmarkQuestion, Data
from benchmarks.locomo.naive import NaiveLists
from benchmarks.locomo.scores import Covered, GoldEvidence
from benchmarks.locomo.searching import AT_ONCE, REFERENCE
from benchmarks.serving import in_turns, vectors_of
from hitherto_client import AsyncHitherto
from hitherto_client.results import Context
from hitherto_retrieval.render.tokens import CountTokens, counter
from hitherto_shared.embeddings.protocol import Embedder

BUDGETS = (500, 1_000, 2_000, 4_000)
"""Tokens of a block."""
BLOCK, BM25, COSINE = "GetContext", "naive BM25", "naive cosine"
FRAME = "fence and headings"
_FIRST = "profile"
_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


@dataclass(slots=True)
class ContextFigures:
    """What came of asking for the context of every question.

    Attributes:
        covered: By list and budget, one figure for each question, in their order.
        tokens: By budget the tokens of a block, on average.
        shares: By budget the share of the tokens that each section has, by its heading.
        dated: By budget the share of the lines of a list that name a day.
        degraded: Answers of which a leg was missing.
    """

    covered: dict[str, dict[int, Sequence[Covered]]] = field(default_factory=dict)
    tokens: dict[int, float] = field(default_factory=dict)
    shares: dict[int, dict[str, float]] = field(default_factory=dict)
    dated: dict[int, float] = field(default_factory=dict)
    degraded: int = 0


async def tell_all(
    client: AsyncHitherto, data: Data, embedder: Embedder, done: Callable[[], None] = lambda: None
) -> ContextFigures:
    """Ask for every context at every budget, and make the naive lists.

    Args:
        client: Of the services.
        data: Sessions and questions.
        embedder: Of the naive list by cosine.
        done: Called after each question at each budget.

    Raises:
        HithertoCallError: A call failed.
    """
    told = ContextFigures()
    count = counter("o200k_base")
    evidence = GoldEvidence(data.sessions)
    for budget in BUDGETS:
        replies = await _contexts(client, data.questions, budget, done)
        blocks = [reply.prompt_block for reply in replies]
        told.degraded += sum(reply.degraded for reply in replies)
        told.tokens[budget] = sum(reply.prompt_tokens for reply in replies) / len(replies)
        told.shares[budget] = _shares(blocks, count)
        lines = [line for block in blocks for line in block.splitlines() if line[:2] == "- "]
        told.dated[budget] = sum(bool(_DAY.search(line)) for line in lines) / max(1, len(lines))
        told.covered.setdefault(BLOCK, {})[budget] = _judged(evidence, data.questions, blocks)
    for name, printed in (await _naive(data, embedder, count)).items():
        told.covered[name] = {
            budget: _judged(evidence, data.questions, texts) for budget, texts in printed.items()
        }
    return told


def _judged(
    evidence: GoldEvidence, questions: Sequence[BenchmarkQuestion], texts: Sequence[str]
) -> list[Covered]:
    return [
        evidence.covered(question, text) for question, text in zip(questions, texts, strict=True)
    ]


async def _contexts(
    client: AsyncHitherto,
    questions: Sequence[BenchmarkQuestion],
    budget: int,
    done: Callable[[], None],
) -> list[Context]:
    async def ask(question: BenchmarkQuestion) -> Context:
        # What is not set is what a caller gets who sets nothing.
        found = await client.get_context(
            question.user, question.text, max_tokens=budget, reference_time=REFERENCE
        )
        done()
        return found

    return await in_turns(questions, ask, at_once=AT_ONCE)


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
        for name, numbers in (
            (BM25, one.by_words(question)),
            (COSINE, one.by_cosine(vector)),
        ):
            for budget in BUDGETS:
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
