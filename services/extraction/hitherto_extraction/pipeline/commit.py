"""The worker's last transaction: writes everything that one model call yields, or nothing.

It locks the user's row first (the fence against an erasure, and the queue of this user's writers),
then the job's (the fence against a lost claim). It repeats the duplicate search under that lock,
and writes memories, profile, summary, statements, history, usage and progress together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import behaviour, conversation_summary
from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.caps import DAILY_CHANGES, ChangeAllowance, Changes
from hitherto_extraction.pipeline.crowded_tags import Crowding
from hitherto_extraction.pipeline.draft import Situation
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.job_commit import CommittedBefore, commit, may_continue, record
from hitherto_extraction.pipeline.nearby_memories import look_around, own_names, reviewed
from hitherto_extraction.pipeline.operations import Occasion, Plan, Refused
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.pipeline.profile_changes import ProfileState, ValueChange, learn
from hitherto_extraction.pipeline.quality_sample import check
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.resting_values import write_state
from hitherto_extraction.pipeline.result import SECRETS_REDACTED, Result
from hitherto_extraction.pipeline.source_statements import of_profile, of_summary
from hitherto_extraction.pipeline.summarise import SummaryFields
from hitherto_extraction.pipeline.write import write_plan
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.reconciliation.open_questions import open_questions
from hitherto_extraction.reconciliation.trigger import Reconciling
from hitherto_extraction.storage import (
    conversations,
    known_memories,
    ledger,
    preferences,
    profiles,
    statements,
    summaries,
    users,
)
from hitherto_extraction.storage.sealed_rows import sealing_key
from hitherto_extraction.storage.statements import NewStatement
from hitherto_extraction.storage.summaries import HeldSummary
from hitherto_shared.database.pool import Database
from hitherto_shared.database.together import kept, together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import KeyNeeded
from hitherto_shared.errors import WorkTooLong
from hitherto_shared.models import Profile
from hitherto_shared.offloading import in_thread, in_thread_if_long
from hitherto_shared.text.redaction import count_marked

_SECONDS = 30.0
PLANNING_SECONDS = 10.0
"""Less than a commit may take, so that slow planning is told from a slow database."""
_WORK_OF_AN_ITEM = 4_096
"""The work of comparing a new statement with its neighbours, in characters read."""

logger = logging.getLogger("hitherto.extraction")


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of one model call, and the progress of the job with it.

    `concluded` is the stored summary with what the reply makes of it, if that was needed before.
    `sampled`: the new memories are checked; see `quality_sample`.
    """

    answer: Answer
    witnesses: Witnesses
    local_memories: Mapping[str, UUID]
    vectors: Vectors
    time_zone: str
    charges: Sequence[Charge]
    result: Result
    done_to: int
    last: bool
    concluded: tuple[HeldSummary, SummaryFields] | None = None
    sampled: bool = False


