"""Previews what a transcript would teach, by an extraction that is rolled back.

Before each call, and for the reply, everything learnt so far is written in a short transaction that
is rolled back, by the code that writes it for a job. Only the cost remains, under the kind
`preview`; for an unknown user, it is charged to the tenant alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeVar
from uuid import UUID

from hitherto_extraction.budget import Budget, BudgetSpent
from hitherto_extraction.pipeline.commit import BatchOutcome, Commit
from hitherto_extraction.pipeline.extraction import Extraction
from hitherto_extraction.pipeline.extraction_prompt import ExtractionPrompt, read_prompt
from hitherto_extraction.pipeline.model_call import TooMuch, halves
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue.attempts import WHY_NOT
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import (
    conversations,
    editing,
    ledger,
    mentions,
    profiles,
    summaries,
    users,
)
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.transcripts import IncomingTranscript, store_messages
from hitherto_extraction.user_key import with_keys
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import Exhausted, TooLate, Unavailable, WrongState
from hitherto_shared.identifiers import uuid7
from hitherto_shared.model_api import (
    ModelError,
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from hitherto_shared.models import Entity, Memory, Profile, Scope, Summary

logger = logging.getLogger("hitherto.preview")

SECONDS = 60.0
"""Time limit of a preview."""
KIND = "preview"
_STATEMENT_SECONDS = 10.0
_LAST_SECONDS = 5.0
"""Time reserved for the reply; a fifth of the time if that is less."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class PreviewResult:
    """What a transcript would teach: memories in their new state, new ones with provisional ids.

    `contradicted` would be closed. `profile` is None if it would not change, `summary` if there is
    none. `entities` tells whether each would be new; `result` is as a job would report it.
    """

    created: list[Memory]
    updated: list[Memory]
    contradicted: list[Memory]
    achieved: list[Memory]
    profile: Profile | None
    summary: Summary | None
    entities: list[tuple[Entity, bool]]
    result: Result


@dataclass(slots=True)
class _PreviewRun:
    """One preview: the replies so far, their cost, and what the last rehearsal wrote of them.

    Attributes:
        pending: What is left to read, call by call; None before the first rehearsal.
        known_version: The profile's version before the rehearsal.
    """

    scope: Scope
    transcript: IncomingTranscript
    job_id: UUID = field(default_factory=uuid7)
    outcomes: list[BatchOutcome] = field(default_factory=list)
    wasted: list[Charge] = field(default_factory=list)
    pending: deque[list[StoredMessage]] | None = None
    total: int = 0
    plans: list[Plan] = field(default_factory=list)
    result: Result = field(default_factory=Result)
    known_version: int = 0


