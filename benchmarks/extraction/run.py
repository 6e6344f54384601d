"""Runs rows through both services and gathers what came of each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from benchmarks import serving
from benchmarks.extraction.matching import Nearness, embed_all
from benchmarks.extraction.rows import (
    LANGUAGES,
    ConversationCase,
    Existing,
    MemoryOutcome,
    Observation,
    TokenSpending,
)
from hitherto.v1 import job_pb2
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import TranscriptInput
from hitherto_client.results import Context, JobResult, Memory
from hitherto_client.wire import read
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.pipeline.prompt import build_prompt
from hitherto_extraction.prices import load_prices
from hitherto_extraction.provider.protocol import Batch, PromptMemory, PromptMessage
from hitherto_shared.embeddings.factory import configured_embedder
from hitherto_shared.model_api import ModelError, estimate_tokens

AT_ONCE = 8
PATIENCE = 300.0
"""Seconds until a job counts as lost."""
BLOCK_MEMORIES = 20
BLOCK_TOKENS = 500
"""The most that a prompt block of 20 memories should take (B14)."""
REFERENCE_MODEL = "gpt-4o-mini"
_LEARNT = ("summary", "department", "current_projects", "preferences", "frequent_intents", "facts")
_OF_A_SUMMARY = (
    *("title", "summary", "key_topics", "technical_topics", "outcome", "followup_suggestions"),
)


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What a run saw, and with what it ran."""

    observations: Sequence[Observation]
    nearness: Nearness
    by: JobResult  # of the first job that had one: who extracted
    embedder: str
    seconds: float
    blocks: Mapping[str, Context]  # by language, one with memories that were learnt in it


async def run(
    rows: Sequence[ConversationCase],
    place: serving.BenchmarkDatabase,
    *,
    patience: float = PATIENCE,
) -> EvaluationRun:
    """Run rows on a database without data, a few at a time, each for a user of its own.

    After `patience` seconds a job counts as lost, and its row as failed.

    Raises:
        BenchmarkFailed: The memories to begin with did not get vectors.
    """
    started = time.monotonic()
    by = read(JobResult, job_pb2.JobResult())
    async with serving.serving(place) as client:
        for row in rows:
            known = [(memory, memory.said_at) for memory in row.existing_memories]
            await _place(client, _user(row), known)
        without = "known memories still wait for their vectors"
        await serving.in_time(serving.all_vectors(place.conninfo), without)

        async def one(row: ConversationCase) -> Observation:
            nonlocal by
            seen, result = await _observe(row, client, patience)
            if result is not None and result.extractor:
                by = by if by.extractor else result
            return seen

        observations = await serving.in_turns(rows, one, at_once=AT_ONCE, phase="extracting")
        blocks = {
            language: block
            for language in LANGUAGES
            if (block := await _block(client, language, observations)) is not None
        }
    embedder, nearness = await _nearness(observations)
    return EvaluationRun(observations, nearness, by, embedder, time.monotonic() - started, blocks)


def _user(row: ConversationCase) -> str:
    return f"eval-{row.id}"


async def _place(
    client: AsyncHitherto, user: str, memories: Sequence[tuple[Existing | Memory, datetime]]
) -> None:
    """Let a user have memories, as if each had been learnt at its time."""
    if memories:
        rows = [
            serving.memory_row(
                at,
                memory_id=uuid4(),
                type=memory.type,
                content=memory.content,
                importance=memory.importance,
                confidence="high",
            )
            for memory, at in memories
        ]
        since: Mapping[str, Any] = {"created_at": min(at for _, at in memories)}
        await serving.import_user(client, user, {"users": [since], "memories": rows})


async def _observe(
    row: ConversationCase, client: AsyncHitherto, patience: float
) -> tuple[Observation, JobResult | None]:
    user = _user(row)
    before = {memory.content: memory for memory in await _memories(client, user)}
    result, error = await _learn(client, _transcript(row, user), patience)
    after = {memory.id: memory for memory in await _memories(client, user)}
    known_ids = {memory.id for memory in before.values()}
    new = [memory for key, memory in after.items() if key not in known_ids]
    spent = TokenSpending()
    if result is not None and not error:
        spent = _spent_on(row, result, new, await _summary(client, user))
    profile = await client.get_profile(user)
    seen = Observation(
        row=row,
        new=new,
        fates=[
            MemoryOutcome(wanted, before[wanted.content], after[before[wanted.content].id])
            for wanted in row.existing_memories
        ],
        profile=list(_flat("", {name: getattr(profile, name, None) for name in _LEARNT})),
        spent=spent,
        error=error,
    )
    return seen, result


