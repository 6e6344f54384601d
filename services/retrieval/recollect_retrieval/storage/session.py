"""What every reading connection is set to before its first statement."""

from __future__ import annotations

from recollect_shared.database.pool import Connection
from recollect_shared.startup import configure_vectors


async def prepare_session(connection: Connection) -> None:
    """Binary vectors, and one plan per statement.

    Left to itself, Postgres plans a statement anew for each user and set of filters as long as that
    looks cheaper, which costs up to a millisecond each time. Statements whose best plan does depend
    on their parameters say so (`Statement.planned_anew`): with the plan for nobody in particular a
    filtered search over 2,000 memories takes 28 ms instead of 9.
    """
    await configure_vectors(connection)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
