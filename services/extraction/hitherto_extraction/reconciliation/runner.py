"""The job of kind `reconciliation`: settles what changed memories of one user leave open.

Each call of the model is written in one transaction with the job's progress. What the model
refuses, or answers with nothing usable, is asked again with less. A single change to which it has
no answer even so is dropped and counted; several in a row fail the attempt: the model is at fault.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.caps import DAILY_CHANGES, Changes
from hitherto_extraction.pipeline.commit import room_of
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts
from hitherto_extraction.pipeline.job_commit import CommittedBefore, commit, may_continue, record
from hitherto_extraction.pipeline.model_call import TooMuch, ask_for
from hitherto_extraction.pipeline.operations import Refused
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.provider.protocol import ChatModel
from hitherto_extraction.queue import claims, collecting
from hitherto_extraction.queue.claims import Claim, OthersFirst
from hitherto_extraction.reconciliation.reply import Proposals, read_reply
from hitherto_extraction.reconciliation.selecting import (
    MAX_CHANGED,
    VERSION,
    Shown,
    build_prompt,
    select,
)
from hitherto_extraction.reconciliation.settling import ReconciliationRows, Settlement, settle
from hitherto_extraction.reconciliation.trigger import KIND, Reconciling
from hitherto_extraction.reconciliation.writing import write_settlement
from hitherto_extraction.storage import known_memories, reconciliation, users
from hitherto_extraction.storage.sealed_rows import sealing_key
from hitherto_extraction.user_key import key_of, standing_key
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import KeyNeeded, keys_at_hand
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.model_api import ContentRefused, ModelMisbehaved
from hitherto_shared.offloading import in_thread

logger = logging.getLogger("hitherto.reconciliation")

_SECONDS = 30.0
_MOST_UNANSWERED = 3
"""Number of changes in a row that are dropped because no reply about them is usable; 1 before the
first usable one."""
OTHERS_FIRST_SECONDS = 2.0
"""How long a job stands back for messages and documents of its user."""


@dataclass(slots=True)
class _Attempt:
    """The progress of an attempt: what is left of what changed, and the result so far.

    Attributes:
        most: How many changes the next call shows at most.
        alone: Whether it shows them without what stands around.
        model: The model that gave a usable answer; empty before the first.
        unanswered: How many changes in a row had no usable reply.
        why: The last unusable reply about the present ones.
        given_up: The present ones, if the model has no answer to them.
    """

    held: Claim
    changed: Sequence[UUID]
    done: int
    result: Result
    most: int = MAX_CHANGED
    alone: bool = False
    model: str = ""
    unanswered: int = 0
    why: ModelMisbehaved | None = None
    given_up: Sequence[Refused] = ()
    charges: list[Charge] = field(default_factory=list)
    calls: int = 0


@dataclass(eq=False)
class Reconciliation:
    """Runs `reconciliation` jobs. The database role is hitherto_write.

    Its counts are: `calls` of the model, memories `joined` to one that says the same, those in
    doubt (`doubted`) and those that are `certain` again; what was replaced counts as contradicted,
    or as an achieved goal.
    """

    database: Database
    chat: ChatModel
    prices: Prices
    account: FailedAttempts
    budget: Budget
    keys: UserKeys | None = None
    _: KW_ONLY
    reconciling: Reconciling
    memory_enabled: bool
    threshold: Callable[[], float]
    daily_changes: int = DAILY_CHANGES

    async def run(self, held: Claim) -> None:
        """Look at everything that changed, call by call.

        Raises:
            OthersFirst: Messages or documents of the user wait to be read.
            ClaimLost: The claim was lost; nothing was written after that.
            ModelError: The model gave no usable answer.
            BudgetSpent: The tenant's budget does not allow for the next call.
            KeyUnavailable: Something is sealed, and the user's key is unavailable.
        """
        with keys_at_hand(await standing_key(self.keys, held.scope)):
            try:
                await self._run(held)
            except KeyNeeded:
                # Raises why there is no key; one made since is at hand in the next attempt.
                await key_of(self.database, self.keys, held.scope)
                raise

    async def _run(self, held: Claim) -> None:
        changed, done = _ids(held, "changed"), held.done_to or 0
        # What changed again since it was settled is looked at again.
        changed[done:] = dict.fromkeys(changed[done:])
        result = replace(
            Result.of(held.result), extractor=self.chat.extractor, prompt_version=VERSION
        )
        run = _Attempt(held, changed, done, result)
        try:
            while run.done < len(run.changed):
                if not await self._call(run):
                    return
        except Exception as error:
            await self.account.settle(held, run.result, run.charges, error)
            raise
        await self.database.run(
            lambda connection: claims.finish(
                connection, held, run.result.stored(), done_to=run.done
            ),
            timeout=_SECONDS,
        )

    async def _call(self, run: _Attempt) -> bool:
        """One call and its effects; False if the job has ended, as its user is gone."""
        if run.calls:
            await self.budget.check(self.database, run.held.tenant_id, KIND)
        shown = await self.database.run(
            lambda connection: self._look(connection, run), timeout=_SECONDS
        )
        if shown is None:
            return False
        if shown.is_worth_asking:
            run.calls += 1
            proposals = await self._ask(run, shown)
        else:
            # Nothing is left open, unless the model was asked and refused what stands around.
            proposals = _given_up(run, shown) if run.alone else Proposals()
        if proposals is None:
            return True
        if shown.is_worth_asking or run.alone or run.charges:
            run.result = await self._commit(run, shown, proposals)
        run.charges = []
        run.done += shown.looked_at
        run.most = 1 if run.unanswered else MAX_CHANGED
        run.alone, run.why, run.given_up = False, None, ()
        return True

    async def _ask(self, run: _Attempt, shown: Shown) -> Proposals | None:
        """What the model proposes; None if it is to be asked again, with less."""
        prompt = build_prompt(shown)
        names = list(shown.local)
        try:
            reply = await ask_for(
                self.chat,
                prompt,
                lambda text: read_reply(text, names),
                divisible=shown.looked_at > 1 or not run.alone,
            )
        except TooMuch as error:
            logger.info("%s; showing less", error)
            run.charges += self.prices.wasted(KIND, error.spent)
            if run.alone or (shown.looked_at > 1 and not error.for_content):
                run.most = max(1, shown.looked_at // 2)
            else:
                run.alone = True
            return None
        except (ContentRefused, ModelMisbehaved) as error:
            run.charges += self.prices.wasted(KIND, error.spent)
            error.spent = ()
            if isinstance(error, ModelMisbehaved):
                run.why = error
                if shown.looked_at > 1 or not run.alone:
                    run.most = max(1, shown.looked_at // 4)
                    run.alone = shown.looked_at == 1
                    return None
            logger.warning("a change was dropped, because %s", error)
            return _given_up(run, shown)
        run.charges.append(self.prices.charge(KIND, reply))
        run.model, run.unanswered = reply.model, 0
        return reply.answer

    async def _look(self, connection: Connection, run: _Attempt) -> Shown | None:
        user = connection.of(run.held.scope)
        async with connection.transaction():
            state = await users.read_user(user)
            if not await may_continue(user, run.held, state, self.memory_enabled, learns=False):
                return None
            if await collecting.reading_waits(user):
                raise OthersFirst(OTHERS_FIRST_SECONDS)
            # A key that is missing is missed before a model is paid.
            await sealing_key(user)
            return await select(
                user,
                run.changed[run.done :],
                threshold=self.threshold(),
                most=run.most,
                alone=run.alone,
            )

    async def _commit(self, run: _Attempt, shown: Shown, proposals: Proposals) -> Result:
        """Write what a call yields, with its cost and the job's progress."""
        held, done_to = run.held, run.done + shown.looked_at

        async def write(user: UserRows) -> Result | None:
            state = await users.lock_user(user)
            if await claims.hold(user.connection, held) >= done_to:
                raise CommittedBefore
            if not await may_continue(user, held, state, self.memory_enabled, learns=False):
                return None
            made = await in_thread(settle, proposals, await self._rows(user, run, shown))
            at = await users.database_now(user.connection)
            await write_settlement(user, made, at=at, job_id=held.job_id)
            result = _result_after(run, made, proposals, calls=int(shown.is_worth_asking))
            await record(user, held, result, run.charges, done_to=done_to)
            await self.reconciling.look(user, made.left, reached=_ids(held, "reached"))
            return result

        return await commit(self.database, held, write, seconds=_SECONDS)

    async def _rows(self, user: UserRows, run: _Attempt, shown: Shown) -> ReconciliationRows:
        local = {name: each.memory_id for name, each in shown.local.items()}
        now = await known_memories.read_known(user, list(local.values()))
        seen = {each.memory_id: each.version for each in shown.local.values()}
        counts = run.result.counts
        closed = run.result.changes.closed + counts.get("joined", 0)
        return ReconciliationRows(
            local,
            # What has changed during the call is not what the model was shown.
            {m: each for m, each in now.items() if each.version == seen[m]},
            await reconciliation.read_links(user, list(local.values())),
            await reconciliation.settled_before(user, list(local.values())),
            await room_of(user, Changes(closed=closed), daily=self.daily_changes),
            doubts=counts.get("doubted", 0),
            reached=_ids(run.held, "reached"),
        )


