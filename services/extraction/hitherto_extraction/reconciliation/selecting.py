"""Selects what a reconciliation shows: what changed, and the memories that it may concern.

First what changed, with what each may replace and what stands near it; then, fused by rank, what
may rest on something else and was said before. What a change has ended is shown too, marked so,
because it tells what changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from uuid import UUID

from hitherto_extraction.pipeline import sealed_memories
from hitherto_extraction.pipeline.extraction_prompt import memory_in_prompt
from hitherto_extraction.pipeline.prompt import load_prompt, memory_line, zone_of
from hitherto_extraction.pipeline.selection import MAX_TOKENS, joined, within
from hitherto_extraction.provider.protocol import RECONCILIATION, Batch, Prompt, PromptMemory
from hitherto_extraction.storage import known_memories, reconciliation, settings
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.reconciliation import MemoryLinks
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.models import CURRENT_STATUSES

VERSION = "reconciliation_2"
MAX_LINES = 24
MAX_CHANGED = 20
"""The lines of a call that changed memories and their near ones may take, so that some are left for
what a change may concern."""
_NEAR = 3
"""Number of near memories that are shown with a changed one in any case."""
_NEAREST = 12
_ENDED_EACH = 2
_CHANGES = ("active", "achieved", "contradicted")
"""Statuses of memories whose change may concern others."""

_MAY_REST = frozenset({"fact", "personal", "context", "decision", "problem"})
"""Types of memories that may rest on another. Tastes, goals and what was learnt go on."""

_SYSTEM, _SCHEMA = load_prompt(VERSION)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one call shows: the memory behind each local id, in order, and how it stands to others.

    Attributes:
        looked_at: The number of changed ids, from the first one on, that are settled by this call.
        zone: The user's time zone, whose days the lines name.
    """

    local: Mapping[str, CurrentMemory]
    changed: Collection[UUID]
    links: Mapping[UUID, MemoryLinks]
    looked_at: int
    zone: tzinfo

    @property
    def is_worth_asking(self) -> bool:
        """Whether there is anything that a change could concern."""
        current = sum(each.status in CURRENT_STATUSES for each in self.local.values())
        others = {each.memory_id for each in self.local.values()} - set(self.changed)
        return bool(self.changed) and current > 0 and (current > 1 or bool(others))


