"""Puts on the bill what an attempt spent in vain, and keeps the reply that was of no use.

What a call yields is charged in the transaction that writes it. A call that yields nothing is
charged here, in a short transaction of its own: to the ledger, and to `JobResult.usage` as long as
the job is ours. A call under way when a worker stops or dies is not counted: nobody knows whether
it was answered. Nor is one whose commit ended without telling how.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recollect_extraction.pipeline.result import Result
from recollect_extraction.prices import Prices
from recollect_extraction.queue import claims
from recollect_extraction.queue.claims import Claim
from recollect_extraction.storage import ledger, unusable_replies
from recollect_extraction.storage.ledger import Charge
from recollect_shared.database import faults
from recollect_shared.database.pool import Connection, Database
from recollect_shared.errors import RecollectError, TooLate, Unavailable
from recollect_shared.model_api import ModelError, ModelMisbehaved
from recollect_shared.models import Scope
from recollect_shared.sealing import Sealer

logger = logging.getLogger("recollect.account")

MAX_REPLY_BYTES = 64 * 1024
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KeptReply:
    """What a model said in one attempt of a job: text of a user's, for an operator's eyes."""

    claim_no: int
    reply: str
    recorded_at: datetime


class UnusableReplies:
    """Seals and opens replies under the installation's secret, each for one job of one user."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "unusable-reply")

    def seal(self, scope: Scope, job_id: UUID, reply: str) -> str:
        """The reply, cut to `MAX_REPLY_BYTES`, as the database keeps it."""
        cut = reply.encode("utf-8", "replace")[:MAX_REPLY_BYTES].decode("utf-8", "ignore")
        return self._sealer.seal({"reply": cut}, _bound_to(scope, job_id))

    def open(self, scope: Scope, job_id: UUID, sealed: str) -> str:
        """What `seal` sealed.

        Raises:
            BrokenToken: It was sealed under another secret (RECOLLECT_SECRET_FILE), or moved.
        """
        return str(self._sealer.open(sealed, _bound_to(scope, job_id))["reply"])

    async def read(self, connection: Connection, tenant_id: str, job_id: UUID) -> list[KeptReply]:
        """What is kept of a job's attempts, the first one first.

        Raises:
            BrokenToken: It was sealed under another secret (RECOLLECT_SECRET_FILE), or moved.
        """
        return [
            KeptReply(
                each.claim_no,
                self.open(Scope(tenant_id, each.user_id), job_id, each.sealed),
                each.recorded_at,
            )
            for each in await unusable_replies.find(connection, tenant_id, job_id)
        ]


class Account:
    """Settles attempts that failed. The database's role is recollect_write."""

    def __init__(self, database: Database, prices: Prices, replies: UnusableReplies) -> None:
        self._database = database
        self._prices = prices
        self._replies = replies

    async def settle(
        self,
        held: Claim,
        result: Result,
        charges: Sequence[Charge],
        error: Exception,
        *,
        scope: Scope | None = None,
    ) -> Result:
        """Charge what was spent since the last commit, and keep the reply that was of no use.

        Call it with the error that a call of the model or its commit ended with; what the error
        itself says was spent is added. A database that is out of reach is not waited for.

        Args:
            held: The job.
            result: Its result as last committed, without these charges.
            charges: What was spent since.
            error: What went wrong.
            scope: Whom it was about, if the job is about all users of a tenant.

        Returns:
            The result with the charges, as the job's row has it.
        """
        about = scope or held.scope
        reply = error.reply if isinstance(error, ModelMisbehaved) else ""
        charges = [*charges, *self._wasted(held, error)]
        told = error if isinstance(error, RecollectError) else faults.translate(error)
        if isinstance(told, TooLate | Unavailable) or not (charges or reply):
            # In doubt the commit went through, and with it the charges.
            return result
        spent = result.with_charges(charges)

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                payer = await ledger.payer(connection, about)
                await ledger.charge(connection, payer, held.job_id, held.kind, charges)
                if reply and payer == about:
                    sealed = self._replies.seal(payer, held.job_id, reply)
                    await unusable_replies.keep(
                        connection, payer, held.job_id, held.claim_no, sealed
                    )
                await claims.record_spending(connection, held, spent.stored())

        try:
            await self._database.run(work, timeout=_SECONDS)
        except Exception as failure:
            if not isinstance(failure, RecollectError) and faults.translate(failure) is None:
                raise
            logger.warning("what an attempt cost is not on the bill: %s", type(failure).__name__)
            return result
        return spent

    def _wasted(self, held: Claim, error: Exception) -> list[Charge]:
        stage = "consolidation" if held.kind == "consolidation" else "extraction"
        return [
            Charge(
                stage,
                each.model,
                each.calls,
                each.input_tokens,
                each.output_tokens,
                self._prices.cost(
                    each.model, input_tokens=each.input_tokens, output_tokens=each.output_tokens
                ),
            )
            for each in (error.spent if isinstance(error, ModelError) else ())
        ]


def _bound_to(scope: Scope, job_id: UUID) -> list[str]:
    return [scope.tenant_id, scope.user_id, str(job_id)]
