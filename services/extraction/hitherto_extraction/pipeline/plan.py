"""Decides what a reply changes, given what is known now. Pure: rows in, `operations` out.

New statements come first: one that is known already confirms the known memory, and one that reads
as an instruction waits for review (docs/extraction.md). Updates (`updates`), then endings
(`closures`) come last, all under one limit (`caps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from uuid import UUID

import numpy as np

from hitherto_extraction.pipeline import closures, trust, updates
from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.dedupe import (
    Neighbour,
    find_duplicate,
    find_forgotten,
    same_words,
)
from hitherto_extraction.pipeline.draft import Draft, Situation, hides, may_change, whole
from hitherto_extraction.pipeline.merge import WORDS, MergeableMemory, merge_update
from hitherto_extraction.pipeline.operations import Creation, Plan, Refused
from hitherto_extraction.pipeline.source_statements import begins, words_of
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.offloading import end_if_given_up


def make_plan(situation: Situation) -> Plan:
    """Decide what to write, unless nobody waits for it any more (`GivenUp`)."""
    draft = Draft(situation)
    for item in situation.answer.new:
        end_if_given_up()
        _StatedItem(draft, item).add()
    _change(draft)
    draft.plan.stated = draft.stated_by
    draft.plan.after = {
        **{each.memory_id: (each.status, whole(each)) for each in draft.now.values()},
        **{
            each.memory_id: (each.status, f"{each.item.content}\n{each.item.detail}")
            for each in draft.plan.creations
        },
    }
    known = situation.known.values()
    draft.plan.sealed = frozenset(each.memory_id for each in known if each.sealed) | {
        made.memory_id for made in draft.plan.creations if made.sealed
    }
    draft.plan.sensitive = frozenset(
        each.memory_id for each in known if is_sensitive(each.type, each.sensitive)
    )
    return draft.plan


def _change(draft: Draft) -> None:
    """Apply updates and endings, all of them or none above the limit; requests to forget apart.

    Above it, endings that leave nothing for a reconciliation are made, if the limit allows these.
    """
    changes = updates.permitted(draft)
    closures.withhold(draft)
    closures.quarantine_challengers(draft)
    endings, requests = closures.collect(draft)
    room = draft.situation.room
    # Another update of the same reply may be newer than a request.
    said_at = {each.after.memory_id: each.after.said_at for each in changes}
    asked = {
        each.known.memory_id
        for each in requests
        if each.evidence.said_at >= said_at.get(each.known.memory_id, each.known.said_at)
    }
    if too_many := room.refuses(0, 0, len(asked)):
        asked.clear()
    # What is forgotten needs no other end.
    endings = [each for each in endings if each.known.memory_id not in asked]
    why = room.refuses(len(endings), len(changes), len(asked))
    alone = closures.unlinked(endings) if why is not None else []
    if room.refuses(len(alone), 0, len(asked)):
        alone = []
    # Where updates are set aside, a request that is older than these is not too late.
    every = {each.known.memory_id for each in requests}
    beyond = too_many or (why and room.refuses(0, 0, len(every)))
    for change in changes:
        end_if_given_up()
        if why is not None:
            updates.set_aside(draft, change, why)
        else:
            updates.refine(draft, change)
    for request in requests:
        late = request.known.memory_id not in asked
        closures.close(draft, request, beyond if late else too_many)
    for ending in endings:
        closures.close(draft, ending, None if ending in alone else why)


class _StatedItem:
    """A new statement of a reply, and whether it is a new or a known memory."""

    def __init__(self, draft: Draft, item: NewItem) -> None:
        self._draft = draft
        self._item = item
        self._evidence = draft.situation.witnesses.for_new(item.source_ids, item.origin)
        self._suspect = trust.is_suspect(
            (item.content, item.detail), trusted=self._evidence.trusted
        )
        self._words = words_of(item, self._evidence, suspect=self._suspect)

    def add(self) -> None:
        """Create a memory from the statement, or add it to the memory that says the same."""
        item, draft, suspect = self._item, self._draft, self._suspect
        near = self._near()
        sensitive = is_sensitive(item.type, marked=False)
        duplicate = find_duplicate(item.type, item.content, near, sensitive=sensitive)
        if duplicate is None:
            self._add_other(near)
        elif (twin := draft.creation_of(duplicate.memory_id)) is not None:
            self._join_twin(twin)
        elif duplicate.status == "forgotten":
            self._say_again(draft.now[duplicate.memory_id])
        elif suspect or (duplicate.status == "quarantined" and not self._evidence.trusted):
            self._add_source(draft.now[duplicate.memory_id])
        elif duplicate.status == "quarantined":
            self._restate(draft.now[duplicate.memory_id], "the user said it")
        elif duplicate.original is not None:
            self._repeat(draft.now[duplicate.memory_id], duplicate.original)
        else:
            self._merge(draft.now[duplicate.memory_id])

    def _add_other(self, near: Sequence[Neighbour]) -> None:
        """Add a statement in words that no known memory has."""
        item, draft = self._item, self._draft
        known = draft.current(item.same_as) if item.same_as is not None else None
        if known is not None and not self._suspect and not known.is_over(self._evidence.said_at):
            self._merge(known, in_other_words=True)
            return
        hidden = find_forgotten(near, draft.situation.threshold)
        if hidden and not self._brings_back(draft.now[hidden.memory_id]):
            # The same in other words: what was said before the forgetting stays forgotten.
            self._stay_forgotten(draft.now[hidden.memory_id], repeats=True)
            return
        self._create(uuid7())

    def _stay_forgotten(self, known: CurrentMemory, *, repeats: bool = False) -> None:
        """Keep a memory forgotten; `repeats`: the statement says it in words of its own."""
        if known.taken_back_from is None:
            # It hides these messages too, and they state it once the request is taken back.
            self._draft.note_sources(known.memory_id, self._evidence)
            self._note_said(known, repeats=repeats)
        place = f"new_memories[{self._item.index}]"
        self._draft.plan.refusals.append(Refused.of(place, "kept_forgotten"))

    def _near(self) -> list[Neighbour]:
        """Known memories near the statement, and those this reply has just created.

        What had expired before it was said is left out, or it would be told to nobody; so is a goal
        that had been reached before the user set it again. A suspect statement matches current
        memories only by its exact words, such as one that a review approved: it never rewords a
        trusted memory.
        """
        item, situation = self._item, self._draft.situation
        found = [
            near
            for near in situation.neighbours.get(item.index, ())
            if near.status not in CURRENT_STATUSES
            or not self._has_passed(self._draft.now[near.memory_id])
        ]
        vector = situation.vectors.get(item.index)
        for made in self._draft.plan.creations:
            other = situation.vectors.get(made.position)
            both = vector is not None and other is not None
            found.append(
                Neighbour(
                    memory_id=made.memory_id,
                    type=made.item.type,
                    content=made.item.content,
                    status=made.status,
                    cosine=float(np.dot(vector, other)) if both else None,  # type: ignore[arg-type]
                    updated_at=made.evidence.said_at,
                    sensitive=is_sensitive(made.item.type, made.sensitive),
                )
            )
        if not self._suspect:
            return found
        return [
            near
            for near in found
            if near.status not in CURRENT_STATUSES or same_words(near.content, item.content)
        ]

    def _create(
        self, memory_id: UUID, *, instead_of: CurrentMemory | Creation | None = None
    ) -> None:
        """Add a new memory; one `instead_of` a sensitive one, which says the same, is so too."""
        item, evidence = self._item, self._evidence
        if item.expires_at is not None and item.expires_at <= evidence.said_at:
            # A mistake, such as the year before: nobody would ever be told.
            place, kept = f"new_memories[{item.index}].expires_at", "it stays without an expiry"
            refused = Refused.of(place, "refused_expired", kept, memory_id)
            self._draft.plan.refusals.append(refused)
            item = replace(item, expires_at=None)
        made = Creation(
            memory_id,
            item.index,
            item,
            evidence,
            begins(item, evidence),
            status="quarantined" if self._suspect else "active",
            sensitive=instead_of is not None and hides(instead_of),
            sealed=instead_of is not None and instead_of.sealed,
        )
        self._draft.plan.creations.append(made)
        self._note(memory_id, mentions=not self._suspect)

    def _join_twin(self, twin: Creation) -> None:
        """Merge the statement into an equal one of the same reply."""
        self._draft.plan.repeated += 1
        if self._evidence.trusted and not twin.evidence.trusted and not self._suspect:
            # The user's statement is the user's, even if the assistant's words came first.
            self._draft.plan.creations.remove(twin)
            self._create(twin.memory_id, instead_of=twin)
        else:
            self._note(twin.memory_id, mentions=twin.status == "active" and not self._suspect)

    def _say_again(self, known: CurrentMemory) -> None:
        if not self._brings_back(known):
            self._stay_forgotten(known)
        elif known.partly_taken_back or known.taken_back_from is not None:
            # The old one still has what was taken back, whoever asked to forget it too.
            self._create(uuid7(), instead_of=known)
        else:
            self._restate(known, "the user said it again")

    def _restate(self, known: CurrentMemory, reason: str) -> None:
        """Bring a quarantined or forgotten memory back in the user's own words."""
        item, evidence = self._item, self._evidence
        after = replace(
            known,
            version=known.version + 1,
            status="active",
            expires_at=known.expiry_after(evidence.said_at),
            **asdict(_mergeable(item, evidence.origin, evidence.said_at)),
        )
        self._draft.rewrite(known, after, "restored", reason, ("new", item.index), evidence.text)
        self._note_said(known)
        self._note(known.memory_id, mentions=True)

    def _add_source(self, known: CurrentMemory) -> None:
        """Record a repetition, which adds no weight."""
        self._note(known.memory_id, mentions=False)
        self._note_said(known)

    def _repeat(self, known: CurrentMemory, original: UUID) -> None:
        """Record that a part of a merged memory was repeated; the wording stays the merged one.

        The part gets the source too, so that the source is not lost if the merge is reverted.
        """
        self._note(known.memory_id, mentions=True)
        self._draft.note_sources(original, self._evidence)
        self._note_said(known, repeats=True)
        self._note_said(self._draft.now[original])
        if may_change(self._evidence, known):
            confirmed = self._draft.plan.confirmed
            said_at = max(known.said_at, self._evidence.said_at)
            confirmed[known.memory_id] = max(said_at, confirmed.get(known.memory_id, said_at))

    def _merge(self, known: CurrentMemory, *, in_other_words: bool = False) -> None:
        """Confirm a memory; statements `in_other_words` leave it its own."""
        item, evidence = self._item, self._evidence
        if in_other_words:
            item = replace(item, content=known.content, detail="")
        merged = merge_update(
            _mergeable(known, known.origin, known.said_at),
            _mergeable(item, evidence.origin, evidence.said_at),
        )
        self._note(known.memory_id, mentions=True)
        if may_change(evidence, known):
            self._draft.plan.confirmed[known.memory_id] = merged.after.said_at
        if merged.changed:
            after = replace(known, version=known.version + 1, **asdict(merged.after))
            vector_of = ("new", item.index) if after.content != known.content else None
            self._draft.rewrite(known, after, "merged", "said again", vector_of, evidence.text)
        self._note_said(known, repeats=in_other_words)

    def _note(self, memory_id: UUID, *, mentions: bool) -> None:
        self._draft.stated_by[self._item.index] = memory_id
        self._draft.note_sources(memory_id, self._evidence)
        if mentions:
            self._draft.plan.mentions.append((memory_id, self._item))

    def _note_said(self, known: CurrentMemory, *, repeats: bool = False) -> None:
        words = self._words | {"repeats": repeats}
        self._draft.note_said(known, "said", self._evidence, words)

    def _brings_back(self, forgotten: CurrentMemory) -> bool:
        """Whether the statement brings a forgotten memory back."""
        if self._suspect or not self._evidence.trusted:
            return False
        return forgotten.may_be_said_again(self._evidence.said_at, self._evidence.sources)

    def _has_passed(self, known: CurrentMemory) -> bool:
        """Whether the same words say something new, as the known memory was over."""
        if known.is_over(self._evidence.said_at):
            return True
        return self._evidence.trusted and known.was_reached(self._evidence.said_at)


def _mergeable(said: NewItem | CurrentMemory, origin: str, said_at: datetime) -> MergeableMemory:
    words = {name: getattr(said, name) for name in WORDS}
    return MergeableMemory(**words, origin=origin, said_at=said_at)
