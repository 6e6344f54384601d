"""Who read of whom: what a person reads of others before the reply, what services read in sums.

The own data is nobody else's business and is not written down. A credential that is bound, to a
person or to departments, belongs to people: each read of somebody else's data is written to the
primary before it is answered, and is refused where that cannot be done. Services read for everybody
all day: their reads are counted by credential, call, user and hour, off the request path. Such a
count is lost only if the process dies within a second of it, or while the primary is away for
longer than the buffer lasts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from hitherto_shared.audit.trail import Trail
from hitherto_shared.database import audit_log
from hitherto_shared.database.audit_log import Read
from hitherto_shared.database.counts import Counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import Unavailable
from hitherto_shared.rpc.call import current_call

logger = logging.getLogger("hitherto.audit")

_WRITE_SECONDS = 5.0

_Key = tuple[str, str, str]
"""Credential, call and user."""


class AuditedReads:
    """Writes reads down. The database is the primary, whatever is read from."""

    def __init__(self, database: Database, trail: Trail) -> None:
        self._database = database
        self._trail = trail
        self._counts: Counts[_Key] = Counts(database, self._write, logger, "counts of reads")
        self.start = self._counts.start
        self.stop = self._counts.stop
        self.flush = self._counts.flush

    async def note(self, user_ids: Iterable[str], *, timeout: float) -> None:
        """Note that the call at hand reads the data of these users; before it is answered.

        Args:
            user_ids: Whose data; `audit.NOBODY` for all users of the tenant at once.
            timeout: Seconds until the caller is told that it cannot be written down.

        Raises:
            Unavailable: It could not be written down, and so must not be read.
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
            logger.warning("a read was refused, unaudited: %s", type(error).__name__)
            raise Unavailable(
                "this read of another person's data cannot be recorded in the audit log now, so"
                " it is refused; try again shortly",
                reason="DATABASE_UNAVAILABLE",
                retry_after=1.0,
            ) from None

    async def _write(
        self, connection: Connection, tenant_id: str, counts: Mapping[_Key, int]
    ) -> None:
        reads = [
            (Read(actor, method, self._trail.hash(tenant_id, user_id)), times)
            for (actor, method, user_id), times in counts.items()
        ]
        await audit_log.count_reads(connection, tenant_id, reads)
