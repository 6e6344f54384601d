"""The active model, whose vectors answer searches, and its embedder.

The database, not the configuration, records which model is active. A service embeds with that model
if it can call it (`registry`); otherwise it reports why not and works without vectors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from hitherto_shared import tasks
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.errors import TooLate
from hitherto_shared.model_api import ModelUnavailable

logger = logging.getLogger("hitherto.embeddings")

LOOK_SECONDS = 2.0
"""Interval of reading the active model, in seconds. Code that writes a vector checks it again in
its transaction."""
_REGISTER_SECONDS = 10.0
_CORRECT_SECONDS = 4.0
"""Time limit of correcting a length at the start. No index of vectors begins with their model, so
that looking for the first one can mean reading those of all other models. Below `lock_timeout`."""

_ACTIVE = "SELECT model, dimensions FROM embedding_models WHERE active"

_REGISTER = """
INSERT INTO embedding_models (model, dimensions)
VALUES (%(model)s, %(dimensions)s)
ON CONFLICT (model) DO NOTHING
"""

# A length that no vector has is a mistake in the settings or in a call of Reembed. Left as it is,
# it would keep the model from ever being used.
_CORRECT_LENGTH = """
UPDATE embedding_models SET dimensions = %(dimensions)s WHERE model = %(model)s
"""

# Across users. Citus refuses to read their rows in the statement that changes the model.
_HAS_VECTORS = """
SELECT EXISTS (SELECT 1 FROM memory_embeddings WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM memory_source_embeddings WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM sealed_embeddings WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM document_chunk_embeddings WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM message_embeddings WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM summary_embeddings WHERE model = %(model)s)
"""

_DIMENSIONS = "SELECT dimensions FROM embedding_models WHERE model = %(model)s"

# The first model becomes the active one; a later one requires an explicit switch.
_ACTIVATE_FIRST = """
UPDATE embedding_models SET active = true, activated_at = statement_timestamp()
WHERE model = %(model)s AND NOT EXISTS (SELECT 1 FROM embedding_models WHERE active)
"""


async def active_model(connection: Connection) -> tuple[str, int] | None:
    """Name and dimensions of the active model; None before the first memory."""
    row = await connection.fetch_row(_ACTIVE, ())
    return (row[0], row[1]) if row else None


async def registered_length(connection: Connection, model: str) -> int | None:
    """The length of a model's vectors; None if the model is unknown."""
    length = await connection.fetch_value(_DIMENSIONS, {"model": model})
    return None if length is None else int(length)


async def register_model(connection: Connection, model: str, dimensions: int) -> int:
    """Register a model with the length of its vectors. The role is hitherto_maintenance.

    Returns:
        The registered length: another one if vectors of that length are stored.
    """
    values = {"model": model, "dimensions": dimensions}
    await connection.execute(_REGISTER, values)
    registered = await registered_length(connection, model)
    assert registered is not None
    if registered == dimensions or await connection.fetch_value(_HAS_VECTORS, values):
        return registered
    await connection.execute(_CORRECT_LENGTH, values)
    return dimensions


async def register(connection: Connection, embedder: Embedder) -> None:
    """Register a model unless it is known, and make it active if there is none."""
    values = {"model": embedder.name, "dimensions": embedder.dimensions}
    await connection.execute(_REGISTER, values)
    await connection.execute(_ACTIVATE_FIRST, {"model": embedder.name})


async def _correct_active(connection: Connection, embedder: Embedder) -> None:
    """Correct the registered length of a model if it is active; Reembed does so for others."""
    active = await active_model(connection)
    if active is not None and active[0] == embedder.name:
        await register_model(connection, embedder.name, embedder.dimensions)


class ActiveEmbedder:
    """An embedder that follows the active model.

    If it cannot call that model, it embeds nothing (`ModelUnavailable`): new items wait for their
    vectors as during an outage.
    """

    def __init__(self, database: Database, embedders: Embedders) -> None:
        self._database = database
        self._embedders = embedders
        self._current: Embedder | None = embedders.configured
        self._active = (embedders.configured.name, embedders.configured.dimensions)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the active model, and keep following it."""
        await self._database.run(
            lambda connection: register(connection, self._embedders.configured),
            timeout=_REGISTER_SECONDS,
        )
        try:
            await self._database.run(
                lambda connection: _correct_active(connection, self._embedders.configured),
                timeout=_CORRECT_SECONDS,
            )
        except TooLate:
            logger.warning(
                "this service did not correct the dimensions of %s: it could not tell within "
                "%.0f s whether that model has vectors",
                self._embedders.configured.name,
                _CORRECT_SECONDS,
            )
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="active-embedder")

    async def stop(self) -> None:
        """Stop following."""
        await tasks.cancel(self._task)

    async def refresh(self) -> None:
        """Read the active model now."""
        found = await self._database.run(active_model, timeout=5.0, repeatable=True)
        if found is None or (found == self._active and self._current is not None):
            return
        known = self._current is None and found == self._active
        self._active, self._current = found, self._embedders.find(*found)
        if known:
            return
        if self._current is None:
            logger.error(
                "memories will be stored without vectors: %s", self._embedders.why_not(*found)
            )
        else:
            logger.info("memories are embedded with %s", found[0])

    @property
    def name(self) -> str:
        """The active model's name."""
        return self._active[0]

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return self._active[1]

    @property
    def dedupe_threshold(self) -> float:
        """Its threshold; 1 if it cannot be called."""
        return self._current.dedupe_threshold if self._current is not None else 1.0

    @property
    def offline(self) -> bool:
        """Whether it works on this machine alone."""
        return self._current is not None and self._current.offline

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed with the active model.

        Raises:
            ModelError: As raised by its embedder; ModelUnavailable also if it cannot be called.
        """
        if self._current is None:
            raise ModelUnavailable(self._embedders.why_not(*self._active))
        return await self._current.embed(texts, timeout=timeout)

    async def close(self) -> None:
        """Stop following; whoever created the embedders closes them."""
        await self.stop()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.refresh()
            except Exception as error:
                # The database is down: the model stays unchanged.
                logger.debug("the active model could not be looked up: %s", type(error).__name__)
