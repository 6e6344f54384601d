"""Records reads of users' data: individually for restricted credentials, counted for services.

Reads of one's own data are not recorded. A restricted credential, of a user or for departments,
belongs to people: each of its reads of another user's data is written to the primary before it is
answered, and is refused if that fails. Services read continuously: their reads are counted by
credential, RPC, user and hour, off the request path (`Counts`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from hitherto_shared.audit.trail import Trail
from hitherto_shared.database import audit_log
from hitherto_shared.database.counts import Counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import Unavailable
from hitherto_shared.rpc.call import current_call
from hitherto_shared.rpc.repeated_lines import call_lines

logger = logging.getLogger("hitherto.audit")

_WRITE_SECONDS = 5.0

_Key = tuple[str, str, str]
"""Credential, RPC and user."""


class AuditedReads:
    """Records reads. The database is the primary, even if reads go to a replica."""

    def __init__(self, database: Database, trail: Trail) -> None:
        self._database = database
        self._trail = trail
        self._counts: Counts[_Key] = Counts(database, self._write, logger, "counts of reads")
        self.start = self._counts.start
        self.stop = self._counts.stop
        self.flush = self._counts.flush

    async def note(self, user_ids: Iterable[str], *, timeout: float) -> None:
        """Record that the current call reads the data of these users, before it is answered.

        `audit.NOBODY` stands for all users of the tenant at once.

        Raises:
            Unavailable: It could not be recorded within `timeout`, and so must not be answered.
        """
        call = current_call()
        principal = call.principal
        others = [user_id for user_id in user_ids if user_id != principal.user_id]
        if not others:
            return
        if principal.unbound:
            actor = self._trail.actor(principal)
            self._counts.add(
                principal.tenant_id, ((actor, call.method, user_id) for user_id in others)
            )
            return

        async def write(connection: Connection) -> None:
            await self._trail.note_call(connection, dict.fromkeys(others, ()))

        try:
            await self._database.run(write, timeout=min(timeout, _WRITE_SECONDS))
        except Exception as error:
            what = f"a read was refused, unaudited: {type(error).__name__}"
            call_lines.say(logging.WARNING, what, {"tenant_id": principal.tenant_id})
            raise Unavailable(
                "this read of another person's data cannot be recorded in the audit log now, so"
                " it is refused; try again shortly",
                reason="DATABASE_UNAVAILABLE",
                retry_after=1.0,
            ) from None

    async def _write(
        self, connection: Connection, tenant_id: str, counts: Mapping[_Key, int]
    ) -> None:
        reads = {
            (actor, method, self._trail.hash(tenant_id, user_id)): times
            for (actor, method, user_id), times in counts.items()
        }
        await audit_log.count_reads(connection, tenant_id, reads)
