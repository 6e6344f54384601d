"""What every reading connection is set to before its first statement."""

from __future__ import annotations

from recollect_shared.database.pool import Connection
from recollect_shared.startup import configure_vectors


async def prepare_session(connection: Connection) -> None:
    """Binary vectors, and a plan made for each question.

    From its tenth or so execution on, Postgres would use one plan for all users and filters. It
    guesses a handful of rows where a user has thousands and joins them by loops: a search over
    2,000 memories then takes 27 ms instead of 4, planning included.
    """
    await configure_vectors(connection)
    await connection.execute("SET plan_cache_mode = force_custom_plan")
