"""Charges what a failed attempt spent, and stores its unusable reply.

A call with a result is charged in the transaction that writes the result. Two kinds of calls are
not counted: one in progress when a worker stops or dies, because its outcome is unknown, and one
whose commit ended in doubt.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.pipeline.job_commit import is_in_doubt
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.queue import attempts
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage import ledger, unusable_replies
from hitherto_extraction.storage.unusable_replies import KeptReply
from hitherto_extraction.user_key import key_of
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import KeyNeeded, keys_at_hand
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import HithertoError
from hitherto_shared.model_api import ModelError, ModelMisbehaved
from hitherto_shared.models import Scope
from hitherto_shared.sealing import Sealer

logger = logging.getLogger("hitherto.account")

MAX_REPLY_BYTES = 64 * 1024
_SECONDS = 10.0
_STAGES = ("consolidation", "reconciliation")
"""Kinds of jobs whose calls are a stage of their own in the ledger."""


class UnusableReplies:
    """Seals and opens replies with the installation's secret, each bound to one job of one user."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "unusable-reply")

    def seal(self, scope: Scope, job_id: UUID, reply: str) -> str:
        """The reply, cut to `MAX_REPLY_BYTES`, as stored in the database."""
        return self._sealer.seal({"reply": _cut(reply)}, _bound_to(scope, job_id))

    def open(self, scope: Scope, job_id: UUID, sealed: str) -> str:
        """Open what `seal` sealed; a BrokenToken if with another secret, or if it was moved."""
        return str(self._sealer.open(sealed, _bound_to(scope, job_id))["reply"])

    async def read(self, connection: Connection, tenant_id: str, job_id: UUID) -> list[KeptReply]:
        """The stored replies of a job's attempts, the first one first; errors as of `open`.

        Raises:
            KeyNeeded: It was sealed with the key of a user that is not at hand.
        """
        return [
            replace(each, reply=self.open(Scope(tenant_id, each.user_id), job_id, each.reply))
            for each in await unusable_replies.find(connection, tenant_id, job_id)
        ]


def _cut(reply: str) -> str:
    return reply.encode("utf-8", "replace")[:MAX_REPLY_BYTES].decode("utf-8", "ignore")


@dataclass(eq=False)
class FailedAttempts:
    """Settles failed attempts. The database role is hitherto_write."""

    database: Database
    prices: Prices
    replies: UnusableReplies
    keys: UserKeys | None = None

    async def settle(
        self,
        held: Claim,
        result: Result,
        charges: Sequence[Charge],
        error: Exception,
        *,
        scope: Scope | None = None,
    ) -> Result:
        """Charge what was spent since the last commit, and store the unusable reply.

        Call it with the error that ended a model call or its commit; the spending that the error
        itself reports is added. It does not wait for an unreachable database.

        `result` is the job's as last committed, without `charges`, which were spent since. `scope`
        is the user concerned, if the job concerns all users of a tenant.

        Returns:
            The result with the charges, as stored with the job.
        """
        about = scope or held.scope
        reply = error.reply if isinstance(error, ModelMisbehaved) else ""
        stage = held.kind if held.kind in _STAGES else "extraction"
        spent = error.spent if isinstance(error, ModelError) else ()
        charges = [*charges, *self.prices.wasted(stage, spent)]
        met = (isinstance(error, ClaimLost) and error.__cause__) or error
        if is_in_doubt(faults.translate(met)) or not (charges or reply):
            # If in doubt, the commit succeeded, and the charges with it.
            return result
        charged = result.with_charges(charges)
        key = await self._key(about) if reply else None

        async def work(connection: Connection) -> None:
            user = connection.of(about)
            payer = await ledger.payer(user)
            await ledger.charge(payer, held.job_id, held.kind, charges)
            if reply and payer.scope == about:
                await self._keep(user, held, reply)
            await attempts.record_spending(connection, held, charged.stored())

        with faults.Tolerated(logger, "cannot charge the cost of an attempt"), keys_at_hand(key):
            await self.database.transact(work, timeout=_SECONDS)
            return charged
        return result

    async def _key(self, scope: Scope) -> UserKey | None:
        try:
            return await key_of(self.database, self.keys, scope)
        except HithertoError as error:
            logger.warning("no key to store a model's reply: %s", error.reason)
            return None

    async def _keep(self, user: UserRows, held: Claim, reply: str) -> None:
        """Store a reply sealed.

        Not at all if the user has encryption on and the key is unavailable.
        """
        sealed = self.replies.seal(user.scope, held.job_id, reply)
        with suppress(KeyNeeded):
            await unusable_replies.keep(user, held.job_id, held.claim_no, sealed)


def _bound_to(scope: Scope, job_id: UUID) -> list[str]:
    return [scope.tenant_id, scope.user_id, str(job_id)]
