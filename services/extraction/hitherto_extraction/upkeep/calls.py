"""Decay and retention on demand: implements their calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hitherto_extraction.job_calls import StartedUpkeep, starting
from hitherto_extraction.once import IdempotentOperation
from hitherto_shared.database.pool import Connection, Database


class CountableUpkeep(Protocol):
    """Upkeep that can report what it would do."""

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would do now, by name."""
        ...


class UpkeepOnDemand:
    """Starts upkeep. The role is hitherto_maintenance, which may read across users."""

    def __init__(
        self, database: Database, kinds: Mapping[str, CountableUpkeep], *, max_attempts: int
    ) -> None:
        """Work on `database`; `kinds` are the kinds of jobs there are."""
        self.database = database
        self._kinds = kinds
        self._max_attempts = max_attempts

    def start(
        self, kind: str, tenant_id: str, *, user_id: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedUpkeep]:
        """A call of RunDecay or RunRetention; see `starting`."""
        return starting(
            kind,
            tenant_id,
            user_id=user_id,
            dry_run=dry_run,
            count=lambda connection: self._kinds[kind].count(connection, tenant_id, user_id),
            max_attempts=self._max_attempts,
        )
