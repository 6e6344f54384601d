"""Which model's vectors answer searches is recorded in the database, not in configuration.

A service embeds with that model if it has a way to it (`registry`); otherwise it says why it has
not and does without.
"""

from __future__ import annotations

from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Embedder

_ACTIVE = "SELECT model, dimensions FROM embedding_models WHERE active"

_REGISTER = """
INSERT INTO embedding_models (model, dimensions)
VALUES (%(model)s, %(dimensions)s)
ON CONFLICT (model) DO NOTHING
"""

# The first model to come becomes the active one; a later one is switched to on purpose.
_ACTIVATE_FIRST = """
UPDATE embedding_models SET active = true, activated_at = clock_timestamp()
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
