"""Statistics of tables that have grown: without them, Postgres reads a user's rows for each."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic

from hitherto_extraction.storage import upkeep
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Database

logger = logging.getLogger("hitherto.extraction")

STATISTICS_SECONDS = 1.0
"""The interval at which all tables are looked at, which takes Postgres a millisecond."""
_ONE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Keeps the statistics of all tables. The role is hitherto_maintenance."""

    database: Database

    async def refresh_one(self, timeout: float = _ONE_SECONDS) -> bool:
        """Analyse a table that has grown, within `timeout` seconds; False if none has."""
        table = await self.database.run(upkeep.analyse_grown, timeout=timeout)
        if table:
            logger.info("analysed a table", extra={"table": table})
        return bool(table)

    async def refresh_shards(self, timeout: float = _ONE_SECONDS) -> bool:
        """The same for a shard on each node of a cluster, to which it connects anew.

        False also if one of them fails: it would keep each next one waiting.
        """
        nodes = await self.database.run(upkeep.analyse_grown_shards, timeout=timeout)
        for each in nodes:
            if each.succeeded:
                logger.info("analysed a table", extra={"node": each.node, "table": each.said})
            else:
                why = {"node": each.node, "said": each.said}
                logger.warning("a node's tables are analysed later", extra=why)
        return bool(nodes) and all(each.succeeded for each in nodes)

    async def refresh(self, seconds: float) -> None:
        """Analyse every table that has grown, within `seconds`; the next sweep does the rest."""
        ends = monotonic() + seconds
        for one in (self.refresh_one, self.refresh_shards):
            with faults.Tolerated(logger, "tables are analysed later"):
                while (left := ends - monotonic()) > 0 and await one(left):
                    pass
