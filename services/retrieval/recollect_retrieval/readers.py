"""Which database a read goes to: a replica if there is one and it is fresh enough, else primary."""

from __future__ import annotations

from collections.abc import Awaitable

from recollect_shared.consistency import ConsistencyTokens, has_seen
from recollect_shared.database.pool import Connection, Database


class Readers:
    """The primary and perhaps a replica."""

    def __init__(
        self, primary: Database, replica: Database | None, tokens: ConsistencyTokens
    ) -> None:
        self._primary = primary
        self._replica = replica
        self._tokens = tokens

    async def choose(self, token: str, tenant_id: str, *, timeout: float) -> Database:
        """The database for a call that carries `token`, or none.

        Raises:
            InvalidRequest: The token is not of this deployment and tenant.
        """
        position = self._tokens.open(token, tenant_id) if token else None
        if self._replica is None:
            return self._primary
        if position is None:
            return self._replica

        def look(connection: Connection) -> Awaitable[bool]:
            return has_seen(connection, position)

        fresh = await self._replica.run(look, timeout=timeout, repeatable=True)
        return self._replica if fresh else self._primary
