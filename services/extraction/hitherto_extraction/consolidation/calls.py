"""Consolidation on demand: implements Consolidate."""

from __future__ import annotations

from collections.abc import Mapping

from hitherto_extraction.consolidation.runner import Consolidation
from hitherto_extraction.job_calls import StartedUpkeep, starting
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.pipeline.crowded_tags import KIND
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.encryption.at_hand import keys_at_hand
from hitherto_shared.models import Scope


class Consolidations:
    """Starts consolidations. The role is hitherto_maintenance, which may read across users."""

    def __init__(
        self, database: Database, consolidation: Consolidation, *, max_attempts: int
    ) -> None:
        self.database = database
        self._consolidation = consolidation
        self._max_attempts = max_attempts

    async def start(
        self, tenant_id: str, *, user_id: str | None, tag: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedUpkeep]:
        """A call of Consolidate; see `starting`. Counting calls no model."""
        key = None
        if user_id is not None:
            # Before the transaction, because a key-management service may be slow.
            key = await self._consolidation.key_of_names(Scope(tenant_id, user_id))
        asked = {"asked": True, **({} if tag is None else {"tag": tag})}

        async def count(connection: Connection) -> Mapping[str, int]:
            with keys_at_hand(key):
                return await self._consolidation.count(
                    connection, tenant_id, user_id, self._consolidation.wanted(asked)
                )

        return starting(
            KIND,
            tenant_id,
            user_id=user_id,
            dry_run=dry_run,
            count=count,
            max_attempts=self._max_attempts,
            params=asked,
        )
