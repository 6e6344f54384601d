"""Counts which memories were returned (D11), off the request path."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import UUID

from hitherto_retrieval.storage.access import count_access
from hitherto_shared.database.counts import Counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope

_Key = tuple[str, UUID]
"""User and memory."""


class AccessCounter:
    """Collects and writes counts. The database is the primary, even if reads go to a replica."""

    def __init__(self, database: Database) -> None:
        self._counts: Counts[_Key] = Counts(
            database, _write, logging.getLogger("hitherto.accesses"), "access counts"
        )
        self.start = self._counts.start
        self.stop = self._counts.stop

    def told(self, scope: Scope, memory_ids: Iterable[UUID]) -> None:
        """Record that an answer contained memories."""
        self._counts.add(scope.tenant_id, [(scope.user_id, each) for each in memory_ids])


async def _write(connection: Connection, tenant_id: str, counts: Mapping[_Key, int]) -> None:
    await count_access(connection, tenant_id, [(*key, times) for key, times in counts.items()])