@dataclass(eq=False)
class Commit:
    """Writes outcomes. The database role is hitherto_write.

    Without `crowding`, no consolidation is queued. `daily_changes` is the minimum of changes that
    models may make for one user in 24 hours; `planning_seconds` limits the time for deciding what a
    reply changes.
    """

    database: Database
    _: KW_ONLY
    memory_enabled: bool
    dedupe_threshold: Callable[[], float]
    crowding: Crowding | None = None
    reconciling: Reconciling | None = None
    daily_changes: int = DAILY_CHANGES
    planning_seconds: float = PLANNING_SECONDS

    async def run(self, held: Claim, outcome: BatchOutcome) -> Result:
        """Write an outcome in one transaction and return the job's result so far.

        Raises:
            ClaimLost: The claim was lost, or the user has switched learning off; nothing of the
                outcome was written.
            WorkTooLong: Planning took too long; nothing was written.
            KeyNeeded: The user has encryption on, or had, and the key is not at hand, or a message
                that the call read in clear is sealed by now; nothing was written.
        """

        async def write(user: UserRows) -> Result | None:
            # In this order: what follows the lock sees what its last holder wrote. What the plan
            # needs is read with it, although the outcome may be discarded.
            state, done_to, sealed_since, around = await together(
                user.connection,
                users.lock_user(user),
                claims.hold(user.connection, held),
                _sealed_since(user, held.conversation, outcome.witnesses),
                kept(self._look(user, held, outcome)),
            )
            if done_to >= outcome.done_to:
                raise CommittedBefore
            if not await may_continue(user, held, state, self.memory_enabled):
                return None
            if sealed_since and await sealing_key(user) is None:
                # Encryption was turned on and off again during the model call: start again.
                raise KeyNeeded
            result, _ = await self._apply(around(), for_job=True)
            return result

        return await commit(self.database, held, write, seconds=_SECONDS)

    async def learn(
        self, user: UserRows, held: Claim, outcome: BatchOutcome
    ) -> tuple[Result, Plan]:
        """Write what an outcome teaches, without its cost and the job's progress.

        `user` is in a transaction of a caller that holds the user's row.
        """
        return await self._apply(await self._look(user, held, outcome))

    async def _look(self, user: UserRows, held: Claim, outcome: BatchOutcome) -> _Application:
        """Read what an outcome is compared and merged with."""
        answer = outcome.answer
        shown = list(outcome.local_memories.values())
        (known, neighbours), room, importance_before, at, profile, summary = await together(
            user.connection,
            look_around(
                user,
                answer.new,
                outcome.vectors,
                also=shown,
                threshold=self.dedupe_threshold(),
            ),
            room_of(user, outcome.result.changes, daily=self.daily_changes),
            known_memories.importance_before(user, shown if answer.updated else [], held.job_id),
            users.database_now(user.connection),
            profiles.read_profile(user),
            summaries.read(user, held.conversation),
        )
        situation = Situation(
            answer=answer,
            witnesses=outcome.witnesses,
            local_memories=outcome.local_memories,
            known=known,
            neighbours=neighbours,
            vectors=outcome.vectors.of_new,
            threshold=self.dedupe_threshold(),
            room=room,
            importance_before=importance_before,
            reviewed=await reviewed(user, answer),
            own_names=await own_names(user, answer, outcome.local_memories),
        )
        return _Application(user, held, outcome, situation, at, profile, summary)

    async def _apply(self, applying: _Application, *, for_job: bool = False) -> tuple[Result, Plan]:
        """Write what an outcome teaches; `for_job`, with its cost and the job's progress."""
        user, held, outcome = applying.user, applying.held, applying.outcome
        situation = applying.situation
        plan = await self._planned(situation)
        said = of_summary(outcome.answer.summary, outcome.witnesses, outcome.done_to)
        summary = applying.summary.quoting(outcome.witnesses.messages)
        said = replace(applying.placed(said), rests_on_sealed=summary.sealed)
        named = _named(outcome, first_no=held.range_from or 1)
        dropped = outcome.answer.dropped + int(outcome.answer.skipped)
        result = outcome.result.with_plan(plan, dropped, named)
        if redacted := sum(count_marked(each.content) for each in outcome.witnesses.messages):
            result = result.with_counts({SECRETS_REDACTED: redacted})
        if outcome.sampled:
            checked = await in_thread_if_long(
                _work_of(situation), check, plan, outcome.witnesses, situation.neighbours
            )
            result = result.with_counts(checked)
        result = await applying.write_profile(result, plan)

        # They write different tables, and each waits for numbers and versions of its own.
        writing = [
            write_plan(
                user,
                Occasion(held.job_id, held.conversation, applying.at),
                plan,
                outcome.vectors,
                also_said=[said],
                crowding=self.crowding if for_job else None,
            ),
            applying.write_summary(summary),
            applying.write_behaviour(),
        ]
        if for_job:
            done_to, finished, cost = outcome.done_to, outcome.last, outcome.charges
            writing.append(record(user, held, result, cost, done_to=done_to, finished=finished))
        await together(user.connection, *writing)
        if for_job and self.reconciling is not None:
            open_ones = open_questions(plan, situation)
            await self.reconciling.look(user, open_ones, reached=plan.reached)
        return result, plan

    async def _planned(self, situation: Situation) -> Plan:
        """Read every statement, and compare each new one with its neighbours."""
        try:
            async with asyncio.timeout(self.planning_seconds):
                return await in_thread_if_long(_work_of(situation), make_plan, situation)
        except TimeoutError:
            raise WorkTooLong(
                "deciding what the model's reply changes", self.planning_seconds
            ) from None


def _named(outcome: BatchOutcome, *, first_no: int) -> list[Refused]:
    """What was dropped of a reply, by its place in it, or of the job's messages."""
    dropped = [Refused.of(item, reason) for item, reason in outcome.answer.refused]
    if outcome.answer.skipped:
        skipped = [each.message_no - first_no for each in outcome.witnesses.messages]
        nothing = "it teaches nothing"
        dropped += [Refused.of(f"messages[{n}]", "refused_content", nothing) for n in skipped]
    return dropped