def _transcript(row: ConversationCase, user: str) -> TranscriptInput:
    messages: list[Any] = [
        {"id": f"m{number}", **said.model_dump()} for number, said in enumerate(row.transcript, 1)
    ]
    return {
        "user_id": user,
        "conversation_id": row.id,
        "messages": messages,
        "ended": True,
        "time_zone": row.time_zone,
    }


async def _learn(
    client: AsyncHitherto, transcript: TranscriptInput, patience: float
) -> tuple[JobResult | None, str]:
    """Hand a conversation over; what its job did, and why it did not succeed, or nothing."""
    (job_id,) = await serving.submit(client, [transcript])
    try:
        async with asyncio.timeout(patience):
            job = await serving.ended(client, job_id)
    except TimeoutError:
        return None, f"no end within {patience:g} seconds: is the model within reach?"
    return job.result, "" if job.succeeded else job.error or job.state


async def _memories(client: AsyncHitherto, user: str) -> list[Memory]:
    """Every memory of a user, whatever its status, the oldest first."""
    return [each async for each in client.memories(user, statuses=serving.EVERY_STATUS)][::-1]


async def _summary(client: AsyncHitherto, user: str) -> dict[str, Any]:
    """The summary of a user's latest conversation, with the fields of the model's answer."""
    async for found in client.conversations(user, page_size=1):
        fields = asdict(found)
        return {name: fields[name] for name in _OF_A_SUMMARY if fields[name]}
    return {}


def _flat(path: str, value: Any) -> Iterable[str]:
    """What a profile says, as `path: value`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flat(path, inner)
    elif value not in ("", None):
        yield f"{path}: {value}"


def _spent_on(
    row: ConversationCase,
    result: JobResult,
    learnt: Sequence[Memory],
    summary: Mapping[str, Any],
) -> TokenSpending:
    """What a row's job cost: as it reports, or as it would be with a paid model.

    Without calls of a language model the tokens are estimated: of the prompt that a model would
    have been sent, and of an answer with the same memories and summary, at a third of their bytes
    in UTF-8, which is cautious for English.
    """
    usage = result.usage
    read, written = usage.input_tokens, usage.output_tokens
    if estimated := not usage.llm_calls:
        prompt = build_prompt(_batch(row))
        asked = (prompt.system, prompt.user, json.dumps(prompt.schema))
        read = sum(map(estimate_tokens, asked))
        answer = {
            "new_memories": [
                {
                    "type": memory.type,
                    "content": memory.content,
                    "importance": memory.importance,
                    "confidence": "high",
                    "tags": [],
                    "source_message_ids": ["m1"],
                }
                for memory in learnt
            ],
            "conversation_summary": dict(summary),
        }
        written = estimate_tokens(json.dumps(answer, ensure_ascii=False))
    reference = load_prices(None).cost(REFERENCE_MODEL, input_tokens=read, output_tokens=written)
    return TokenSpending(
        input_tokens=read,
        output_tokens=written,
        usd=0.0 if estimated else usage.cost_usd,
        usd_reference=float(reference),
        estimated=estimated,
    )


def _batch(row: ConversationCase) -> Batch:
    return Batch(
        profile={},
        summary=None,
        memories=[
            PromptMemory(f"e{number}", known.type, known.content, known.said_at)
            for number, known in enumerate(row.existing_memories, 1)
        ],
        messages=[
            PromptMessage(
                f"m{number}", message.role, message.name, message.content, message.created_at
            )
            for number, message in enumerate(row.transcript, 1)
        ],
        time_zone=row.time_zone,
    )


async def _block(
    client: AsyncHitherto, language: str, observations: Sequence[Observation]
) -> Context | None:
    """A prompt block of memories learnt in a language; None if nothing was learnt."""
    learnt: dict[str, tuple[Memory, datetime]] = {}
    for seen in observations:
        for memory in seen.learnt if seen.row.language == language else ():
            learnt.setdefault(memory.content, (memory, seen.row.began_at))
    if not learnt:
        return None
    user = f"block-{language}"
    await _place(client, user, list(learnt.values())[:BLOCK_MEMORIES])
    return await client.get_context(
        user,
        max_memories=BLOCK_MEMORIES,
        max_conversations=0,
        max_entities=0,
        template="what_you_know",
    )


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
