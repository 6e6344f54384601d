"""Decides which proposals of a reconciliation are carried out. Pure: rows in, decisions out.

The rules are those of learning (docs/extraction.md); what somebody has undone is not done again.
Nothing is joined whose numbers the kept words lack, that is sealed while the other is not, or that
holds for longer than the kept memory.
Above the limits of the job and the day, only endings are carried out: of as many statements as
there is room for, with all that each of them ends; the next jobs go on with the others. Doubts have
the limit of a job for themselves; above it none is cast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.caps import ChangeAllowance, allowed_changes
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.operations import Refused
from hitherto_extraction.reconciliation.reply import Proposals, Proposed
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.reconciliation import MemoryLinks
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_shared.models import CURRENT_STATUSES

_LASTING = "learning"


@dataclass(frozen=True, slots=True)
class ReconciliationRows:
    """What a reply is judged by, read under the user's lock.

    Attributes:
        local: The memory behind each local id.
        settled: Pairs that a reconciliation wrote about before, and what it did.
        room: The changes that are still allowed; None: any number, as no model proposed them.
        doubts: The doubts of earlier calls of the job.
        reached: Goals that were reached, as what may replace them says.
    """

    local: Mapping[str, UUID]
    known: Mapping[UUID, CurrentMemory]
    links: Mapping[UUID, MemoryLinks]
    settled: Collection[tuple[UUID, UUID, str]]
    room: ChangeAllowance | None
    doubts: int = 0
    reached: Collection[UUID] = ()


@dataclass(frozen=True, slots=True)
class Doubting:
    """A memory that may no longer hold since another changed."""

    memory_id: UUID
    because: UUID
    reason: str
    since: datetime


@dataclass(slots=True)
class Settlement:
    """What is to be written.

    `joins` and `endings` name the memory that stays for each; what is `reached` ends as a goal
    does. `left` replaces others too, for which the limit of the job leaves no room.
    """

    joins: dict[UUID, UUID] = field(default_factory=dict)
    endings: dict[UUID, UUID] = field(default_factory=dict)
    reached: set[UUID] = field(default_factory=set)
    doubts: list[Doubting] = field(default_factory=list)
    certain: list[UUID] = field(default_factory=list)
    refusals: list[Refused] = field(default_factory=list)
    left: list[UUID] = field(default_factory=list)


def settle(proposals: Proposals, rows: ReconciliationRows) -> Settlement:
    """Decide what to carry out."""
    return _Settling(rows).run(proposals)


class _Settling:
    def __init__(self, rows: ReconciliationRows) -> None:
        self._rows = rows
        self._made = Settlement()
        # The memories that others are to be replaced by: these stay.
        self._staying = set[UUID]()

    def run(self, proposals: Proposals) -> Settlement:
        for each in proposals.replaced:
            self._take(each, self._why_not_replaced, self._made.endings)
        for each in proposals.same:
            self._take(each, self._why_not_same, self._made.joins)
        self._within_limits()
        self._made.reached |= {
            old
            for old, new in self._made.endings.items()
            if old in self._rows.reached
            and old in self._rows.links[new].may_replace
            and self._rows.known[old].status == "active"
        }
        for each in proposals.doubtful:
            self._doubt(each)
        self._within_limit_of_doubts()
        for name in proposals.certain:
            known = self._of(name)
            if known is not None and self._stands(known):
                self._made.certain.append(known.memory_id)
        return self._made

    def _of(self, name: str) -> CurrentMemory | None:
        memory_id = self._rows.local.get(name)
        return self._rows.known.get(memory_id) if memory_id is not None else None

    def _stands(self, known: CurrentMemory) -> bool:
        """Whether a memory is current, and stays so as far as decided yet."""
        return (
            known.status in CURRENT_STATUSES
            and known.memory_id not in self._made.endings
            and known.memory_id not in self._made.joins
        )

    def _take(
        self,
        proposed: Proposed,
        why_not: Callable[[CurrentMemory, CurrentMemory], str | None],
        decided: dict[UUID, UUID],
    ) -> None:
        """Let a memory stand for another, unless something speaks against it."""
        ends, by = self._of(proposed.memory), self._of(proposed.other)
        if (
            ends is None
            or by is None
            or not (self._stands(ends) and self._stands(by))
            or ends.memory_id in self._staying
        ):
            self._refuse(proposed.item, "refused_unknown", ends)
        elif (why := why_not(ends, by)) is not None:
            self._refuse(proposed.item, why, ends)
        else:
            decided[ends.memory_id] = by.memory_id
            self._staying.add(by.memory_id)

    def _refuse(self, item: str, reason: str, known: CurrentMemory | None) -> None:
        memory_id = known.memory_id if known is not None else None
        self._made.refusals.append(Refused.of(item, reason, memory_id=memory_id))

    def _why_not_replaced(self, old: CurrentMemory, new: CurrentMemory) -> str | None:
        if trust.outranks(old.origin, new.origin):
            return "refused_by_trust"
        named = old.memory_id in self._rows.links[new.memory_id].may_replace
        if new.said_at < old.said_at or (new.said_at == old.said_at and not named):
            return "refused_late"
        undone = any(self._undone(old, new, action) for action in ("contradicted", "achieved"))
        return "refused_undone" if undone else None

    def _why_not_same(self, other: CurrentMemory, keep: CurrentMemory) -> str | None:
        if other.status != keep.status:
            return "refused_unknown"
        if trust.outranks(other.origin, keep.origin):
            return "refused_by_trust"
        if _hidden(keep) != _hidden(other) or keep.sealed != other.sealed:
            return "refused_sensitive"
        if keep.expires_at is not None and (
            other.expires_at is None or keep.expires_at < other.expires_at
        ):
            return "refused_expiry"
        if strange(other.content, [keep.content], ()):
            return "refused_digits"
        if self._undone(other, keep, "superseded") or self._undone(keep, other, "superseded"):
            return "refused_undone"
        return None

    def _undone(self, known: CurrentMemory, other: CurrentMemory, action: str) -> bool:
        """Whether a reconciliation did this before, and somebody has taken it back."""
        return (known.memory_id, other.memory_id, action) in self._rows.settled

    def _within_limits(self) -> None:
        """Above the limit, carry out as many statements as it allows, each with all that it ends.

        A model that reads the conversation and one that reads the memories both say that they end,
        by whatever statement, and each statement stands for itself: a person tells of many changes
        at once. Those that end least come first. The next job goes on with the others.
        """
        made, room = self._made, self._rows.room
        why = room.refuses(len(made.endings) + len(made.joins)) if room is not None else None
        if why is None or room is None:
            return
        named = defaultdict[UUID, list[UUID]](list)
        for memory_id, links in self._rows.links.items():
            known = self._rows.known.get(memory_id)
            if known is None or known.status in CURRENT_STATUSES:
                for old in links.may_replace:
                    named[old].append(memory_id)
        said = defaultdict[UUID, list[UUID]](list)
        for old, new in made.endings.items():
            if old in named:
                said[new].append(old)
        kept: dict[UUID, UUID] = {}
        for new, ended in sorted(said.items(), key=lambda each: len(each[1])):
            if room.refuses(len(kept) + len(ended)) is None:
                kept |= dict.fromkeys(ended, new)
        left = [old for ended in said.values() for old in ended if old not in kept]
        if not kept and not room.job.closed:
            left.clear()
        for memory_id in (*made.endings, *made.joins):
            if memory_id not in kept and memory_id not in left:
                self._refuse("replaced, same", why, self._rows.known[memory_id])
        going_on = (each for old in left for each in (*named[old], made.endings[old]))
        made.left = [each for each in dict.fromkeys(going_on) if each not in kept]
        made.endings = kept
        made.joins.clear()

    def _doubt(self, proposed: Proposed) -> None:
        known, cause = self._of(proposed.memory), self._of(proposed.other)
        if known is None or cause is None:
            self._refuse(proposed.item, "refused_unknown", known)
            return
        if (why := self._why_not_doubtful(known, cause)) is not None:
            self._refuse(proposed.item, why, known)
            return
        told = cause.sealed or known.sealed or _is_order(proposed.reason, cause)
        since = cause.valid_from if cause.status in CURRENT_STATUSES else cause.valid_to
        self._made.doubts.append(
            Doubting(
                known.memory_id,
                cause.memory_id,
                "" if told else proposed.reason,
                max(since or cause.said_at, known.valid_from),
            )
        )

    def _why_not_doubtful(self, known: CurrentMemory, cause: CurrentMemory) -> str | None:
        if known.status != "active" or not self._stands(known):
            return "refused_unknown"
        if known.type == _LASTING or known.valid_to is not None:
            # What was learnt, and what is over, stays true.
            return "refused_past"
        if known.doubtful or any(known.memory_id == each.memory_id for each in self._made.doubts):
            return "refused_unchanged"
        if trust.outranks(known.origin, cause.origin):
            return "refused_by_trust"
        if known.said_at >= cause.changed_at:
            return "refused_late"
        return "refused_undone" if self._undone(known, cause, "updated") else None

    def _within_limit_of_doubts(self) -> None:
        made, rows = self._made, self._rows
        if rows.room is None:
            return
        if rows.doubts + len(made.doubts) > allowed_changes(rows.room.active_count):
            for each in made.doubts:
                self._refuse("doubtful", "refused_over_cap", rows.known[each.memory_id])
            made.doubts.clear()


def _hidden(known: CurrentMemory) -> bool:
    return is_sensitive(known.type, known.sensitive)


def _is_order(reason: str, cause: CurrentMemory) -> bool:
    return trust.is_suspect([reason], trusted=trust.is_higher(cause.origin))
