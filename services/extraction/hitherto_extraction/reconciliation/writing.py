"""Writes what a reconciliation settles: versions, links and history, each undone with its job.

Nothing is overwritten. A joined memory is SUPERSEDED by the one whose words stay, which takes over
its sources; a replaced one is CONTRADICTED. The caller holds the user's row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.closures import ACHIEVED_IMPORTANCE
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.reconciliation.settling import Doubting, Settlement
from hitherto_extraction.storage import (
    editing,
    known_memories,
    ledger,
    memories,
    reconciliation,
    superseded,
    users,
)
from hitherto_extraction.storage.doubts import doubt_of
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.user_rows import UserRows

ACTOR = "reconciliation"
_JOINED = "another memory says the same"
_REPLACED = "a later memory took its place"
_REACHED = "a later memory says that it was reached"
_DOUBTFUL = "something else has changed, and it may no longer hold"
_CERTAIN = "it holds after all"
_SAID_AGAIN = "it was said again since"
_SETTLED = "what it may replace is settled"


async def write_settlement(
    user: UserRows, made: Settlement, *, at: datetime, job_id: UUID | None
) -> None:
    """Carry out what was decided. If the user has encryption on, no message is quoted anew."""
    encrypts = (await users.encryption_of(user)).on
    writing = _SettlementWriting(user, at, job_id)
    unsettled = await reconciliation.unsettled_with(user, made.certain) if made.certain else []
    named = {
        *made.joins, *made.joins.values(), *made.endings, *made.endings.values(), *made.certain,
        *(each.memory_id for each in made.doubts), *unsettled,
    }  # fmt: skip
    held = await editing.read(user, sorted(named))
    ended: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for memory_id, by in made.endings.items():
        await writing.end(held[memory_id], held[by], reached=memory_id in made.reached)
        ended[by].append(memory_id)
    for memory_id, by in made.joins.items():
        await writing.join(held[memory_id], by)
        await reconciliation.join_sources(user, memory_id, into=by, quotes=not encrypts)
        ended[by].append(memory_id)
    await _settle(writing, held, made, ended, encrypts=encrypts)
    await ledger.record(user, job_id, writing.events, actor=ACTOR)
    await memories.confirm_anew(user, set(made.joins.values()))
    gone = [*(made.endings.keys() - made.reached), *made.joins]
    await drop_resting_on(user, gone, actor=ACTOR, job_id=job_id)


async def _settle(
    writing: _SettlementWriting,
    held: dict[UUID, EditableMemory],
    made: Settlement,
    ended: dict[UUID, list[UUID]],
    *,
    encrypts: bool,
) -> None:
    """Write what stays: what it replaced and may still replace, and whether it is in doubt."""
    doubts = {each.memory_id: each for each in made.doubts}
    older = {each for one in held.values() for each in one.memory.may_replace}
    # What was joined to a memory is settled as long as that stands for it, unless that has ended.
    present = await superseded.stand_ins(writing.user, older)
    kept = held.keys() - made.endings.keys() - made.joins.keys()
    known = await known_memories.read_known(writing.user, sorted(kept))
    for memory_id, before in held.items():
        if memory_id not in kept:
            continue
        memory, ends, doubting = before.memory, ended.get(memory_id, []), doubts.get(memory_id)
        settled = {*ends, *made.certain, memory_id}
        is_certain = memory_id in made.certain and doubting is None
        joined = [held[each] for each in ends if each in made.joins]
        named = [*memory.may_replace, *(one for each in joined for one in each.memory.may_replace)]
        left = [
            each
            for each in dict.fromkeys(named)
            if not (is_certain or settled.intersection((each, present.get(each))))
        ]
        doubt, reason, related = before.memory.doubt, _SETTLED, None
        said_at = known[memory_id].said_at
        if doubt is None and (source := _in_doubt(joined, said_at)) is not None:
            doubt, related = source.memory.doubt, source.memory.memory_id
        elif doubt is not None and datetime.fromisoformat(doubt["since"]) <= said_at:
            related = UUID(doubt["because"])
            doubt, reason = None, _SAID_AGAIN
        if doubting is not None:
            doubt = _told(doubting, before, encrypts=encrypts)
            reason, related = _DOUBTFUL, doubting.because
        elif is_certain:
            doubt, reason, related = None, _CERTAIN, None
        if left == list(memory.may_replace) and doubt == memory.doubt:
            for each in ends:
                await memories.add_superseded(writing.user, each, by=memory_id)
            continue
        after = before.changed(
            may_replace=left, doubt=doubt, supersedes=[*memory.supersedes, *ends]
        )
        await writing.change(before, after, reason, related=related)


def _in_doubt(joined: Sequence[EditableMemory], said_at: datetime) -> EditableMemory | None:
    """The first joined memory with a doubt that began after all of them were last said."""
    for each in joined:
        doubt = each.memory.doubt
        if doubt is not None and said_at < datetime.fromisoformat(doubt["since"]):
            return each
    return None


def _told(doubting: Doubting, held: EditableMemory, *, encrypts: bool) -> Mapping[str, Any]:
    """A doubt as a memory holds it: without words, if they must not stand in clear."""
    reason = "" if encrypts or held.sealed else doubting.reason
    return doubt_of(doubting.because, reason, doubting.since)


@dataclass(slots=True)
class _SettlementWriting:
    """Writes versions at one time by one job, and collects their history."""

    user: UserRows
    at: datetime
    job_id: UUID | None
    events: list[ChangeEvent] = field(default_factory=list)

    async def end(self, held: EditableMemory, by: EditableMemory, *, reached: bool) -> None:
        """Let a memory end when the one that replaces it begins to hold."""
        begins = max(by.memory.valid_from, held.memory.valid_from)
        by_id, weight = by.memory.memory_id, ACHIEVED_IMPORTANCE if reached else 1.0
        status, reason = ("achieved", _REACHED) if reached else ("contradicted", _REPLACED)
        after = held.changed(
            status=status,
            importance=held.memory.importance * weight,
            valid_to=begins,
            superseded_by=by_id,
            doubt=None,
        )
        await self.change(held, after, reason, action=status, related=by_id)

    async def join(self, held: EditableMemory, by: UUID) -> None:
        """Let another memory stand for one that says the same."""
        after = held.changed(status="superseded", superseded_by=by, doubt=None)
        await self.change(held, after, _JOINED, action="superseded", related=by)

    async def change(
        self,
        held: EditableMemory,
        after: EditableMemory,
        reason: str,
        *,
        action: str = "updated",
        related: UUID | None = None,
    ) -> None:
        """Write the next version of a memory."""
        event = await write_next(
            self.user,
            held,
            after,
            action,
            reason,
            at=self.at,
            job_id=self.job_id,
            related=related,
        )
        self.events.append(event)
