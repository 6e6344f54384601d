"""The job of kind `consolidation`: one user's crowded tags, or those of every user of a tenant.

A tenant's job processes its users one after another. What one attempt has processed is marked with
the job, so that the next attempt continues and counts nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from hitherto_extraction.budget import Budget
from hitherto_extraction.consolidation.groups import Group
from hitherto_extraction.consolidation.merge_model import (
    VERSION,
    Background,
    MergeModel,
    MergeProposals,
)
from hitherto_extraction.consolidation.merging import Merge
from hitherto_extraction.consolidation.tag_review import (
    ConsolidationTarget,
    TagReview,
    read_board,
)
from hitherto_extraction.consolidation.writing import read_words, write_merge
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts
from hitherto_extraction.pipeline.job_commit import CommittedBefore, commit, may_continue, record
from hitherto_extraction.pipeline.model_call import TooMuch, halves
from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.pipeline.user_by_user import PageOfUsers, each_user
from hitherto_extraction.provider.protocol import Completion
from hitherto_extraction.queue import claims, jobs
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage import consolidation, settings, users
from hitherto_extraction.storage.consolidation import Member
from hitherto_extraction.storage.users import UserWriteState
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.model_api import ModelError, ModelMisbehaved, ModelRefused
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread

_PATIENCE = 3
"""Number of groups without an answer, with none answered, after which the model itself is at
fault."""
COUNTS = dict.fromkeys(
    ("groups", "merged", "created", "superseded", "skipped_unchanged", "dropped"), 0
)
"""The counts of every result."""


@dataclass(slots=True)
class ConsolidationAttempt:
    """One attempt of a job: its progress, and the groups that the model could not answer."""

    held: Claim
    wanted: ConsolidationTarget
    result: Result
    answered: int = 0
    failed: int = 0
    why: ModelError | None = None

    def not_answered(self, error: ModelError) -> None:
        """Record that a group got no answer; raises if no group gets one."""
        self.failed += 1
        self.why = error
        if not self.answered and self.failed >= _PATIENCE:
            raise error


def result_after(
    run: ConsolidationAttempt, answered: MergeProposals, written: Sequence[tuple[Merge, Member]]
) -> Result:
    """The job's result once the `written` ones of the proposed merges are committed."""
    proposed = answered.merges
    late = len(proposed.items) - len(written)
    counts = {
        "groups": 1,
        "merged": int(bool(written)),
        "created": len(written),
        "superseded": sum(len(merge.originals) for merge, _ in written),
        "dropped": proposed.dropped,
        **({"refused_unfaithful": proposed.refused} if proposed.refused else {}),
        **({"skipped_changed": late} if late else {}),
    }
    result = run.result.with_counts(counts).with_charges(list(answered.charges))
    return replace(
        result,
        memories_created=result.memories_created + len(written),
        dropped_items=result.dropped_items + proposed.dropped,
        model=answered.answered_by,
    )


logger = logging.getLogger("hitherto.consolidation")

_SECONDS = 30.0
_USERS = 500


class _NotWanted(Exception):
    """The user is gone, has switched learning off, or is being imported."""


