"""What the embedding of questions used, for the extraction service to charge (B14)."""

from __future__ import annotations

from hitherto_shared.database.pool import Connection

_ADD = """
INSERT INTO query_usage (tenant_id, model, calls, tokens)
VALUES (%(tenant_id)s, %(model)s, %(calls)s, %(tokens)s)
ON CONFLICT (tenant_id, model) DO UPDATE
SET calls = query_usage.calls + EXCLUDED.calls, tokens = query_usage.tokens + EXCLUDED.tokens
"""


async def add(
    connection: Connection, tenant_id: str, model: str, *, calls: int, tokens: int
) -> None:
    """Add to what is to be charged to a tenant for questions that `model` embedded."""
    await connection.execute(
        _ADD, {"tenant_id": tenant_id, "model": model, "calls": calls, "tokens": tokens}
    )
