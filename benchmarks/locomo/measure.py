"""Measures one embedder: loads everything once, waits until all can be found, asks in every way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks import serving
from benchmarks.command import counting
from benchmarks.locomo import answers
from benchmarks.locomo.blocks import ContextFigures, tell_all
from benchmarks.locomo.data import BenchmarkQuestion, Data, transcript
from hitherto_client import AsyncHitherto
from hitherto_shared.config import SharedSettings
from hitherto_shared.database.connect import with_role
from hitherto_shared.embeddings.factory import configured_embedder
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.model_api import ModelError
from tests.scripted_model import ScriptedModel, StatusFault, facts_script

KINDS = ("offline", "onnx", "openai")
"""Kinds of embedders."""
SEARCH, BLOCK = "search", "block"
PARTS = (SEARCH, BLOCK)
"""What is measured: the first ten results, and what stands in the block of GetContext."""
_EMBEDDING_MS = 5_000
"""How long a question's vector is waited for: quality is measured here, not speed."""


@dataclass(slots=True)
class EmbedderRun:
    """What one embedder came to."""

    data: str  # name of the data set
    kind: str  # kind of the embedder
    embedder: str  # its name
    held: Mapping[str, int]  # how much the services held, by what it is
    questions: Sequence[BenchmarkQuestion]  # what was asked
    ceiling: float  # the recall of somebody who finds every fact
    # By corpus and variant one score for each question, in their order.
    scores: dict[str, dict[str, Sequence[answers.QuestionScore]]] = field(default_factory=dict)
    degraded: int = 0  # answers of which a leg was missing
    # What stood in the blocks of GetContext; None if that was not asked for.
    told: ContextFigures | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # how long loading and asking took


async def measure(
    data: Data,
    kind: str,
    place: serving.BenchmarkDatabase,
    *,
    parts: Sequence[str] = PARTS,
) -> EmbedderRun:
    """Run the whole benchmark for one kind of embedder, on a migrated database without data.

    Raises:
        BenchmarkFailed: The data did not become findable.
        HithertoCallError: A call failed.
        ValueError: The environment lacks something; the message names the variable.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        chosen = dict(await stack.enter_async_context(model_for(kind, data.sessions)))
        if not data.learnt:
            # Without a language model, as many an installation starts.
            chosen["extractor"] = "offline"
        client = await stack.enter_async_context(
            serving.serving(place, reads={"embedding_deadline_ms": _EMBEDDING_MS}, **chosen)
        )
        held = await _load(place, client, data.sessions)
        loaded = time.monotonic()
        embedder = configured_embedder(SharedSettings(**chosen))
        stack.push_async_callback(embedder.close)
        run = EmbedderRun(data.name, kind, embedder.name, held, data.questions, data.ceiling)
        if BLOCK in parts:
            run.told = await tell_all(client, data, embedder)
            run.degraded += run.told.degraded
        for corpus in answers.CORPORA if SEARCH in parts else ():
            await _ask(client, corpus, run)
    run.seconds = {"loading": loaded - started, "asking": time.monotonic() - loaded}
    return run


async def _ask(client: AsyncHitherto, corpus: str, run: EmbedderRun) -> None:
    """Ask everything of one corpus."""
    found = run.scores[corpus] = {}

    async def ask(variant: answers.Variant) -> None:
        async def one(question: BenchmarkQuestion) -> answers.QuestionScore:
            answer = await client.search(
                question.user,
                question.text,
                limit=answers.TOP,
                scopes=answers.CORPORA[corpus],
                ranking=variant.ranking,
                weights=variant.weights,
                reference_time=answers.REFERENCE,
            )
            run.degraded += answer.degraded
            return answers.score(question.gold, [answers.behind(each) for each in answer])

        phase = f"asking {corpus}, {variant.name}"
        found[variant.name] = await serving.in_turns(
            run.questions, one, at_once=answers.AT_ONCE, phase=phase
        )

    await ask(answers.BALANCED)
    if corpus in answers.ABLATED:
        for variant in (*answers.ABLATIONS, *answers.OTHERS):
            await ask(variant)


def available(environment: Mapping[str, str]) -> list[str]:
    """The kinds of embedder that the environment has what they need for, cheapest first."""
    found = ["offline"]
    if environment.get("HITHERTO_ONNX_MODEL_DIR"):
        found.append("onnx")
    reachable = environment.get("OPENAI_BASE_URL") or environment.get("OPENAI_API_KEY")
    if environment.get("EMBEDDING_MODEL") and reachable:
        found.append("openai")
    return found


@asynccontextmanager
async def model_for(
    kind: str, sessions: Sequence[Mapping[str, Any]]
) -> AsyncIterator[Mapping[str, Any]]:
    """A language model that knows the facts of the sessions, beside an embedder of this kind.

    Yields the settings by which the services use both. They know one model server for both: for
    `openai` it passes texts to be embedded on to the server that the environment names.

    Raises:
        ValueError: The environment lacks something; the message names the variable.
    """
    settings: dict[str, Any] = {"extractor": "openai", "embedder": kind}
    embed = None
    async with AsyncExitStack() as stack:
        if kind == "openai":
            given = SharedSettings()
            embedder = OpenAIEmbedder(
                given.embedding_model,
                given.embedding_dimensions,
                server=given.embedding_server,
            )
            stack.push_async_callback(embedder.close)

            async def embed(texts: list[str]) -> list[Vector] | StatusFault:
                try:
                    return list((await embedder.embed(texts)).vectors)
                except ModelError as error:
                    return StatusFault(503, message=str(error))

        else:
            # What is set for another embedder must not be held against this one.
            settings["embedding_dimensions"] = None
        model = await stack.enter_async_context(ScriptedModel(facts_script(sessions), embed=embed))
        yield {**settings, "openai_base_url": model.base_url}


async def _load(
    place: serving.BenchmarkDatabase, client: AsyncHitherto, sessions: Sequence[Mapping[str, Any]]
) -> Mapping[str, int]:
    """Send every session and wait for its job and for the vectors of what came of it.

    Returns:
        How much the services hold, by what it is.

    Raises:
        BenchmarkFailed: It took too long.
    """
    succeeded = 0
    done = counting("extracting", len(sessions))
    for job_id in await serving.submit(client, map(transcript, sessions)):
        job = await serving.in_time(serving.ended(client, job_id), "a job did not end")
        succeeded += job.succeeded
        done()
    await serving.in_time(serving.all_vectors(place.conninfo), "texts still wait for their vectors")
    # What autovacuum does within a minute or so: without it searches take twice as long till then.
    login = with_role(place.conninfo, "hitherto_owner", application="bench")
    async with await psycopg.AsyncConnection.connect(login, autocommit=True) as database:
        await database.execute("ANALYZE")
    users = sorted({session["user_id"] for session in sessions})
    memories = [
        memory
        for user in users
        async for memory in client.memories(user, statuses=serving.EVERY_STATUS)
    ]
    return {
        "sessions": len(sessions),
        "succeeded": succeeded,
        "summaries": len([each for user in users async for each in client.conversations(user)]),
        "messages": sum(len(session["messages"]) for session in sessions),
        "memories": len(memories),
        "with_sources": sum(bool(memory.source_message_ids) for memory in memories),
    }
