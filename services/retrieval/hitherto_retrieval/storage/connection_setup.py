"""Settings of every connection of this service."""

from __future__ import annotations

import json
from typing import Any

from psycopg.types.json import set_json_loads

from hitherto_shared.database.arrays import register_arrays
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Connection
from hitherto_shared.startup import configure_vectors


async def prepare_counting(connection: Connection) -> None:
    """Long lists of counts go to Postgres in binary form."""
    register_arrays(connection)


async def prepare_session(connection: PipelineConnection) -> None:
    """For reading: binary vectors, and one plan per statement.

    By default, Postgres plans a statement again for each user and set of filters while that looks
    cheaper, at up to a millisecond each time. It also assumes that a user whom its statistics do
    not know has a single row, and then joins thousands of rows by nested loops; a generic plan
    assumes an average user. Statements whose best plan does depend on their parameters are marked
    (`Statement.planned_anew`). Citus chooses a shard by the values of the parameters, and makes no
    generic plan of most statements.
    """
    await configure_vectors(connection)
    register_arrays(connection)
    set_json_loads(_loads, connection)
    if not connection.is_distributed:
        await connection.keep_setting("plan_cache_mode", "force_generic_plan")


def _loads(data: str | bytes) -> Any:
    """Parses JSON; every second value of a memory is an empty object."""
    return {} if data == b"{}" else json.loads(data)
