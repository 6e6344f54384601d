"""Runs rows through both services and gathers what came of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.extraction import calls
from benchmarks.extraction.calls import place_memories
from benchmarks.extraction.matching import Nearness, embed_all
from benchmarks.extraction.rows import (
    ConversationCase,
    MemoryOutcome,
    Observation,
    ObservedMemory,
    SeededMemory,
    TokenSpending,
)
from benchmarks.extraction.spend import spent_on
from benchmarks.serving import BenchmarkDatabase, in_turns, serving
from hitherto_client import AsyncHitherto
from hitherto_client.results import JobResult
from hitherto_extraction.config import ExtractionSettings
from hitherto_shared.embeddings.factory import configured_embedder
from hitherto_shared.model_api import ModelError

AT_ONCE = 8
BLOCK_MEMORIES = 20
BLOCK_TOKENS = 500
"""The most that a prompt block of 20 memories should take (B14)."""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The size of a prompt block of learnt memories, by the service's cautious count."""

    memories: int
    tokens: int


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What a run saw, and with what it ran."""

    observations: Sequence[Observation]
    nearness: Nearness
    extractor: str
    model: str
    embedder: str
    prompt_version: str
    seconds: float
    blocks: Mapping[str, BlockSize] = field(default_factory=dict)


async def run(
    rows: Sequence[ConversationCase],
    place: BenchmarkDatabase,
    *,
    patience: float = calls.PATIENCE,
    done: Callable[[], None] = lambda: None,
) -> EvaluationRun:
    """Run rows, a few at a time, each for a user of its own.

    Args:
        rows: The rows.
        place: A migrated database without data.
        patience: Seconds until a job counts as lost; the row then counts as failed.
        done: Called after each row.

    Raises:
        BenchmarkFailed: The memories to begin with could not be stored.
    """
    started = time.monotonic()
    await place_memories(place, {_user(row): row.existing_memories for row in rows})
    results: list[JobResult] = []
    async with serving(place) as client:

        async def one(row: ConversationCase) -> Observation:
            seen, result = await _observe(row, client, patience)
            if result is not None and result.extractor:
                results.append(result)
            done()
            return seen

        observations = await in_turns(rows, one, at_once=AT_ONCE)
    blocks = await _blocks(place, observations)
    embedder, nearness = await _nearness(observations)
    return EvaluationRun(
        observations=observations,
        nearness=nearness,
        extractor=results[0].extractor if results else "",
        model=results[0].model if results else "",
        embedder=embedder,
        prompt_version=results[0].prompt_version if results else "",
        seconds=time.monotonic() - started,
        blocks=blocks,
    )


def _user(row: ConversationCase) -> str:
    return f"eval-{row.id}"


async def _observe(
    row: ConversationCase, client: AsyncHitherto, patience: float
) -> tuple[Observation, JobResult | None]:
    user = _user(row)
    before = await calls.observed(client, user)
    result, error = await calls.learn(client, calls.transcript_of(row, user), patience=patience)
    after = {memory.id: memory for memory in await calls.observed(client, user)}
    known = {memory.content: memory for memory in before}
    known_ids = {memory.id for memory in before}
    new = [memory for key, memory in after.items() if key not in known_ids]
    spent = TokenSpending()
    if result is not None and not error:
        summary = await calls.summary(client, user)
        spent = spent_on(row, result, [_answered(memory) for memory in new], summary)
    seen = Observation(
        row=row,
        new=new,
        fates=[
            MemoryOutcome(wanted, known[wanted.content], after[known[wanted.content].id])
            for wanted in row.existing_memories
        ],
        profile=await calls.profile(client, user),
        spent=spent,
        error=error,
    )
    return seen, result


def _answered(memory: ObservedMemory) -> dict[str, object]:
    """A memory with the fields that a model would have had to write."""
    return {
        "type": memory.type,
        "content": memory.content,
        "importance": memory.importance,
        "confidence": "high",
        "tags": [],
        "source_message_ids": ["m1"],
    }


async def _blocks(
    place: BenchmarkDatabase, observations: Sequence[Observation]
) -> dict[str, BlockSize]:
    """How long a prompt block of the first learnt memories is, by language."""
    learnt: dict[str, dict[str, SeededMemory]] = {}
    for seen in observations:
        group = learnt.setdefault(seen.row.language, {})
        for memory in seen.learnt:
            group.setdefault(
                memory.content,
                SeededMemory.model_validate(
                    {
                        "type": memory.type,
                        "content": memory.content,
                        "importance": memory.importance,
                        "said_at": seen.row.began_at,
                    }
                ),
            )
    chosen = {
        language: list(group.values())[:BLOCK_MEMORIES]
        for language, group in learnt.items()
        if group
    }
    users = {language: f"block-{language}" for language in chosen}
    await place_memories(
        place, {users[language]: memories for language, memories in chosen.items()}, whole=False
    )
    blocks = {}
    async with serving(place) as client:
        for language, user in users.items():
            context = await client.get_context(
                user,
                max_memories=BLOCK_MEMORIES,
                max_conversations=0,
                max_entities=0,
                template="what_you_know",
            )
            blocks[language] = BlockSize(len(context.memories), context.prompt_tokens)
    return blocks


async def _nearness(observations: Sequence[Observation]) -> tuple[str, Nearness]:
    """The embedder of the run, asked once more about every text that is compared."""
    embedder = configured_embedder(ExtractionSettings())
    try:
        texts = [text for seen in observations for text in seen.texts]
        return embedder.name, await embed_all(embedder, texts)
    except ModelError:
        # Words alone decide then.
        return f"{embedder.name} (out of reach while scoring)", Nearness()
    finally:
        await embedder.close()
