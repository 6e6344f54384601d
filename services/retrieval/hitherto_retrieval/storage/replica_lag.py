"""How far a replica is behind, for the metrics of an operator."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from hitherto_shared import metrics, tasks
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import HithertoError

logger = logging.getLogger("hitherto.readers")

_EVERY_SECONDS = 15.0
_TIMEOUT_SECONDS = 5.0

# A standby that has replayed everything it received shows no age, because an idle primary sends
# nothing to replay, unless it has lost its connection: then nobody knows what it misses.
_LAG = """
SELECT CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN EXISTS (SELECT FROM pg_stat_wal_receiver)
         AND pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
    ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END::float8
"""


@asynccontextmanager
async def lag_shown(replica: Database) -> AsyncIterator[None]:
    """Write the lag of a replica into the metrics meanwhile, every 15 seconds."""
    task = asyncio.create_task(_measure_again_and_again(replica), name="replica-lag")
    try:
        yield
    finally:
        await tasks.cancel(task)


async def _measure_again_and_again(replica: Database) -> None:
    while True:
        await measure(replica)
        await asyncio.sleep(_EVERY_SECONDS)


async def measure(replica: Database) -> None:
    """Write the present lag into the metrics."""
    lag = None
    try:
        lag = await replica.run(_lag, timeout=_TIMEOUT_SECONDS, repeatable=True)
    except (HithertoError, psycopg.Error) as error:
        logger.info("the lag of the replica is unknown: %s", type(error).__name__)
    metrics.REPLICA_LAG_SECONDS.labels("replica").set(math.nan if lag is None else lag)


async def _lag(connection: Connection) -> float | None:
    lag = await connection.fetch_value(_LAG, {})
    return None if lag is None else max(0.0, float(lag))
