"""The result of one model call; writes its profile, its summary and the observed preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import behaviour, conversation_summary
from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.profile_changes import ProfileState, ValueChange, learn
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.resting_values import write_state
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.pipeline.source_statements import of_profile, of_summary
from hitherto_extraction.pipeline.summarise import SummaryFields
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import ledger, preferences, profiles, statements
from hitherto_extraction.storage.statements import NewStatement
from hitherto_extraction.storage.summaries import HeldSummary
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Profile
from hitherto_shared.offloading import in_thread, in_thread_if_long


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


@dataclass(frozen=True, slots=True)
class OutcomeWriting:
    """An outcome that is being written by a caller that holds the user's row."""

    user: UserRows
    held: Claim
    outcome: BatchOutcome

    async def write_profile(
        self, result: Result, known: tuple[Profile, dict[str, str]], plan: Plan
    ) -> Result:
        """Merge the user's statements about themselves; nobody else's words change a profile.

        What rested on memories that `plan` ends goes with them.
        """
        profile, said_at = known
        items, witnesses = self.outcome.answer.profile, self.outcome.witnesses
        if not (items or profile.sources):
            await self._mark_extracted(profile)
            return result
        if not profile.version:
            said_at = await self._ended_before()
        learnt = await in_thread(learn, profile, said_at, items, witnesses, plan)
        state, changed = learnt.state, bool(learnt.state.changed)
        version = profile.version + changed
        if learnt.said:
            stated = of_profile(learnt.said, version, made_version=changed)
            await statements.record(self.user, [self._placed(stated)])
        await write_state(
            self.user, profile, said_at, state, actor=ledger.ACTOR, job_id=self.held.job_id
        )
        if changed:
            result = replace(result, profile_version=version)
        else:
            await self._mark_extracted(profile)
        return result.refusing_profile(learnt.refused, learnt.dropped)

    async def _ended_before(self) -> dict[str, str]:
        """When values ended of which nothing was known, before there was a profile."""
        state = ProfileState(Profile(self.user.scope.user_id), {})
        for each in await statements.of_profile(self.user):
            for change in each.said.get("changes", ()):
                if change["ended"] and not each.taken:
                    state.apply(ValueChange.of(change))
        return state.said_at

    async def _mark_extracted(self, profile: Profile) -> None:
        """Record that the profile, if there is one, was processed and is unchanged."""
        if profile.version:
            await profiles.mark_extracted(self.user)

    async def write_behaviour(self, at: datetime) -> None:
        """Learn from how the user wrote."""
        said = self.outcome.witnesses.messages
        seen = await in_thread_if_long(
            sum(len(message.content) for message in said),
            behaviour.observe,
            said,
            self.outcome.time_zone,
        )
        if seen:
            known = await preferences.read_preferences(self.user)
            await preferences.write_preferences(self.user, behaviour.learn(known, seen, at))

    async def write_summary(self, summary: HeldSummary) -> None:
        """Merge the summary field by field; a conversation that was read always has one."""
        outcome = self.outcome
        if outcome.concluded is not None and outcome.concluded[0] == summary:
            concluded = outcome.concluded[1]
        else:
            concluded = await conversation_summary.conclude(
                summary, outcome.answer.summary, done_to=outcome.done_to
            )
        await conversation_summary.write(
            self.user,
            self.held.conversation,
            concluded,
            held=summary,
            done_to=outcome.done_to,
            messages=outcome.witnesses.messages,
            vectors=outcome.vectors,
        )

    def said_of_summary(self, summary: HeldSummary) -> NewStatement:
        """What the reply said in the summary."""
        outcome = self.outcome
        stated = of_summary(outcome.answer.summary, outcome.witnesses, outcome.done_to)
        return replace(self._placed(stated), rests_on_sealed=summary.sealed)

    def _placed(self, stated: NewStatement) -> NewStatement:
        held = self.held
        return replace(stated, conversation_id=held.conversation, job_id=held.job_id)
