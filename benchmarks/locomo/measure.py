"""Measures one embedder: loads everything once, then asks in every way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from benchmarks.command import Progress, counting
from benchmarks.locomo.context import BUDGETS, ContextFigures, tell_all
from benchmarks.locomo.data import BenchmarkQuestion, Data
from benchmarks.locomo.embedders import model_for
from benchmarks.locomo.loading import LoadedCounts, load_into
from benchmarks.locomo.scores import QuestionScore
from benchmarks.locomo.searching import Answers, ask_all
from benchmarks.locomo.variants import (
    ABLATIONS,
    BALANCED,
    CORPORA,
    OTHERS,
    SearchedCorpus,
    Variant,
    idle,
)
from benchmarks.serving import BenchmarkDatabase, serving
from hitherto_client import AsyncHitherto
from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.factory import configured_embedder

_EMBEDDING_MS = 5_000
"""How long a question's vector is waited for: quality is measured here, not speed."""
SEARCH, BLOCK = "search", "block"
PARTS = (SEARCH, BLOCK)
"""What is measured: the first ten results, and what stands in the block of GetContext."""


@dataclass(slots=True)
class EmbedderRun:
    """What one embedder came to.

    Attributes:
        data: Name of the data set.
        kind: Kind of the embedder.
        embedder: Its name.
        held: What the services held.
        questions: What was asked.
        ceiling: The recall of somebody who finds every fact.
        scores: By corpus and variant one score for each question, in their order.
        idle: By corpus the components that add nothing, without which nothing was asked.
        degraded: Answers of which a leg was missing.
        told: What stood in the blocks of GetContext; None if that was not asked for.
        seconds: How long loading and asking took.
    """

    data: str
    kind: str
    embedder: str
    held: LoadedCounts
    questions: Sequence[BenchmarkQuestion]
    ceiling: float
    scores: dict[str, dict[str, Sequence[QuestionScore]]] = field(default_factory=dict)
    idle: dict[str, list[str]] = field(default_factory=dict)
    degraded: int = 0
    told: ContextFigures | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


async def measure(
    data: Data,
    kind: str,
    place: BenchmarkDatabase,
    progress: Progress,
    *,
    parts: Sequence[str] = PARTS,
) -> EmbedderRun:
    """Run the whole benchmark for one embedder.

    Args:
        data: Sessions and questions.
        kind: Kind of the embedder.
        place: A migrated database without data.
        progress: Is told how far it is.
        parts: What is asked, of `PARTS`.

    Raises:
        BenchmarkFailed: The data did not become findable.
        HithertoCallError: A call failed.
        ValueError: The environment lacks something; the message names the variable.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        chosen = await stack.enter_async_context(model_for(kind, data.sessions))
        client = await stack.enter_async_context(
            serving(place, reads={"embedding_deadline_ms": _EMBEDDING_MS}, **chosen)
        )
        extracted = counting(progress, f"{kind}: extracting", len(data.sessions))
        held = await load_into(place, client, data.sessions, done=extracted)
        loaded = time.monotonic()
        embedder = configured_embedder(SharedSettings(**chosen))
        stack.push_async_callback(embedder.close)
        run = EmbedderRun(data.name, kind, embedder.name, held, data.questions, data.ceiling)
        if BLOCK in parts:
            asked = counting(progress, f"{kind}: contexts", len(data.questions) * len(BUDGETS))
            run.told = await tell_all(client, data, embedder, asked)
            run.degraded += run.told.degraded
        for corpus in CORPORA if SEARCH in parts else ():
            await _ask(client, corpus, run, progress)
    run.seconds = {"loading": loaded - started, "asking": time.monotonic() - loaded}
    return run


async def _ask(
    client: AsyncHitherto, corpus: SearchedCorpus, run: EmbedderRun, progress: Progress
) -> None:
    """Ask everything of one corpus; what a component without effect leaves is known already."""
    found = run.scores[corpus.name] = {}

    async def ask(variant: Variant, *, explain: bool = False) -> Answers:
        answers = await ask_all(
            client,
            run.questions,
            corpus,
            variant,
            explain=explain,
            done=counting(
                progress,
                f"{run.kind}: asking {corpus.name}, {variant.name}",
                len(run.questions),
            ),
        )
        found[variant.name] = answers.scores
        run.degraded += answers.degraded
        return answers

    parts = (await ask(BALANCED, explain=True)).parts
    asked: list[Variant] = []
    if corpus.ablated:
        run.idle[corpus.name] = [v.without for v in ABLATIONS if idle(v.without, parts)]
        asked += [v for v in ABLATIONS if not idle(v.without, parts)]
        asked += OTHERS
    for variant in asked:
        await ask(variant)