@dataclass(eq=False)
class ExtractionPreview:
    """Rehearses extractions. The database role is hitherto_write."""

    database: Database
    extraction: Extraction
    commit: Commit
    _: KW_ONLY
    memory_enabled: bool
    budget: Budget = field(default_factory=Budget)
    keys: UserKeys | None = None

    async def show(
        self, scope: Scope, transcript: IncomingTranscript, *, seconds: float
    ) -> PreviewResult:
        """What the transcript would teach now.

        If the time is too short for a long transcript, only its beginning is shown: the counts
        `messages_read` and `messages_total` of the result tell.

        Raises:
            WrongState: The user was erased or has switched learning off, a known message id came
                with different content, or the model gave no usable answer or refused.
            Exhausted: The tenant's budget for today does not allow for it.
            Unavailable: The model is unreachable.
            TooLate: Not even the first part could be read in time.
            KeyUnavailable: The user has encryption on and the key is unavailable.
            KeyServiceUnavailable: The same, temporarily.
        """
        run = _PreviewRun(scope, transcript)
        try:
            await self._listen(run, seconds - min(_LAST_SECONDS, seconds / 5))
        finally:
            await self._charge(run)
        return await self._rehearse(run, _picture)

    async def _listen(self, run: _PreviewRun, seconds: float) -> None:
        """Send the transcript to the model, part by part, as far as time allows."""
        try:
            async with asyncio.timeout(seconds):
                while (asked := await self._rehearse(run, self._next)) is not None:
                    await self._hear(run, asked)
        except TimeoutError:
            if not run.outcomes:
                raise TooLate(
                    "the model did not answer in time; set a longer deadline, at most "
                    f"{SECONDS:.0f} seconds, or preview a shorter transcript",
                    reason="DEADLINE_EXCEEDED",
                ) from None
            logger.info("the preview ran out of time after %d calls", len(run.outcomes))
        except (ModelRefused, ModelMisconfigured) as error:
            raise WrongState(
                f"the language model rejects the request: {error}; check the service's settings",
                reason="MODEL_REFUSED",
                metadata={"model": self.extraction.chat.model, "status": str(error.status)},
            ) from error
        except ModelUnavailable as error:
            raise Unavailable(
                "the language model cannot be reached; try again shortly",
                reason="MODEL_UNAVAILABLE",
                metadata={"model": self.extraction.chat.model},
                retry_after=error.retry_after or 5.0,
            ) from error
        except ModelMisbehaved as error:
            raise WrongState(
                f"the language model gave no usable answer: {error}; try again or another model",
                reason="MODEL_UNUSABLE",
                metadata={"model": self.extraction.chat.model},
            ) from error

    async def _next(self, connection: Connection, run: _PreviewRun) -> ExtractionPrompt | None:
        """The prompt for the next part; None if there is none, or no budget for it."""
        if not run.pending or not await self._may_spend(connection, run):
            return None
        conversation_id, rules = run.transcript.conversation_id, self.extraction.rules
        return await read_prompt(connection.of(run.scope), conversation_id, run.pending[0], rules)

    async def _may_spend(self, connection: Connection, run: _PreviewRun) -> bool:
        """Whether the budget allows for a further call; raises an error if there was none yet."""
        try:
            await self.budget.require(connection, run.scope.tenant_id, KIND)
        except BudgetSpent as error:
            if run.outcomes:
                return False
            raise Exhausted(
                f"there is no budget left for previews today: {error}",
                reason="BUDGET_EXHAUSTED",
                metadata={"daily_budget_usd": f"{error.daily_usd.normalize():f}"},
                retry_after=error.seconds_left,
            ) from error
        return True

    async def _hear(self, run: _PreviewRun, asked: ExtractionPrompt) -> None:
        assert run.pending
        batch = run.pending.popleft()
        try:
            outcome = await self.extraction.answer(
                asked, run.transcript.conversation_id, run.result, run.wasted
            )
        except (TooMuch, ModelError) as error:
            run.wasted += self.extraction.prices.wasted("extraction", error.spent)
            if isinstance(error, ModelError):
                raise
            run.pending.extendleft(reversed(halves(batch)))
            return
        run.wasted = []
        run.outcomes.append(outcome)

    async def _rehearse(
        self,
        run: _PreviewRun,
        look: Callable[[Connection, _PreviewRun], Awaitable[Found]],
    ) -> Found:
        """Write all replies so far, read the result, and roll back."""

        async def work(connection: Connection) -> Found:
            async with connection.transaction(force_rollback=True):
                await self._play(connection.of(run.scope), run)
                return await look(connection, run)

        return await with_keys(
            self.keys, [run.scope], lambda: self.database.run(work, timeout=_STATEMENT_SECONDS)
        )

    async def _play(self, user: UserRows, run: _PreviewRun) -> None:
        scope, transcript = run.scope, run.transcript
        state = await users.enter_user(user)
        if why := users.why_not_learning(state, self.memory_enabled):
            raise WrongState(WHY_NOT[why], reason=why, metadata={"user_id": scope.user_id})
        await users.lock_user(user)
        run.known_version = (await profiles.read_profile(user))[0].version
        stored = await store_messages(
            user,
            transcript.conversation_id,
            transcript.messages,
            "transcript.messages",
            time_zone=transcript.time_zone,
        )
        first_no = stored.before.last_message_no + 1
        if run.pending is None:
            messages = await conversations.read_messages(
                user, transcript.conversation_id, first_no, stored.last_message_no
            )
            run.pending, run.total = self.extraction.batches(messages), len(messages)
        # In place of the job that does not exist.
        claim = Claim(
            job_id=run.job_id,
            claim_no=0,
            kind=KIND,
            tenant_id=scope.tenant_id,
            user_id=scope.user_id,
            conversation_id=transcript.conversation_id,
            range_from=first_no,
            range_to=None,
            done_to=None,
            attempt=1,
            max_attempts=1,
            result={},
            params={},
        )
        run.result, run.plans = Result(), []
        for outcome in run.outcomes:
            run.result, plan = await self.commit.learn(user, claim, outcome)
            run.plans.append(plan)

    async def _charge(self, run: _PreviewRun) -> None:
        """Charge the calls, even if the preview fails."""
        charges = [charge for outcome in run.outcomes for charge in outcome.charges]
        charges += run.wasted
        if not charges:
            return

        async def work(connection: Connection) -> None:
            payer = await ledger.payer(connection.of(run.scope))
            await ledger.charge(payer, run.job_id, KIND, charges)

        await self.database.transact(work, timeout=_STATEMENT_SECONDS)


async def _picture(connection: Connection, run: _PreviewRun) -> PreviewResult:
    """The state that the rehearsal produced."""
    scope, conversation_id = run.scope, run.transcript.conversation_id
    created = _ids(made.memory_id for plan in run.plans for made in plan.creations)
    closed = {
        closure.before.memory_id: closure.action for plan in run.plans for closure in plan.closures
    }
    changed = (change.before for plan in run.plans for change in plan.rewrites)
    updated = _ids(before.memory_id for before in changed if before.memory_id not in closed)
    user = connection.of(scope)
    rows = await editing.read(user, [*created, *updated, *closed])
    profile, _ = await profiles.read_profile(user)
    summary = (await summaries.read(user, conversation_id)).summary
    if summary is not None:
        count = await conversations.count_messages(user, conversation_id)
        summary = replace(summary, message_count=count)
    mentioning = _ids(memory_id for plan in run.plans for memory_id, _ in plan.mentions)
    read = sum(len(outcome.witnesses.messages) for outcome in run.outcomes)
    return PreviewResult(
        created=[rows[memory_id].memory for memory_id in created],
        updated=[rows[m].memory for m in updated if m not in set(created)],
        contradicted=[rows[m].memory for m, how in closed.items() if how == "contradicted"],
        achieved=[rows[m].memory for m, how in closed.items() if how == "achieved"],
        profile=profile if profile.version != run.known_version else None,
        summary=summary,
        entities=await mentions.entities_of(user, mentioning),
        result=replace(
            run.result,
            counts={**run.result.counts, "messages_read": read, "messages_total": run.total},
        ),
    )


def _ids(found: Iterable[UUID]) -> list[UUID]:
    return list(dict.fromkeys(found))
