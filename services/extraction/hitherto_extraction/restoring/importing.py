"""Runs imports, a few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from hitherto_extraction.curation.user_settings import UserSettings
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.restoring.call import ImportCall, Imported
from hitherto_extraction.restoring.one_import import OneImport
from hitherto_extraction.upkeep.table_statistics import TableStatistics
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import Exhausted
from hitherto_shared.shares import Owner, Shares

AT_ONCE = 8
"""Imports in one process; each holds up to a few lines of 16 MiB in memory."""
_OF_TENANT = 0.5
_OF_PERSON = 0.25
"""The share of the tenant's imports that one person may run: one."""
_RETRY_SECONDS = 5.0
_STATISTICS_SECONDS = 10.0


@dataclass(slots=True)
class Importing:
    """Imports, a few at a time.

    The role of `database` is hitherto_write. `installation` holds the settings of users who did not
    choose. `statistics` are refreshed before an import ends, for the first questions about the
    user.
    """

    database: Database
    trail: Trail
    keys: UserKeys
    installation: UserSettings
    queue: JobQueue
    statistics: TableStatistics
    message_vectors: bool
    _running: Shares = field(default_factory=lambda: Shares(AT_ONCE, _OF_TENANT, _OF_PERSON))

    async def run(self, call: ImportCall, pieces: AsyncIterator[bytes]) -> Imported:
        """Import the pieces of an export.

        Raises:
            InvalidRequest: A record is invalid; groups before its own stay.
            WrongState: The user holds other data, was erased, or has memory switched off.
            NotPermitted: A person's credential imports statements of the operator.
            Exhausted: Too many imports are running here, or of the tenant or the person.
            TooLate: The deadline passed; what was stored stays.
            EncryptionNotConfigured: The export's user had encryption on, and there is no key here.
            KeyServiceUnavailable: A key-management service does not answer.
        """
        owner = Owner(call.principal.tenant_id, call.principal.user_id)
        if lacking := self._running.lacking(owner):
            whose = {
                "all": "",
                "tenant": " of this tenant",
                "person": " with this user's credential",
            }
            raise Exhausted(
                f"too many imports{whose[lacking]} are running: try again later",
                reason="OVERLOADED",
                retry_after=_RETRY_SECONDS,
            )
        self._running.take(owner)
        try:
            made = OneImport(
                self.database,
                self.trail,
                self.keys,
                self.installation,
                call,
                self.queue,
                message_vectors=self.message_vectors,
            )
            imported = await made.run(pieces)
            await self.statistics.refresh(min(_STATISTICS_SECONDS, call.left()))
            return imported
        finally:
            self._running.give_back(owner)
