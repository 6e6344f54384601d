"""Saves one statement at once, for an assistant's tool or a person (G1).

It passes the same rules as a learnt statement. Fields that only a caller can provide (metadata,
context, expiry) are joined to a known memory: given keys win. What the new words leave open is
settled by the reconciliation, also with learning switched off: it was saved on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.curation.replacing import near_to, read_replaced, replace_by
from hitherto_extraction.pipeline.answer import Answer, Cited, ClosedItem, NewItem
from hitherto_extraction.pipeline.caps import ChangeAllowance
from hitherto_extraction.pipeline.crowded_tags import Crowding, tags_touched
from hitherto_extraction.pipeline.dedupe import Neighbour, find_duplicate, find_forgotten
from hitherto_extraction.pipeline.draft import Situation
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.free_json import MAX_STRUCT_BYTES, fits_struct
from hitherto_extraction.pipeline.nearby_memories import look_around
from hitherto_extraction.pipeline.operations import Occasion, Plan
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.selection import names_in
from hitherto_extraction.pipeline.source_statements import document_of
from hitherto_extraction.pipeline.trust import outranks
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.pipeline.write import write_plan
from hitherto_extraction.reconciliation.trigger import Reconciling
from hitherto_extraction.storage import editing, ledger, statements, users
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.errors import invalid
from hitherto_shared.models import CURRENT_STATUSES, Memory
from hitherto_shared.offloading import in_thread, in_thread_if_long
from hitherto_shared.text.normalise import fold

_ONLY = 0
"""The index of the only item."""
_WORK_OF_A_CHARACTER = 8
"""The cost of comparing two statements, relative to reading them."""
_MOST_READ = 60_000
"""Maximum characters of the pairs that are compared for a saved statement, about a tenth of a
second. However many long statements of the user are nearly equal, one more is saved in this
time."""


@dataclass(frozen=True, slots=True)
class StatementToSave:
    """The statement, with every default filled in.

    `item` is what it says, without entities; `path` is its position in the request, for errors
    about its fields; `replaces` are the memories that are no longer true because of it.
    """

    item: NewItem
    source: str
    origin: str
    conversation_id: str | None
    metadata: Mapping[str, Any]
    valid_from: datetime | None
    expires_at: datetime | None
    sensitive: bool
    path: str
    replaces: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """The resulting memory, whether it was known before, and what says something near it."""

    memory: Memory
    deduplicated: bool
    near: Sequence[Memory] = ()


def vectors_of(model: str, vector: Vector | None) -> Vectors:
    """The vector of one statement in the form that `Saving.save` takes.

    None: it is saved without one.
    """
    return Vectors(model, {} if vector is None else {("new", _ONLY): vector})


@dataclass(frozen=True, slots=True)
class Saving:
    """Saves statements.

    `threshold` is the cosine from which two statements may be duplicates.
    """

    threshold: Callable[[], float]
    memory_enabled: bool
    reconciling: Reconciling
    crowding: Crowding

    async def save(
        self, user: UserRows, statement: StatementToSave, vectors: Vectors, *, actor: str
    ) -> Saved:
        """Save a statement in the caller's transaction.

        Raises:
            WrongState: Memory is switched off for the user, or the user was erased; or it is to
                replace a memory, and says what was forgotten without bringing it back.
            NotFound: The user has no memory that it is to replace.
            InvalidRequest: The known memory with this statement has no room for more free-form
                JSON.
        """
        state = await users.enter_alone(user)
        if users.why_not_storing(state, self.memory_enabled):
            raise users.memory_disabled(user.scope, "nothing was saved")
        at = await users.database_now(user.connection)
        replaced = await read_replaced(user, statement.replaces)
        # Those of somebody more trusted stay until somebody reviews the statement.
        lasting = {
            each.memory.memory_id
            for each in replaced
            if outranks(each.memory.origin, statement.origin)
        }
        plan, known_id = await self._plan(user, statement, vectors, at, lasting)
        occasion = Occasion(
            None,
            statement.conversation_id,
            at,
            actor=actor,
            source=statement.source,
            reason="saved by hand",
            metadata=statement.metadata,
            expires_at=statement.expires_at,
            marked=statement.sensitive,
        )
        if plan.rewrites:
            # The new version, and its event, include these too.
            change = plan.rewrites[-1]
            before = (await editing.read_one(user, change.before.memory_id)).memory
            left = replace(before, expires_at=change.after.expires_at)
            occasion = replace(occasion, joined=(before, _with_joined(left, statement)))
        await write_plan(user, occasion, plan, vectors)
        waiting = [r.after.memory_id for r in plan.rewrites if r.after.status == "quarantined"]
        await drop_resting_on(user, waiting, actor=actor)
        memory_id = plan.stated.get(_ONLY, known_id)
        assert memory_id is not None
        created = bool(plan.creations)
        if not created and _ONLY in plan.stated:
            await _join(user, occasion, memory_id, statement)
        found = (await editing.read_one(user, memory_id)).memory
        if replaced and found.status not in (*CURRENT_STATUSES, "quarantined"):
            raise editing.status_conflict(
                found,
                f"the memory with this statement is {found.status.upper()} and replaces nothing: "
                "restore it first",
            )
        # As they are now: the statement may have moved their doubts.
        replaced = await read_replaced(user, statement.replaces)
        ended = [each for each in replaced if each.memory.memory_id not in lasting]
        if ended:
            await replace_by(user, ended, found, at=at, actor=actor)
            found = (await editing.read_one(user, memory_id)).memory
        await self.crowding.look(user, tags_touched(plan))
        says = _says_something_new(plan) or bool(replaced)
        if found.status == "active" and found.valid_from <= at and says:
            await self.reconciling.look(user, [memory_id])
        return Saved(found, deduplicated=not created)

    async def with_near(self, user: UserRows, saved: Saved) -> Saved:
        """The same, with the active memories that say something near and other."""
        near = await near_to(user, saved.memory.memory_id, threshold=self.threshold())
        return replace(saved, near=near)

    async def _plan(
        self,
        user: UserRows,
        statement: StatementToSave,
        vectors: Vectors,
        at: datetime,
        challenged: Collection[UUID],
    ) -> tuple[Plan, UUID | None]:
        """What the statement changes, and the known memory with the same statement, if any."""
        named = await names_in(user, statement.item.content)
        item = replace(statement.item, entities=tuple(named))
        known, neighbours = await look_around(
            user, [item], vectors, also=challenged, threshold=self.threshold()
        )
        found = neighbours.get(_ONLY, ())
        texts = sum(len(each.content) for each in found)
        near = await in_thread_if_long(texts, _nearest, item.content, found)
        # A caller that saves a statement gives all of it, whatever is known already.
        words = "\n".join(filter(None, (item.content, item.detail)))
        said = StoredMessage(1, "", statement.origin, "", words, at)
        by_name = {str(each): each for each in challenged}
        closed = [ClosedItem(Cited("replaces", None, ""), name, by=_ONLY) for name in by_name]
        # Parses the statement: in a thread, so that the event loop is not blocked.
        plan = await in_thread(
            make_plan,
            Situation(
                answer=Answer(new=[item], contradicted=closed),
                witnesses=Witnesses("", {"m1": said}),
                local_memories=by_name,
                known=known,
                neighbours={_ONLY: near},
                vectors=vectors.of_new,
                threshold=self.threshold(),
                # No model affects what is saved.
                room=ChangeAllowance(active_count=0),
            ),
        )
        begins = statement.valid_from or at
        plan.creations = [replace(made, valid_from=begins) for made in plan.creations]
        if _ONLY in plan.stated:
            return plan, None
        # It changes nothing: a memory that may not be changed says it already.
        duplicate = await in_thread_if_long(
            len(item.content) * len(near) * _WORK_OF_A_CHARACTER,
            find_duplicate,
            item.type,
            item.content,
            near,
            sensitive=is_sensitive(item.type, statement.sensitive),
        )
        # Or it says in other words what the user has forgotten.
        found_again = duplicate or find_forgotten(near, self.threshold())
        return plan, found_again.memory_id if found_again is not None else None


def _nearest(content: str, neighbours: Sequence[Neighbour]) -> list[Neighbour]:
    """Those with the same words, then the nearest, as many as there is time to compare."""
    words = fold(content)
    ranked = sorted(
        neighbours,
        key=lambda each: (
            fold(each.content) == words,
            each.cosine if each.cosine is not None else -1.0,
            each.updated_at,
        ),
        reverse=True,
    )
    found, left = list[Neighbour](), _MOST_READ
    for each in ranked:
        left -= len(content) + len(each.content)
        if found and left < 0:
            break
        found.append(each)
    return found


def _says_something_new(plan: Plan) -> bool:
    return bool(plan.creations) or any(
        change.before.status != change.after.status or change.before.content != change.after.content
        for change in plan.rewrites
    )


def _joined(
    name: str, known: Mapping[str, Any], given: Mapping[str, Any], statement: StatementToSave
) -> dict[str, Any]:
    joined = {**known, **given}
    if known and given and not fits_struct(joined):
        raise invalid(
            f"{statement.path}{name}",
            f"would exceed {MAX_STRUCT_BYTES} bytes together with the memory's existing "
            "values: clear some of these with UpdateMemory",
        )
    return joined


def _with_joined(known: Memory, statement: StatementToSave) -> Memory:
    """A memory with the fields that only the caller can provide, if they may be joined to it."""
    if outranks(known.origin, statement.origin):
        return known
    return replace(
        known,
        metadata=_joined("metadata", known.metadata, statement.metadata, statement),
        context=_joined("context", known.context, statement.item.context, statement),
        expires_at=statement.expires_at or known.expires_at,
        sensitive=known.sensitive or statement.sensitive,
    )


async def _join(
    user: UserRows, occasion: Occasion, memory_id: UUID, statement: StatementToSave
) -> None:
    """Add the fields that only the caller can provide to a known memory, with a next version.

    `occasion.joined` is what the memory became if the plan has written that version. A less trusted
    statement adds nothing to a more trusted memory.
    """
    held = await editing.read_one(user, memory_id)
    before, after = occasion.joined or (held.memory, _with_joined(held.memory, statement))
    if after == before:
        return
    # For a roll-back of its document.
    stated = NewStatement(
        "joined",
        held.memory.version + (occasion.joined is None),
        occasion.joined is None,
        statement.origin,
        occasion.at,
        {
            "metadata": dict(statement.metadata),
            "context": dict(statement.item.context),
            "expires_at": statement.expires_at.isoformat() if statement.expires_at else None,
            "sensitive": statement.sensitive,
        },
        memory_id=memory_id,
        conversation_id=statement.conversation_id,
        document_id=document_of(statement.metadata, statement.item.context),
    )
    if occasion.joined is None:
        edited = replace(held, memory=after)
        event = await write_next(user, held, edited, "updated", "saved again", at=occasion.at)
        await ledger.record(user, None, [event], actor=occasion.actor)
    await statements.record(user, [stated])
