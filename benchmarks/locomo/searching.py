"""Asks the questions through SearchMemories and scores the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.locomo.data import BenchmarkQuestion
from benchmarks.locomo.scores import TOP, QuestionScore, score
from benchmarks.locomo.variants import SearchedCorpus, Variant
from benchmarks.serving import in_turns
from hitherto_client import AsyncHitherto
from hitherto_client.results import SearchResult

AT_ONCE = 4

# The conversations end in 2023: a month without a year is meant to lie in them.
REFERENCE = datetime(2024, 1, 31, tzinfo=UTC)


@dataclass(slots=True)
class Answers:
    """What came of asking all questions in one way.

    Attributes:
        scores: One for each question, in their order.
        parts: The most that each part of a score came to, by name; only if explained.
        degraded: Answers of which a leg was missing.
    """

    scores: Sequence[QuestionScore]
    parts: dict[str, float] = field(default_factory=dict)
    degraded: int = 0


async def ask_all(
    client: AsyncHitherto,
    questions: Sequence[BenchmarkQuestion],
    corpus: SearchedCorpus,
    variant: Variant,
    *,
    explain: bool = False,
    done: Callable[[], None] = lambda: None,
) -> Answers:
    """Ask every question, a few at a time.

    Args:
        client: Of the services.
        questions: What to ask.
        corpus: What is searched.
        variant: By which ranking.
        explain: Whether to note which parts scores are made of.
        done: Called after each question.

    Raises:
        HithertoCallError: A search failed.
    """
    answers = Answers(())

    async def ask(question: BenchmarkQuestion) -> QuestionScore:
        found = await client.search(
            question.user,
            question.text,
            limit=TOP,
            scopes=corpus.scopes,
            ranking=variant.ranking,
            weights=variant.weights,
            explain=explain,
            reference_time=REFERENCE,
        )
        answers.degraded += found.degraded
        for result in found:
            for name, part in result.breakdown.items():
                answers.parts[name] = max(abs(part), answers.parts.get(name, 0.0))
        done()
        return score(question.gold, [behind(each) for each in found])

    answers.scores = await in_turns(questions, ask, at_once=AT_ONCE)
    return answers


def behind(result: SearchResult) -> Sequence[str]:
    """Ids of the messages behind a result: itself, or those a memory came from."""
    if result.message is not None:
        return [result.message.id]
    return result.memory.source_message_ids if result.memory is not None else ()