def _ids(held: Claim, name: str) -> list[UUID]:
    """The memories that a list of the job's names."""
    given = held.params.get(name)
    named = [parse_uuid(each) for each in given] if isinstance(given, list) else []
    return [each for each in named if each is not None]


def _given_up(run: _Attempt, shown: Shown) -> Proposals:
    """What is proposed about changes to which the model has no answer: nothing.

    Raises:
        ModelMisbehaved: It has had no usable answer to several in a row, or to anything at all.
    """
    end = run.done + shown.looked_at
    if run.why is not None:
        run.unanswered += 1
        last = end >= len(run.changed)
        if run.unanswered > (_MOST_UNANSWERED if run.model else 1) or (last and not run.model):
            raise run.why
    reason = "refused_content" if run.why is None else "refused_unanswered"
    run.given_up = [
        Refused.of(f"changed[{i}]", reason, memory_id=run.changed[i]) for i in range(run.done, end)
    ]
    return Proposals()


def _result_after(run: _Attempt, made: Settlement, proposals: Proposals, *, calls: int) -> Result:
    result = run.result.with_counts(
        {
            "calls": calls,
            "joined": len(made.joins),
            "doubted": len(made.doubts),
            "certain": len(made.certain),
        }
    )
    result = result.refusing([*run.given_up, *made.refusals]).with_charges(run.charges)
    return replace(
        result,
        memories_contradicted=result.memories_contradicted
        + len(made.endings.keys() - made.reached),
        goals_achieved=result.goals_achieved + len(made.reached),
        dropped_items=result.dropped_items + proposals.dropped,
        model=run.model or result.model,
    )
