"""Which new memories say what the user's other memories say already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.extraction.nearness import Nearness
from benchmarks.extraction.observed import MemoryOutcome, ObservedMemory
from benchmarks.extraction.wording import contains_all
from hitherto_extraction.pipeline.dedupe import Neighbour, find_duplicate

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def repeated(
    learnt: Sequence[ObservedMemory],
    fates: Sequence[MemoryOutcome],
    met: frozenset[int],
    nearness: Nearness,
) -> dict[int, str]:
    """The new memories that repeat one, each with the text it repeats.

    A memory repeats another active one of the user, older or learnt before it, if the service's
    own rule finds them one statement, whatever their types. It also repeats an older one that
    stayed active if it has all the words by which that one is recognised and met no expectation.

    Args:
        learnt: The new current memories, in the order in which they were made.
        fates: The memories from before.
        met: Positions in `learnt` of memories that met an expectation.
        nearness: The embedder's view.
    """
    known = [fate.after for fate in fates if fate.after.status == "active"]
    found: dict[int, str] = {}
    for position, memory in enumerate(learnt):
        same = find_duplicate(
            memory.type,
            memory.content,
            [_neighbour(number, other, memory, nearness) for number, other in enumerate(known)],
            nearness.same,
        )
        if same is not None:
            found[position] = same.content
        elif position not in met:
            for fate in fates:
                words = fate.wanted.contains
                if fate.after.status == "active" and words and contains_all(memory.content, words):
                    found[position] = fate.after.content
        known.append(memory)
    return found


def _neighbour(
    number: int, other: ObservedMemory, memory: ObservedMemory, nearness: Nearness
) -> Neighbour:
    # The service keeps types apart; for the reader the same sentence twice is one too many.
    return Neighbour(
        memory_id=UUID(int=number),
        type=memory.type,
        content=other.content,
        status="active",
        origin="user",
        cosine=nearness.of(memory.content, other.content),
        valid_from=_NEVER,
        updated_at=_NEVER,
    )
