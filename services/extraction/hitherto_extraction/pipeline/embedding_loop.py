"""Embeds texts that lack vectors, for the back-fill and for re-embedding, whatever the corpus."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hitherto_extraction.storage import users
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.corpus import EmbeddableText, EmbeddedCorpus
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.model_api import ModelError, ModelUnavailable

logger = logging.getLogger("hitherto.backfill")

BATCH = 64
"""Number of texts that are read, embedded and written together."""
SECONDS = 30.0
_PATIENCE = 3
"""Number of refused texts, without an accepted one, after which a harmless text is tried."""
_HARMLESS_TEXT = "Hello"

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class EmbeddedBatch(Generic[Item]):
    """What has become of a batch of texts.

    Attributes:
        model: The embedder's name when the batch began: the active model may change meanwhile.
        vectors: The vectors of each text, one for each of its contents.
        refused: Texts that the embedder refuses while it is reachable.
        calls: Number of calls that were answered.
        tokens: Their tokens.
        outage: The outage that prevented the rest, if any.
    """

    model: str
    vectors: dict[Item, Sequence[Vector]] = field(default_factory=dict)
    refused: list[Item] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    outage: ModelUnavailable | None = None


Keep = Callable[[Connection, EmbeddedBatch[EmbeddableText]], Awaitable[None]]


async def embed(embedder: Embedder, texts: Mapping[Item, Sequence[str]]) -> EmbeddedBatch[Item]:
    """Embed texts, in one call if the embedder accepts all of them.

    A batch that is refused is halved, until each text that is refused stands alone. If it accepts
    no text, a harmless one tells whether the embedder is at fault. After an outage the batch holds
    what was embedded before it.

    Args:
        embedder: The embedder.
        texts: The contents of each text.

    Raises:
        ModelUnavailable: The embedder is unreachable; nothing was embedded.
        ModelError: It does not embed a harmless text either.
    """
    made = EmbeddedBatch[Item](embedder.name)
    parts = deque([list(texts)])
    from_the_end = True
    while parts:
        # From both ends, so that texts that are refused do not hide others behind them.
        part = parts.pop() if from_the_end else parts.popleft()
        from_the_end = not from_the_end
        try:
            batch = await embedder.embed([content for item in part for content in texts[item]])
        except ModelUnavailable as error:
            if not made.vectors:
                raise
            made.outage = error
            break
        except ModelError as error:
            middle = len(part) // 2
            if middle:
                parts.appendleft(part[:middle])
                parts.append(part[middle:])
                continue
            logger.warning("the embedder refuses a text: %s", error)
            made.refused += part
            count = len(made.refused)
            if not made.vectors and (count == _PATIENCE or (count < _PATIENCE and not parts)):
                await embedder.embed([_HARMLESS_TEXT])
        else:
            found = iter(batch.vectors)
            made.vectors |= {item: [next(found) for _ in texts[item]] for item in part}
            made.calls += batch.calls
            made.tokens += batch.tokens
    return made


async def embed_next(
    database: Database,
    embedder: Embedder,
    corpus: EmbeddedCorpus,
    find: Callable[[Connection], Awaitable[Sequence[EmbeddableText]]],
    keep: Keep,
    *,
    charge: Keep | None = None,
) -> Sequence[EmbeddableText]:
    """Embed the texts that `find` returns, and store their vectors.

    A vector is stored only for words that are still those it was computed from.

    Args:
        database: With the role hitherto_maintenance.
        embedder: The embedder.
        corpus: The kind of text.
        find: Reads the next texts.
        keep: What is written in the transaction that stores the vectors.
        charge: Charges for the batch, whether or not its vectors can be stored.

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
        await database.run(lambda connection: charge(connection, made), timeout=SECONDS)

    async def work(connection: Connection) -> None:
        await users.lock_all(connection, [text.scope for text in made.vectors])
        await vectors.write(connection, corpus, made.vectors, model=made.model)
        await keep(connection, made)

    await database.transact(work, timeout=SECONDS)
    if made.outage is not None:
        raise made.outage
    return texts