@dataclass(eq=False)
class Consolidation:
    """Merges memories: reads across users as hitherto_maintenance, writes as hitherto_write.

    Its counts are: `groups` that went to the model, `merged` groups with a merge, `created`
    memories that replaced `superseded` ones, `skipped_unchanged` tags without changes since the
    last consolidation, `dropped` items of replies that were unusable or unfaithful,
    `refused_unfaithful` the latter among them, and `skipped_changed` merges that came too
    late, because an original had changed meanwhile.

    `threshold` is the embedder's cosine for the same statement. A tag is crowded if more than
    `above` memories share it; `memory_enabled` applies to users who did not choose.
    """

    maintenance: Database
    write: Database
    asking: MergeModel
    account: FailedAttempts
    budget: Budget = field(default_factory=Budget)
    _: KW_ONLY
    threshold: Callable[[], float]
    above: int
    memory_enabled: bool

    def wanted(self, params: Mapping[str, object]) -> ConsolidationTarget:
        """The target that a job's parameters specify."""
        tag = params.get("tag")
        return ConsolidationTarget(
            tag if isinstance(tag, str) and tag else None,
            params.get("asked") is True,
            self.above,
        )

    async def count(
        self,
        connection: Connection,
        tenant_id: str,
        user_id: str | None,
        params: Mapping[str, object],
    ) -> dict[str, int]:
        """What a job with these parameters would send to the model now; no model is called.

        `connection` is in a transaction of the caller, so no key is requested here. Without
        `user_id`, all users of the tenant count.
        """
        wanted = self.wanted(params)
        find = self._crowded_users(tenant_id, wanted)
        counts = {"groups": 0, "memories": 0, "skipped_unchanged": 0}
        page, after = [user_id] if user_id is not None else [], None if user_id is not None else ""
        while True:
            if after is not None:
                page, after = await find(connection, after)
            for each in page:
                user = connection.of(Scope(tenant_id, each))
                board = await read_board(user, wanted, threshold=self.threshold())
                for name, number in (await in_thread(board.counts, again=wanted.again)).items():
                    counts[name] += number
            if after is None:
                return counts

    async def run(self, held: Claim) -> None:
        """Merge what may be merged, and end the job with the counts.

        A group without a usable answer delays no other group; the attempt fails after them, and the
        next one asks about that group only.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            ModelError: The model was down, or gave no usable answer to some group.
            BudgetSpent: The tenant's budget does not allow for the next group.
        """
        result = replace(
            Result.of(held.result).with_counts(COUNTS),
            extractor=self.asking.chat.extractor,
            prompt_version=VERSION,
        )
        run = ConsolidationAttempt(held, self.wanted(held.params), result)
        if held.user_id is not None:
            if not await self._user(run, held.scope):
                return
        else:
            find = self._crowded_users(held.tenant_id, run.wanted)
            async for user_id in each_user(self.maintenance, find, seconds=_SECONDS):
                try:
                    await self._user(run, Scope(held.tenant_id, user_id))
                except _NotWanted:
                    logger.info("nothing is learnt about a user now; skipping consolidation")
        if run.why is not None:
            raise run.why
        await self.write.run(
            lambda connection: claims.finish(connection, held, run.result.stored()),
            timeout=_SECONDS,
        )

    @staticmethod
    def _crowded_users(
        tenant_id: str, wanted: ConsolidationTarget
    ) -> Callable[[Connection, str], Awaitable[PageOfUsers]]:
        tag, above = wanted.tag, wanted.crowded_above
        return lambda connection, after: consolidation.find_crowded_users(
            connection, tenant_id, tag=tag, above=above, after=after, limit=_USERS
        )

    async def _may_continue(
        self, user: UserRows, held: Claim, state: UserWriteState | None
    ) -> bool:
        """Whether something may be learnt about a user now; if not, the user's own job ends here.

        Raises:
            Conflict: The user of the job is being imported.
            _NotWanted: It may not, and the job is one of all users, which goes on without this one.
        """
        if held.user_id is not None:
            return await may_continue(user, held, state, self.memory_enabled)
        if state is None or state.importing or users.why_not_learning(state, self.memory_enabled):
            raise _NotWanted
        return True

    async def _user(self, run: ConsolidationAttempt, scope: Scope) -> bool:
        """Merge what may be merged of one user; False if the job has ended, as nothing may be."""

        async def look(connection: Connection) -> TagReview | None:
            user = connection.of(scope)
            if not await self._may_continue(user, run.held, await users.read_user(user)):
                return None
            return await read_board(user, run.wanted, threshold=self.threshold())

        board = await self.write.run(look, timeout=_SECONDS)
        if board is None:
            return False
        for crowded in board.tags:
            ours = crowded.job_id == run.held.job_id
            if await in_thread(board.unchanged, crowded) and (ours or not run.wanted.again):
                board.settle(crowded.tag)
                if not ours:
                    run.result = run.result.with_counts({"skipped_unchanged": 1})
                continue
            failed = run.failed
            for group in await in_thread(board.groups, crowded.tag):
                if board.is_answered(crowded.tag, group) and not run.wanted.again:
                    continue
                try:
                    await self._group(run, scope, board, group, ())
                    board.answer(crowded.tag, group)
                except (ModelMisbehaved, ModelRefused) as error:
                    logger.warning("no usable answer for a group: %s", error)
                    run.not_answered(error)
            if run.failed == failed:
                board.settle(crowded.tag)
                await self._settle(run, scope, board)
        return True

    async def _group(
        self,
        run: ConsolidationAttempt,
        scope: Scope,
        board: TagReview,
        group: Group,
        wasted: Sequence[Completion],
    ) -> None:
        """One model call and the transaction of its effects."""

        async def read(connection: Connection) -> Background:
            await self.budget.require(connection, scope.tenant_id, run.held.kind)
            return await _read(connection.of(scope), board, group, run.wanted)

        background = await self.write.run(read, timeout=_SECONDS, repeatable=True)
        try:
            answered = await self.asking.ask(group, background, wasted)
        except TooMuch as error:
            logger.info("the reply was cut off; splitting the group in two")
            first, second = halves(group)
            await self._group(run, scope, board, first, [*wasted, *error.spent])
            await self._group(run, scope, board, second, ())
            return
        except ModelError as error:
            spent = self.asking.prices.wasted("consolidation", wasted)
            run.result = await self.account.settle(run.held, run.result, spent, error, scope=scope)
            raise
        run.answered += 1
        try:
            written, run.result = await self._commit(run, scope, answered)
        except Exception as error:
            await self.account.settle(run.held, run.result, answered.charges, error, scope=scope)
            raise
        for merge, made in written:
            board.replace(merge.originals, made)

    async def _commit(
        self, run: ConsolidationAttempt, scope: Scope, answered: MergeProposals
    ) -> tuple[list[tuple[Merge, Member]], Result]:
        """Write what a call yielded, except merges with a changed original."""
        held, written = run.held, list[tuple[Merge, Member]]()

        async def write(user: UserRows) -> Result | None:
            written.clear()
            if not await self._lock(user, held):
                return None
            job = await jobs.get_job(user.connection, held.tenant_id, held.job_id)
            if Result.of(job.result).counts.get("groups", 0) > run.result.counts.get("groups", 0):
                # Its merges count as changed for groups that share an original.
                raise CommittedBefore
            at = await users.database_now(user.connection)
            active = await active_model(user.connection)
            model = answered.embedded_by
            usable = model if active is None or active[0] == model else None
            for merge in answered.merges.items:
                made = await write_merge(user, merge, model=usable, at=at, job_id=held.job_id)
                if made is not None:
                    written.append((merge, made))
            result = result_after(run, answered, written)
            touched = [scope.user_id] if written else ()
            await record(user, held, result, answered.charges, done_to=0, touched=touched)
            return result

        return written, await commit(self.write, held, write, scope=scope, seconds=_SECONDS)

    async def _settle(self, run: ConsolidationAttempt, scope: Scope, board: TagReview) -> None:
        """Record the results for a user's tags so far."""
        marks = await in_thread(board.marks)

        async def work(connection: Connection) -> bool:
            user = connection.of(scope)
            wanted = await self._lock(user, run.held)
            if wanted:
                await consolidation.mark(user, marks, job_id=run.held.job_id)
            return wanted

        if not await self.write.transact(work, timeout=_SECONDS):
            raise ClaimLost
        board.marked()

    async def _lock(self, user: UserRows, held: Claim) -> bool:
        """Become the only writer of the user's memories; as `_may_continue`."""
        state = await users.lock_user(user)
        await claims.hold(user.connection, held)
        return await self._may_continue(user, held, state)


async def _read(
    user: UserRows, board: TagReview, group: Group, wanted: ConsolidationTarget
) -> Background:
    ids = [each.memory_id for each in group]
    apart = await consolidation.taken_apart(user, ids)
    if wanted.again:
        # A caller that names a tag wants it merged despite an earlier separation, once something
        # newer than the merge exists.
        newest = max(each.int for each in ids)
        apart = {m: {by for by in merges if by.int > newest} for m, merges in apart.items()}
    zone = zone_of(await settings.read_zone(user))
    return Background(apart, await read_words(user, ids), zone)
