"""Signs past days of the audit log, and writes each signature to the service's log.

An attacker who can rewrite the database cannot delete the copy that log shipping has carried away.
"""

from __future__ import annotations

import logging
from datetime import date

from hitherto_extraction.storage import audit
from hitherto_shared.audit.digest import Digest, sign_day, tree_of_day
from hitherto_shared.database import audit_log, faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.signing import Signer

logger = logging.getLogger("hitherto.audit")

HOURS_SECONDS = 60.0
"""Interval of checking whether an hour is over, in seconds."""
_DAYS = 100
_SECONDS = 120.0


class AuditDigests:
    """Closes hours of counted reads and signs days. The role is hitherto_maintenance."""

    def __init__(self, database: Database, signer: Signer) -> None:
        self._database = database
        self._signer = signer

    async def close_hours(self) -> None:
        """Turn the counted reads of past hours into entries."""
        with faults.Tolerated(logger, "closing of audit hours postponed"):
            await self._database.run(audit_log.close_hours, timeout=_SECONDS)

    async def sign(self) -> None:
        """Sign every unsigned past day, the oldest first.

        Safe with many replicas: if two sign the same day, one signature is stored and logged.
        """
        with faults.Tolerated(logger, "signing of the audit log postponed"):
            await self._database.run(audit_log.close_hours, timeout=_SECONDS)
            while days := await self._database.run(
                lambda connection: audit.unsigned_days(connection, limit=_DAYS), timeout=_SECONDS
            ):
                for tenant_id, day in days:
                    await self._sign(tenant_id, day)

    async def _sign(self, tenant_id: str, day: date) -> None:
        async def work(connection: Connection) -> Digest | None:
            tree = await tree_of_day(connection, tenant_id, day)
            digest = sign_day(self._signer, tenant_id, day, tree)
            return digest if await audit.keep_digest(connection, digest) else None

        digest = await self._database.transact(work, timeout=_SECONDS)
        if digest is not None:
            logger.info("a day of the audit log was signed", extra={"digest": digest.as_json()})