def _work_of(situation: Situation) -> int:
    """The work of comparing statements with their neighbours, in characters read."""
    items = len(situation.answer.new) + len(situation.answer.updated)
    return sum(len(each.content) for each in situation.known.values()) + _WORK_OF_AN_ITEM * items


async def room_of(user: UserRows, job: Changes, *, daily: int) -> ChangeAllowance:
    """The changes that a reply may still make, under the user's lock.

    `job` holds the job's changes so far.
    """
    (closed, updated), active_count = await together(
        user.connection, ledger.changes_of_a_day(user), known_memories.count_active(user)
    )
    return ChangeAllowance(
        active_count=active_count,
        job=job,
        day=Changes(closed, updated),
        daily=daily,
    )


async def _sealed_since(user: UserRows, conversation_id: str, witnesses: Witnesses) -> bool:
    """Whether a message that was read in clear is sealed by now.

    Its text must not enter an index, by word or vector.
    """
    clear = [message.message_no for message in witnesses.messages if not message.sealed]
    return await conversations.some_sealed(user, conversation_id, clear)


@dataclass(frozen=True, slots=True)
class _Application:
    """An outcome that is written, with what was read under the user's lock.

    `at` is the time of the writing, `profile` and `summary` are those before it.
    """

    user: UserRows
    held: Claim
    outcome: BatchOutcome
    situation: Situation
    at: datetime
    profile: tuple[Profile, dict[str, str]]
    summary: HeldSummary

    def placed(self, stated: NewStatement) -> NewStatement:
        """A statement of the conversation and the job."""
        held = self.held
        return replace(stated, conversation_id=held.conversation, job_id=held.job_id)

    async def write_profile(self, result: Result, plan: Plan) -> Result:
        """Merge the user's statements about themselves; nobody else's words change a profile.

        What rested on memories that `plan` ends goes with them.
        """
        user, outcome = self.user, self.outcome
        profile, said_at = self.profile
        items, changed = outcome.answer.profile, False
        if items or profile.sources:
            if not profile.version:
                said_at = await _ended_before(user)
            learnt = await in_thread(
                learn,
                profile,
                said_at,
                items,
                outcome.witnesses,
                plan,
                beside_unnamed=bool(items)
                and await conversations.has_unnamed(user, self.held.conversation),
            )
            changed = bool(learnt.state.changed)
            version = profile.version + changed
            if learnt.said:
                stated = of_profile(learnt.said, version, made_version=changed)
                await statements.record(user, [self.placed(stated)])
            job_id = self.held.job_id
            await write_state(
                user, profile, said_at, learnt.state, actor=ledger.ACTOR, job_id=job_id
            )
            result = result.refusing_profile(learnt.refused, learnt.dropped)
            if changed:
                return replace(result, profile_version=version)
        if profile.version:
            await profiles.mark_extracted(user)
        return result

    async def write_behaviour(self) -> None:
        """Learn from how the user wrote."""
        said, zone = self.outcome.witnesses.messages, self.outcome.time_zone
        letters = sum(len(message.content) for message in said)
        seen = await in_thread_if_long(letters, behaviour.observe, said, zone)
        if seen:
            known = await preferences.read_preferences(self.user)
            learnt = behaviour.learn(known, seen, self.at)
            await preferences.write_preferences(self.user, learnt)

    async def write_summary(self, summary: HeldSummary) -> None:
        """Merge the summary field by field; a conversation that was read always has one."""
        outcome = self.outcome
        if outcome.concluded is not None and outcome.concluded[0] == summary:
            fields = outcome.concluded[1]
        else:
            fields = await conversation_summary.conclude(
                summary, outcome.answer.summary, done_to=outcome.done_to
            )
        await conversation_summary.write(
            self.user,
            self.held.conversation,
            fields,
            held=summary,
            done_to=outcome.done_to,
            messages=outcome.witnesses.messages,
            vectors=outcome.vectors,
        )


async def _ended_before(user: UserRows) -> dict[str, str]:
    """When values ended of which nothing was known, before there was a profile."""
    state = ProfileState(Profile(user.scope.user_id), {})
    for each in await statements.of_profile(user):
        for change in each.said.get("changes", ()):
            if change["ended"] and not each.taken:
                state.apply(ValueChange.of(change))
    return state.said_at
