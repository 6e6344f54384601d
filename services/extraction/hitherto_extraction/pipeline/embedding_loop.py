"""Embeds texts: those about to be stored, and stored ones that lack vectors, whatever they are."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from hitherto_extraction.storage import users
from hitherto_extraction.storage.corpora.corpus import EmbeddableText
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch, Vector
from hitherto_shared.model_api import ModelError, ModelUnavailable

logger = logging.getLogger("hitherto.backfill")

BATCH = 64
"""Number of texts that are read, embedded and written together."""
SECONDS = 30.0
_PATIENCE = 3
"""Number of refused texts, without an accepted one, after which a harmless text is tried."""
_HARMLESS_TEXT = "Hello"
_TRIES = 3
"""Attempts at a text that the embedder fails on while it answers a harmless one."""
_SLOW_SECONDS = 5.0
"""Duration of a failed attempt from which on there is no further one: the embedder hangs on it."""
_SHORTEST_CUT = 256
"""Characters to which a text that is refused is cut at the least."""

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class EmbeddedBatch(Generic[Item]):
    """What has become of a batch of texts; `refused` are those that a reachable embedder refuses.

    `model` is its name when the batch began: the active model may change meanwhile.
    """

    model: str
    vectors: dict[Item, Sequence[Vector]] = field(default_factory=dict)
    refused: list[Item] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    outage: ModelUnavailable | None = None

    def vector_of(self, text: Item) -> Vector | None:
        """The vector of a text with a single content; None if it has none yet."""
        return next(iter(self.vectors.get(text, ())), None)


Keep = Callable[[Connection, EmbeddedBatch[EmbeddableText]], Awaitable[None]]


async def embed(
    embedder: Embedder, texts: Mapping[Item, Sequence[str]], *, timeout: float | None = None
) -> EmbeddedBatch[Item]:
    """Embed texts, in one call if the embedder accepts all of them.

    A batch that is refused is halved, until each text that is refused stands alone; so is one on
    which the embedder fails or hangs while it answers a harmless text. What is refused alone is
    embedded content by content, and of a long content the beginning. If the embedder accepts no
    text, a harmless one tells whether it is at fault. After an outage the batch holds what was
    embedded before it.

    Without `timeout`, the embedder's own limit applies to each call.

    Raises:
        ModelUnavailable: The embedder is unreachable; nothing was embedded.
        ModelError: It does not embed a harmless text either.
    """
    made = EmbeddedBatch[Item](embedder.name)
    asked = _Patient(embedder, None if timeout is None else monotonic() + timeout)
    parts = deque([list(texts)])
    from_the_end = True
    while parts:
        # From both ends, so that texts that are refused do not hide others behind them.
        part = parts.pop() if from_the_end else parts.popleft()
        from_the_end = not from_the_end
        try:
            vectors = await asked.vectors([content for item in part for content in texts[item]])
            if vectors is None and len(part) == 1:
                vectors = await asked.one_by_one(texts[part[0]])
        except ModelUnavailable as error:
            if not made.vectors:
                raise
            made.outage = error
            break
        if vectors is not None:
            found = iter(vectors)
            made.vectors |= {item: [next(found) for _ in texts[item]] for item in part}
        elif middle := len(part) // 2:
            parts.appendleft(part[:middle])
            parts.append(part[middle:])
        else:
            logger.warning("the embedder refuses a text: %s", asked.refusal)
            made.refused += part
            count = len(made.refused)
            doubtful = count == _PATIENCE or (count < _PATIENCE and not parts)
            if doubtful and not made.vectors and not asked.harmless:
                await embedder.embed([_HARMLESS_TEXT])
    made.calls, made.tokens = asked.calls, asked.tokens
    return made


async def embed_or_leave(
    embedder: Embedder, texts: Iterable[str], *, timeout: float | None = None
) -> EmbeddedBatch[str]:
    """Embed texts that are about to be stored; equal ones once.

    During an outage there are no vectors: the texts are stored without, found by their words, and
    back-filled. See `embed` for the arguments.
    """
    contents = {text: (text,) for text in texts}
    if contents:
        try:
            return await embed(embedder, contents, timeout=timeout)
        except ModelError as error:
            logger.warning("texts get their vectors later, as the embedder fails: %s", error)
    return EmbeddedBatch(embedder.name)


class _Patient:
    """Asks an embedder, and tells a text that it fails on from an outage."""

    def __init__(self, embedder: Embedder, deadline: float | None) -> None:
        self.calls = 0
        self.tokens = 0
        self.refusal: ModelError | None = None
        self.harmless = False
        self._embedder = embedder
        self._deadline = deadline

    async def vectors(self, contents: Sequence[str]) -> Sequence[Vector] | None:
        """The vectors of contents in one call; None if they are refused while others pass.

        If the embedder is unreachable, that is raised.
        """
        single = len(contents) == 1
        for attempt in range(1, _TRIES + 1):
            began = monotonic()
            try:
                batch = await self._embed(contents)
            except ModelUnavailable as error:
                self.refusal = error
                if not error.may_be_of_the_request:
                    raise
                # Raises if it is an outage. Otherwise this text is at fault, and the answer keeps
                # the circuit breaker closed.
                await self._embed([_HARMLESS_TEXT])
                self.harmless = True
                slow = monotonic() - began > _SLOW_SECONDS
                if not single or slow or attempt == _TRIES:
                    return None
            except ModelError as error:
                self.refusal = error
                return None
            else:
                self.calls += batch.calls
                self.tokens += batch.tokens
                return batch.vectors
        return None

    async def one_by_one(self, contents: Sequence[str]) -> Sequence[Vector] | None:
        """The vectors of contents that are refused together, of their beginnings if need be."""
        found: list[Vector] = []
        for content in contents:
            text = content
            # A single content was refused as a whole.
            vectors = await self.vectors([text]) if len(contents) > 1 else None
            while vectors is None and len(text) > _SHORTEST_CUT:
                text = text[: len(text) // 2]
                vectors = await self.vectors([text])
            if vectors is None:
                return None
            found += vectors
        return found

    async def _embed(self, contents: Sequence[str]) -> EmbeddingBatch:
        left = None if self._deadline is None else max(self._deadline - monotonic(), 0.0)
        return await self._embedder.embed(contents, timeout=left)


async def embed_next(
    database: Database,
    embedder: Embedder,
    find: Callable[[Connection], Awaitable[Sequence[EmbeddableText]]],
    keep: Keep,
    *,
    charge: Keep | None = None,
) -> Sequence[EmbeddableText]:
    """Embed the texts that `find` returns, and store their vectors.

    `keep` stores the vectors in a transaction that holds the users' rows, each only for words that
    are still those it was computed from. `charge` charges for the batch, whether or not its vectors
    can be stored.

    Returns:
        The texts found; none: nothing is left.

    Raises:
        ModelError: See `embed`; also after an outage in the middle, once the rest is stored.
    """
    texts = await database.run(find, timeout=SECONDS, repeatable=True)
    if not texts:
        return texts
    made = await embed(embedder, {text: text.contents for text in texts})

    if charge is not None:
        await database.transact(lambda connection: charge(connection, made), timeout=SECONDS)

    async def work(connection: Connection) -> None:
        await users.lock_all(connection, [text.scope for text in made.vectors])
        await keep(connection, made)

    await database.transact(work, timeout=SECONDS)
    if made.outage is not None:
        raise made.outage
    return texts
