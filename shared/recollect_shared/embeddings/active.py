"""Which model's vectors answer searches is recorded in the database, not in configuration.

A service embeds with that model if it can; otherwise it says why it cannot and does without.
"""

from __future__ import annotations

from recollect_shared.database.pool import Connection
from recollect_shared.embeddings.offline import OfflineEmbedder
from recollect_shared.embeddings.protocol import Embedder

_ACTIVE = "SELECT model, dimensions FROM embedding_models WHERE active"

_REGISTER = """
INSERT INTO embedding_models (model, dimensions)
VALUES (%(model)s, %(dimensions)s)
ON CONFLICT (model) DO NOTHING
"""

# The first model to come becomes the active one; a later one is switched to on purpose.
_ACTIVATE_FIRST = """
UPDATE embedding_models SET active = true
WHERE model = %(model)s AND NOT EXISTS (SELECT FROM embedding_models WHERE active)
"""


async def active_model(connection: Connection) -> tuple[str, int] | None:
    """Name and dimensions of the model in force; None before the first memory."""
    cursor = await connection.execute(_ACTIVE)
    row = await cursor.fetchone()
    return (row[0], row[1]) if row else None


async def register(connection: Connection, embedder: Embedder) -> None:
    """Make a model known, and the active one if there is none."""
    values = {"model": embedder.name, "dimensions": embedder.dimensions}
    await connection.execute(_REGISTER, values)
    await connection.execute(_ACTIVATE_FIRST, values)


def fitting(configured: Embedder, active: tuple[str, int] | None) -> tuple[Embedder | None, str]:
    """The embedder for the active model, or None and the reason for which there is none."""
    if active is None or active == (configured.name, configured.dimensions):
        return configured, ""
    offline = OfflineEmbedder()
    if active == (offline.name, offline.dimensions):
        return offline, ""
    return None, (
        f"memories are embedded with {active[0]} ({active[1]} dimensions) and this service is "
        f"configured for {configured.name} ({configured.dimensions}): set the embedder back"
    )
