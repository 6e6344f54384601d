"""Writes a plan: every row of one reply, on the connection of the worker's last transaction.

The history records each operation of it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.closures import CHALLENGES, FORGETTING
from hitherto_extraction.pipeline.crowded_tags import Crowding, tags_touched
from hitherto_extraction.pipeline.indexing import IndexEntry, index_plan, last_rewordings
from hitherto_extraction.pipeline.operations import Creation, Occasion, Plan, Rewrite
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.source_statements import statements_of
from hitherto_extraction.pipeline.versions import write_sealed
from hitherto_extraction.storage import (
    editing,
    ledger,
    memories,
    mentions,
    sealed_memories,
    statements,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model

_REWRITTEN = (
    "content", "detail", "importance", "confidence", "origin", "status", "tags", "keywords",
)  # fmt: skip
"""The fields of a memory that a plan may change."""
_CLOSED = ("status", "importance", "valid_to")
"""Those that its end changes."""
_GIVEN = ("metadata", "context", "expires_at", "sensitive")
"""Those that only a caller can provide."""
_DOUBTS = "reconciliation"
_WITHOUT_SUCCESSOR = ("active", "quarantined", "forgotten")


async def write_plan(
    user: UserRows,
    occasion: Occasion,
    plan: Plan,
    vectors: Vectors,
    *,
    also_said: Sequence[NewStatement] = (),
    crowding: Crowding | None = None,
) -> None:
    """Write everything in `plan`, with its history and its index entries.

    `user` is in a transaction of a caller that holds the user's row. `also_said` are statements
    about something else than memories, to be recorded with those. `crowding` looks at the tags of
    the memories once these are written.
    """
    encrypts = (await users.encryption_of(user)).on
    if encrypts:
        plan = replace(plan, sealed=_to_seal(plan, occasion))
    vectors, numbers = await together(
        user.connection,
        _of_active_model(user.connection, vectors),
        index_plan(user, plan, heard=not encrypts),
    )
    writing = _Writing(user, occasion, plan, vectors, numbers)
    await writing.create()
    await writing.write_versions()
    for memory_id, said_at in plan.confirmed.items():
        await memories.confirm(user, memory_id, said_at)
    for memory_id, challenged in plan.challenges:
        await memories.add_challenge(user, memory_id, challenged)
    for memory_id, older in plan.may_replace:
        await memories.add_may_replace(user, memory_id, older)
    # The words of messages that may stand in clear.
    quotes = {k: v for k, v in plan.quotes.items() if not (encrypts or k[0] in plan.sealed)}
    await memories.add_sources(user, list(dict.fromkeys(plan.sources)), quotes)
    after_memories: list[Coroutine[Any, Any, object]] = [
        mentions.mention(
            user,
            [
                (memory_id, entity.name, entity.type)
                for memory_id, item in plan.mentions
                for entity in item.entities
                if memory_id not in plan.sealed
            ],
        )
    ]
    if crowding is not None:
        after_memories.append(crowding.look(user, tags_touched(plan)))
    await together(user.connection, *after_memories)
    await statements.record(user, [*also_said, *statements_of(plan, occasion)])
    events = events_of(plan, occasion, quoted=not encrypts)
    await ledger.record(user, occasion.job_id, events, actor=occasion.actor)
    changed = [
        each.after.memory_id
        for each in plan.rewrites
        if "forgotten" in (each.action, each.before.status)
    ]
    hidden = [made.memory_id for made in plan.creations if made.status == "forgotten"]
    if changed or hidden:
        await mentions.recount(user, [*changed, *hidden])
    # No change of a model's, which would count as one of the day.
    await doubts.follow(user, changed, actor=_DOUBTS, job_id=occasion.job_id)
    await doubts.settle(user, plan.confirmed, actor=_DOUBTS, job_id=occasion.job_id)


def _to_seal(plan: Plan, occasion: Occasion) -> frozenset[UUID]:
    """The memories of a plan that are sealed once it is written for a user with encryption on."""
    marked = occasion.marked
    new = {
        made.memory_id
        for made in plan.creations
        if is_sensitive(made.type, marked or made.sensitive)
    }
    known = {change.after.memory_id for change in plan.rewrites if marked}
    return plan.sealed | plan.sensitive | new | known


async def _of_active_model(connection: Connection, vectors: Vectors) -> Vectors:
    """The vectors, or none if another model has become active since they were computed."""
    active = await active_model(connection)
    return vectors if active is not None and active[0] == vectors.model else Vectors()


@dataclass(frozen=True, slots=True)
class _Writing:
    """A plan that is being written, with the vectors that still count and its index entries."""

    user: UserRows
    occasion: Occasion
    plan: Plan
    vectors: Vectors
    numbers: Mapping[UUID, IndexEntry]

    async def create(self) -> None:
        """Write the new memories with their vectors."""
        creations, sealed, found = self.plan.creations, self.plan.sealed, self.vectors.found
        await memories.insert(self.user, list(map(self._made, creations)))
        for made in creations:
            if made.superseded_by is not None:
                await memories.add_superseded(self.user, made.memory_id, by=made.superseded_by)
        await memories.write_vectors(
            self.user,
            [
                (made.memory_id, made.status, found[made.vector_of])
                for made in creations
                if made.vector_of in found
            ],
            model=self.vectors.model,
        )
        await self._seal_vectors([made for made in creations if made.memory_id in sealed])
        await memories.write_source_vectors(
            self.user,
            [
                (made.memory_id, found["source", made.position])
                for made in creations
                if made.list_name == "new" and ("source", made.position) in found
            ],
            model=self.vectors.model,
        )

    async def _seal_vectors(self, creations: Sequence[Creation]) -> None:
        for made in creations:
            vector = self.vectors.found.get(made.vector_of)
            if vector is None:
                # The sweep creates it.
                await users.leave_to_seal(self.user)
                continue
            await sealed_memories.write_vector(
                self.user,
                made.memory_id,
                vector,
                model=self.vectors.model,
                text_version=1,
            )

    def _made(self, made: Creation) -> EditableMemory:
        indexed = self.numbers[made.memory_id]
        return EditableMemory(
            self.occasion.memory_of(made),
            said_at=made.evidence.said_at,
            challenges=made.challenges,
            lexical_no=indexed.lexical_no,
            lexical_length=indexed.length,
            embedding_state="stored" if made.vector_of in self.vectors.found else "pending",
            sealed=made.sealed,
            questions=made.item.questions,
        )

    async def write_versions(self) -> None:
        """Write the next versions of known memories, in the order of the plan."""
        changed = [*self.plan.rewrites, *self.plan.closures]
        if not changed:
            return
        held = await editing.read(self.user, [each.before.memory_id for each in changed])
        reworded = last_rewordings(self.plan)
        for change in self.plan.rewrites:
            memory_id = change.before.memory_id
            last = reworded.get(memory_id) is change
            indexed = self.numbers.get(memory_id) if last else None
            held[memory_id] = await self._rewrite(held[memory_id], change, indexed)
        for closure in self.plan.closures:
            memory_id = closure.before.memory_id
            held[memory_id] = await self._close(held[memory_id], closure)
        # Not before: what replaces one may be closed too, as it was read above.
        for closure in self.plan.closures:
            if (by := closure.superseded_by) is not None:
                await memories.add_superseded(self.user, closure.before.memory_id, by=by)

    async def _rewrite(
        self, held: EditableMemory, change: Rewrite, indexed: IndexEntry | None
    ) -> EditableMemory:
        """Write the next version of a memory; without `indexed`, its index entries stay."""
        occasion, memory_id, status = self.occasion, held.memory.memory_id, change.after.status
        columns = {name: getattr(change.after, name) for name in (*_REWRITTEN, "expires_at")}
        if occasion.joined is not None:
            columns |= {name: getattr(occasion.joined[1], name) for name in _GIVEN}
        if status in _WITHOUT_SUCCESSOR:
            columns["superseded_by"] = None
        after = replace(
            held.changed(**columns, doubt=None),
            said_at=change.after.said_at,
            challenges=held.challenges if status == "quarantined" else (),
        )
        model, found = self.vectors.model, self.vectors.found
        vector = found.get(change.vector_of) if change.vector_of is not None else None
        at, job_id = occasion.at, occasion.job_id
        if memory_id in self.plan.sealed:
            embedded = None if vector is None else (model, vector)
            return await write_sealed(self.user, held, after, at=at, vector=embedded, job_id=job_id)
        after = replace(after, questions=change.after.questions)
        if indexed is not None:
            after = replace(after, lexical_no=indexed.lexical_no, lexical_length=indexed.length)
        if change.vector_of is not None:
            after = replace(after, embedding_state="pending" if vector is None else "stored")
        after = await editing.write_version(self.user, after, at=at, job_id=job_id)
        if vector is not None:
            await memories.write_vectors(self.user, [(memory_id, status, vector)], model=model)
        kind, position = change.vector_of or ("", 0)
        source = found.get(("source", position)) if kind == "new" else None
        if source is not None:
            await memories.write_source_vectors(self.user, [(memory_id, source)], model=model)
        return after

    async def _close(self, held: EditableMemory, change: Rewrite) -> EditableMemory:
        """Write the end of a memory."""
        columns = {name: getattr(change.after, name) for name in _CLOSED}
        after = held.changed(**columns, superseded_by=change.superseded_by)
        occasion = self.occasion
        return await editing.write_version(self.user, after, at=occasion.at, job_id=occasion.job_id)


def events_of(plan: Plan, occasion: Occasion, *, quoted: bool) -> Sequence[ChangeEvent]:
    """The history of a plan; unless `quoted`, without what a model says of its reasons."""
    created = [
        ChangeEvent("created", 1, occasion.reason, made.memory_id, new_status=made.status)
        for made in plan.creations
    ]
    rewritten = [
        _event(
            change,
            change.reason,
            _challenged(plan, change) if change.action == "quarantined" else None,
        )
        for change in plan.rewrites
    ]
    withheld = [
        ChangeEvent(
            made.status,
            1,
            _why_withheld(made),
            made.memory_id,
            new_status=made.status,
            related=next(iter(made.challenges), None),
        )
        for made in plan.creations
        if made.status in ("quarantined", "forgotten")
    ]
    closed = [
        _event(
            change,
            _stored_reason(change, plan.sealed) if quoted else change.action,
            change.superseded_by,
        )
        for change in plan.closures
    ]
    return [*created, *withheld, *rewritten, *closed]


def _event(change: Rewrite, reason: str, related: UUID | None) -> ChangeEvent:
    return ChangeEvent(
        change.action,
        change.after.version,
        reason,
        change.before.memory_id,
        old_status=change.before.status,
        new_status=change.after.status,
        related=related,
    )


def _why_withheld(made: Creation) -> str:
    if made.status == "forgotten":
        return FORGETTING
    return CHALLENGES if made.challenges else "reads as an instruction to the assistant"


def _challenged(plan: Plan, change: Rewrite) -> UUID | None:
    return next((other for m, other in plan.challenges if m == change.after.memory_id), None)


def _stored_reason(change: Rewrite, sealed: frozenset[UUID]) -> str:
    """Why a memory ends; a model's reason may quote sealed text."""
    quotes = not sealed.isdisjoint({change.before.memory_id, change.superseded_by})
    return change.action if quotes else change.reason