async def select(
    user: UserRows,
    changed: Sequence[UUID],
    *,
    threshold: float,
    most: int = MAX_CHANGED,
    alone: bool = False,
) -> Shown:
    """What to show about the first of some changed memories, at most `most` of them.

    Two memories are near from the cosine `threshold` on. With `alone`, only what must be shown is.
    """
    wanted = list(changed[:most])
    known = await known_memories.read_known(user, wanted)
    active = await active_model(user.connection)
    near = (
        await sealed_memories.nearest(user, wanted, model=active[0], limit=_NEAREST)
        if active is not None
        else []
    )
    links = await reconciliation.read_links(user, wanted)
    unsettled = await reconciliation.unsettled_with(user, wanted)
    links |= await reconciliation.read_links(user, set(unsettled) - links.keys())
    beside = _beside(wanted, near, links, threshold)
    taken, lines = _that_fit(wanted, beside)
    first = [each for each in taken if each in known and known[each].status in _CHANGES]
    ended = [old for each in first for old in links[each].supersedes[-_ENDED_EACH:]]
    named, entities, tags, top = await together(
        user.connection,
        known_memories.read_known(user, [each for each in [*lines, *ended] if each not in known]),
        reconciliation.of_same_entities(user, taken, MAX_LINES),
        reconciliation.of_same_tags(user, taken, MAX_LINES),
        known_memories.read_top(user, MAX_LINES),
    )
    known |= named
    ranked = joined([[other for each, other, _ in near if each in set(taken)], entities, tags])
    known |= {each.memory_id: each for each in top if each.memory_id not in known}
    known |= await known_memories.read_known(user, [e for e in ranked if e not in known])
    rest = max(0, (MAX_LINES - len(lines)) * 3 // 4)
    order = [*first, *lines, *ended[:_NEAREST]]
    last = max((known[each].changed_at for each in first), default=None)
    resting = [each for each in ranked if each in known and _may_rest(known[each], last)]
    further = [each for each in resting if each not in set(order)][:rest]
    weighty = [each.memory_id for each in top if _may_rest(each, last)]
    around = () if alone else (*further, *weighty)
    chosen = _chosen([*order, *around], known, first, ended)
    links |= await reconciliation.read_links(user, {e.memory_id for e in chosen} - links.keys())
    return Shown(
        {f"e{i}": each for i, each in enumerate(chosen, 1)},
        [each for each in first if each in {one.memory_id for one in chosen}],
        links,
        len(taken),
        zone_of(await settings.read_zone(user)),
    )


def _beside(
    changed: Sequence[UUID],
    near: Iterable[tuple[UUID, UUID, float]],
    links: Mapping[UUID, MemoryLinks],
    threshold: float,
) -> dict[UUID, list[UUID]]:
    """For each changed memory those that have to be shown with it."""
    beside: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for memory_id, link in links.items():
        for older in link.may_replace:
            beside[memory_id].append(older)
            beside[older].append(memory_id)
    for memory_id, other, cosine in near:
        if cosine >= threshold and len(beside[memory_id]) < _NEAR:
            beside[memory_id].append(other)
    return {each: beside[each] for each in changed}


def _may_rest(known: CurrentMemory, last: datetime | None) -> bool:
    """Whether a memory may have become uncertain, or be certain again, by changes until `last`."""
    said_before = last is not None and known.said_at < last
    return said_before and known.status == "active" and known.type in _MAY_REST


def _that_fit(
    changed: Sequence[UUID], beside: Mapping[UUID, Sequence[UUID]]
) -> tuple[list[UUID], list[UUID]]:
    """The first changed memories that one call can show, and all that is shown for them."""
    taken: list[UUID] = []
    lines: dict[UUID, None] = {}
    for each in changed:
        more = lines | dict.fromkeys([each, *beside[each]])
        if taken and len(more) > MAX_CHANGED:
            break
        taken.append(each)
        lines = more
    return taken, list(lines)


def _chosen(
    order: Sequence[UUID],
    known: Mapping[UUID, CurrentMemory],
    changed: Collection[UUID],
    ended: Collection[UUID],
) -> list[CurrentMemory]:
    """The memories to show, in order, as far as they are current or tell what changed."""
    told = {*changed, *ended}
    found = [
        known[each]
        for each in dict.fromkeys(order)
        if each in known
        and (
            known[each].status in CURRENT_STATUSES
            or (each in told and known[each].status in _CHANGES)
        )
    ]
    return within(found[:MAX_LINES], MAX_TOKENS)


def build_prompt(shown: Shown) -> Prompt:
    """The prompt about what is shown."""
    names = {each.memory_id: name for name, each in shown.local.items()}
    memories = [_in_prompt(name, each, shown, names) for name, each in shown.local.items()]
    changed = [names[each] for each in shown.changed]
    return Prompt(
        system=_SYSTEM,
        user="\n".join(
            [
                "CHANGED:",
                " ".join(f"[{each}]" for each in changed),
                "",
                "MEMORIES:",
                *(memory_line(each, shown.zone) for each in memories),
            ]
        ),
        batch=Batch(profile={}, summary=None, memories=memories, messages=[]),
        schema=_SCHEMA,
        task=RECONCILIATION,
    )


def _in_prompt(
    name: str, known: CurrentMemory, shown: Shown, names: Mapping[UUID, str]
) -> PromptMemory:
    memory = memory_in_prompt(name, known)
    marks = list(memory.marks)
    if known.status not in CURRENT_STATUSES:
        day = known.valid_to.astimezone(shown.zone).date().isoformat() if known.valid_to else ""
        marks.append(f"ended {day}".rstrip())
    older = [names[each] for each in shown.links[known.memory_id].may_replace if each in names]
    if older:
        marks.append(f"may replace {', '.join(older)}")
    return replace(memory, marks=marks)
