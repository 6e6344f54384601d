"""Checks what a saved memory contradicts, by one call of the model.

`SaveMemory` asks no model, so that it is done at once; the job that it queues puts the statement to
the model as if it had just been said. Of the answer only contradictions and achieved goals count,
and whatever they say took the place of a memory is the saved one. The check runs where learning is
switched off too: the statement was saved on purpose.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from recollect_extraction.pipeline.answer import Answer
from recollect_extraction.pipeline.commit import Outcome
from recollect_extraction.pipeline.evidence import Witnesses
from recollect_extraction.pipeline.extraction import Extraction
from recollect_extraction.pipeline.plan import Situation, make_plan
from recollect_extraction.pipeline.result import Result
from recollect_extraction.pipeline.write import Occasion, Vectors, write_plan
from recollect_extraction.queue import claims
from recollect_extraction.queue.claims import Claim
from recollect_extraction.storage import ledger, memories, users
from recollect_extraction.storage.conversations import StoredMessage
from recollect_extraction.storage.memories import Known
from recollect_shared.database.pool import Connection, Database

_SECONDS = 30.0
_SAVED = 0
"""Index under which the plan knows the saved memory."""


class Check:
    """Runs extraction jobs that name a memory instead of messages; the role is recollect_write."""

    def __init__(self, database: Database, extraction: Extraction) -> None:
        self._database = database
        self._extraction = extraction

    async def run(self, held: Claim) -> None:
        """Check one memory; one that is gone or current no longer contradicts nothing.

        Raises:
            ClaimLost: Somebody else has the job; nothing was written after that.
            ModelError: The model gave no usable answer.
        """
        memory_id = UUID(str(held.params["memory_id"]))
        saved = await self._database.run(
            lambda connection: _current(connection, held, memory_id), timeout=_SECONDS
        )
        if saved is None:
            await self._database.run(
                lambda connection: _finish(connection, held, Result.of(held.result)),
                timeout=_SECONDS,
            )
            return
        said = StoredMessage(1, "", saved.origin, "", saved.content, saved.said_at)
        asked = await self._database.run(
            lambda connection: self._extraction.prompt(connection, held.scope, "", [said]),
            timeout=_SECONDS,
        )
        outcome = await self._extraction.answer(asked, "", Result.of(held.result))
        await self._database.run(
            lambda connection: _commit(connection, held, memory_id, said, outcome),
            timeout=_SECONDS,
        )


async def _current(connection: Connection, held: Claim, memory_id: UUID) -> Known | None:
    known = await memories.read_known(connection, held.scope, [memory_id])
    found = known.get(memory_id)
    return found if found is not None and found.status == "active" else None


async def _commit(
    connection: Connection, held: Claim, memory_id: UUID, said: StoredMessage, outcome: Outcome
) -> None:
    scope = held.scope
    async with connection.transaction():
        state = await users.lock_user(connection, scope)
        await claims.hold(connection, held)
        if state is None or state.erased:
            await claims.discard(
                connection, held, error="USER_ERASED: the user was erased", reason="USER_ERASED"
            )
            return
        result = outcome.result
        if await _current(connection, held, memory_id) is not None:
            others = {
                key: other for key, other in outcome.local_memories.items() if other != memory_id
            }
            answer = outcome.answer
            plan = make_plan(
                Situation(
                    answer=Answer(
                        contradicted=[
                            replace(item, by=_SAVED, source_ids=None)
                            for item in answer.contradicted
                            if item.memory in others
                        ],
                        achieved=[
                            replace(item, by=_SAVED, source_ids=None)
                            for item in answer.achieved
                            if item.memory in others
                        ],
                    ),
                    witnesses=Witnesses("", {"m1": said}),
                    local_memories=others,
                    known=await memories.read_known(
                        connection, scope, [memory_id, *others.values()]
                    ),
                    neighbours={},
                    vectors={},
                    threshold=1.0,
                    active_count=await memories.count_active(connection, scope),
                    stated={_SAVED: memory_id},
                )
            )
            at = await users.database_now(connection)
            occasion = Occasion(scope, held.job_id, None, at)
            await write_plan(connection, occasion, plan, Vectors("", {}, {}))
            result = result.with_plan(plan, answer.dropped)
        await ledger.charge(connection, scope, held.job_id, held.kind, outcome.charges)
        await _finish(connection, held, result)


async def _finish(connection: Connection, held: Claim, result: Result) -> None:
    await claims.record_progress(connection, held, done_to=0, result=result.stored(), finished=True)


class Reads:
    """Gives an extraction job to whoever reads what it names: messages, or a saved memory."""

    def __init__(self, extraction: Extraction, check: Check) -> None:
        self._extraction = extraction
        self._check = check

    async def run(self, held: Claim) -> None:
        """Run the job; see `Extraction.run` and `Check.run`."""
        reader = self._check if "memory_id" in held.params else self._extraction
        await reader.run(held)
