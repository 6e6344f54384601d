"""Asks the questions through SearchMemories and scores the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from benchmarks import BenchmarkFailed
from benchmarks.locomo.data import BenchmarkQuestion
from benchmarks.locomo.scores import TOP, QuestionScore, score
from benchmarks.locomo.variants import SearchedCorpus, Variant
from benchmarks.serving import Result, in_turns
from hitherto.v1 import retrieval_service_pb2, search_pb2

_AT_ONCE = 4
SECONDS = 30.0

# The conversations end in 2023: a month without a year is meant to lie in them.
REFERENCE = Timestamp()
REFERENCE.FromDatetime(datetime(2024, 1, 31, tzinfo=UTC))


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
    reader: Any,
    questions: Sequence[BenchmarkQuestion],
    corpus: SearchedCorpus,
    variant: Variant,
    *,
    explain: bool = False,
    done: Callable[[], None] = lambda: None,
) -> Answers:
    """Ask every question, a few at a time.

    Args:
        reader: The retrieval service's stub.
        questions: What to ask.
        corpus: What is searched.
        variant: By which ranking.
        explain: Whether to note which parts scores are made of.
        done: Called after each question.

    Raises:
        BenchmarkFailed: A search failed.
    """
    answers = Answers(())

    async def ask(question: BenchmarkQuestion) -> QuestionScore:
        request = retrieval_service_pb2.SearchMemoriesRequest(
            user_id=question.user,
            query=question.text,
            limit=TOP,
            scopes=corpus.scopes,
            ranking=variant.ranking,
            weights=variant.weights,
            explain=explain,
            reference_time=REFERENCE,
        )
        response = await reader.SearchMemories(request, timeout=SECONDS)
        answers.degraded += response.degraded
        for result in response.results:
            for name, part in result.breakdown.items():
                answers.parts[name] = max(abs(part), answers.parts.get(name, 0.0))
        done()
        return score(question.gold, [behind(each) for each in response.results])

    what = f"a search of {corpus.name} by {variant.name}"
    answers.scores = await answered(questions, ask, what)
    return answers


async def answered(
    questions: Sequence[BenchmarkQuestion],
    ask: Callable[[BenchmarkQuestion], Awaitable[Result]],
    what: str,
) -> list[Result]:
    """What came of asking each question, a few at a time, in their order.

    Raises:
        BenchmarkFailed: A call failed; the message begins with `what` it was.
    """
    try:
        return await in_turns(questions, ask, at_once=_AT_ONCE)
    except grpc.aio.AioRpcError as error:
        raise BenchmarkFailed(f"{what} failed: {error.code().name}: {error.details()}") from None


def behind(result: search_pb2.SearchResult) -> list[str]:
    """Ids of the messages behind a result: itself, or those a memory came from."""
    if result.WhichOneof("item") == "message":
        return [result.message.id]
    return list(result.memory.source_message_ids)
