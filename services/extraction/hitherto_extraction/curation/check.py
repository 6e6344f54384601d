"""Checks what a saved memory contradicts, with one model call.

`SaveMemory` calls no model, so that it returns at once. The job that it queues puts the statement
to the model as if it had just been said. Only contradictions and achieved goals in the answer
count, and in all of them the saved memory is the successor, unless it began earlier: then it ends
where the next one begins. They pass the rules of every reply: guards, limits, trust. The check runs
even if learning is switched off, because the statement was saved on purpose; it does not run if
memory is off.

If the memory is forgotten or reworded during the call, the answer has no effect. If nothing else is
known, there is no call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.pipeline.answer import Answer, ClosedItem
from hitherto_extraction.pipeline.batch_outcome import BatchOutcome
from hitherto_extraction.pipeline.caps import Changes
from hitherto_extraction.pipeline.commit import room_of
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.extraction import Extraction
from hitherto_extraction.pipeline.extraction_prompt import ExtractionPrompt, read_prompt
from hitherto_extraction.pipeline.operations import Closure, Occasion, Plan, Situation
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.pipeline.trust import outranks
from hitherto_extraction.pipeline.write import write_plan
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue import attempts, claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import known_memories, ledger, users
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.user_key import key_of
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import keys_at_hand
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.offloading import in_thread

_SECONDS = 30.0
_SAVED = 0
"""Index of the saved memory in the plan."""
_SPEAKERS = {"operator": "user", "document": "tool"}
"""The role that an origin without a role has in the prompt."""


@dataclass(frozen=True, slots=True)
class _Question:
    """The memory to check, and what the model is shown."""

    saved: CurrentMemory
    asked: ExtractionPrompt


@dataclass(frozen=True, slots=True)
class Check:
    """Runs extraction jobs that name a memory instead of messages; the role is hitherto_write.

    `memory_enabled` applies to users who did not choose, and `daily_changes` is as for `Commit`.
    """

    database: Database
    extraction: Extraction
    memory_enabled: bool
    keys: UserKeys
    daily_changes: int

    async def run(self, held: Claim) -> None:
        """Check one memory; one that is gone or no longer current contradicts nothing.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            ModelError: The model gave no usable answer.
            KeyUnavailable: The user has encryption on, and the key is unavailable.
            KeyServiceUnavailable: The same, temporarily.
        """
        with keys_at_hand(await key_of(self.database, self.keys, held.scope)):
            await self._run(held)

    async def _run(self, held: Claim) -> None:
        question = await self.database.transact(
            lambda connection: self._open(connection, held), timeout=_SECONDS
        )
        if question is None:
            return
        result, charges = Result.of(held.result), list[Charge]()
        try:
            outcome = await self.extraction.answer(question.asked, "", result, closing_only=True)
            charges = list(outcome.charges)
            await self.database.transact(
                lambda connection: self._commit(connection, held, question.saved, outcome),
                timeout=_SECONDS,
            )
        except Exception as error:
            await self.extraction.account.settle(held, result, charges, error)
            raise

    async def _open(self, connection: Connection, held: Claim) -> _Question | None:
        """The question for the model; None if there is none, and then the job has ended."""
        user = connection.of(held.scope)
        state = await users.read_user(user)
        why = users.why_not_storing(state, self.memory_enabled)
        if await attempts.discard(connection, held, why):
            return None
        memory_id = UUID(str(held.params["memory_id"]))
        saved = await _current(user, memory_id)
        if saved is not None:
            role = _SPEAKERS.get(saved.origin, saved.origin)
            said = StoredMessage(1, "", role, "", saved.content, saved.said_at)
            asked = await read_prompt(user, "", [said], self.extraction.rules, without={memory_id})
            if asked.local_memories:
                return _Question(saved, asked)
        await claims.finish(connection, held, Result.of(held.result).stored())
        return None

    async def _commit(
        self, connection: Connection, held: Claim, asked_about: CurrentMemory, outcome: BatchOutcome
    ) -> None:
        user = connection.of(held.scope)
        state = await users.lock_user(user)
        await claims.hold(connection, held)
        why = users.why_not_storing(state, self.memory_enabled)
        if await attempts.discard(connection, held, why):
            return
        encrypts = users.must_seal(state, held.scope)
        result = outcome.result
        saved = await _current(user, asked_about.memory_id)
        if saved is not None and saved.content == asked_about.content:
            plan = await _plan(user, saved, outcome, daily=self.daily_changes)
            at = await users.database_now(connection)
            occasion = Occasion(held.job_id, None, at, encrypts=encrypts)
            await write_plan(user, occasion, plan, Vectors())
            result = result.with_plan(plan, outcome.answer.dropped)
        await ledger.charge(user, held.job_id, held.kind, outcome.charges)
        await claims.finish(connection, held, result.stored())


async def _current(user: UserRows, memory_id: UUID) -> CurrentMemory | None:
    known = await known_memories.read_known(user, [memory_id])
    found = known.get(memory_id)
    return found if found is not None and found.status == "active" else None


async def _plan(user: UserRows, saved: CurrentMemory, outcome: BatchOutcome, *, daily: int) -> Plan:
    """The memories that end because of the saved memory."""
    said = StoredMessage(1, "", saved.origin, "", saved.content, saved.said_at)
    answer = outcome.answer
    plan = await in_thread(
        make_plan,
        Situation(
            answer=Answer(
                contradicted=_by_the_saved(answer.contradicted),
                achieved=_by_the_saved(answer.achieved),
            ),
            witnesses=Witnesses("", {"m1": said}),
            local_memories=outcome.local_memories,
            known=await known_memories.read_known(
                user, [saved.memory_id, *outcome.local_memories.values()]
            ),
            neighbours={},
            vectors={},
            threshold=1.0,
            room=await room_of(user, Changes(), daily=daily),
            stated={_SAVED: saved.memory_id},
        ),
    )
    ended = [each for each in plan.closures if each.status == "contradicted"]
    # Both may have begun to hold long before they were saved, perhaps in another order.
    late = [
        each for each in ended if saved.valid_from < each.before.valid_from < each.before.said_at
    ]
    plan.closures = [
        replace(each, valid_to=max(saved.valid_from, each.before.valid_from))
        if each in ended
        else each
        for each in plan.closures
        if each not in late
    ]
    if late:
        _end_late(plan, saved, min(late, key=lambda each: each.before.valid_from))
    return plan


def _end_late(plan: Plan, saved: CurrentMemory, next_one: Closure) -> None:
    """End the saved memory where the next one begins, unless a less trusted source says that."""
    begins = next_one.before.valid_from
    if outranks(saved.origin, next_one.before.origin) or (saved.valid_to or begins) < begins:
        plan.refuse("refused_by_trust_or_time")
        return
    plan.closures.append(
        replace(
            next_one,
            before=saved,
            importance=saved.importance,
            valid_to=begins,
            superseded_by=next_one.before.memory_id,
        )
    )


def _by_the_saved(items: Sequence[ClosedItem]) -> list[ClosedItem]:
    return [replace(item, by=_SAVED, source_ids=None) for item in items]
