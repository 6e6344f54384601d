"""Decides which merges of a reply are permitted, and derives a merged memory from its originals.

Pure: a reply and rows in, a row out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

from hitherto_extraction.consolidation.groups import Group, fit_together
from hitherto_extraction.consolidation.reply import MergedItem, Merges
from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import MAX_LABELS
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.free_json import fits_struct
from hitherto_extraction.pipeline.questions import kept
from hitherto_extraction.pipeline.updates import IMPORTANCE_STEP
from hitherto_extraction.storage.consolidation import Member
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CONFIDENCES, Memory

_AGREEING = 3
"""Number of conversations that make a merged memory certain if they agree."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A statement that replaces several, before the originals are read again.

    `words` are those of its sources. The vectors, of the content and of these words, are None if
    the embedder was down.
    """

    type: str
    content: str
    importance: float | None
    originals: tuple[Member, ...]
    words: str = ""
    content_vector: Vector | None = None
    words_vector: Vector | None = None


def accept(
    merges: Merges, group: Group, *, apart: Mapping[UUID, Collection[UUID]], zone: tzinfo
) -> tuple[list[Merge], int, int]:
    """The permitted merges of a reply, and how many of its items were dropped.

    The last number counts the dropped items whose statement holds a number that its originals lack,
    or lacks one of theirs, is longer than all of them together, or reads as an instruction.

    `apart` names, for each memory, the merges that a person has taken it out of; two memories with
    one of them in common are not merged again. `zone` is the person's time zone.
    """
    local = {f"e{i}": member for i, member in enumerate(group.members, 1)}
    found: list[Merge] = []
    dropped, refused = merges.dropped, 0
    for item in merges.items:
        originals = tuple(local[each] for each in item.merged)
        merge = Merge(_type(item, originals), item.content, item.importance, originals)
        if not _faithful(merge, zone):
            refused += 1
        elif _undone(originals, apart):
            dropped += 1
        else:
            found.append(merge)
    return found, dropped + refused, refused


def _type(item: MergedItem, originals: Sequence[Member]) -> str:
    """The model's type, if the originals' types permit it; else their most frequent type."""
    if all(fit_together(item.type, each.type) for each in originals):
        return item.type
    types = [each.type for each in originals]
    return max(types, key=lambda type_: (types.count(type_), -types.index(type_)))


def _faithful(merge: Merge, zone: tzinfo) -> bool:
    contents = [each.content for each in merge.originals]
    trusted = all(trust.is_higher(each.origin) for each in merge.originals)
    return (
        len(merge.content) <= sum(map(len, contents))
        and not strange(merge.content, contents, ())
        # "Takes 20 mg" does not stand for "takes 10 mg".
        and not any(strange(_undated(each, zone), [merge.content], ()) for each in merge.originals)
        and not trust.is_suspect((merge.content,), trusted=trusted)
    )


def _undated(original: Member, zone: tzinfo) -> str:
    """Its words without the day on which they were said, which a merged statement may leave out."""
    said = original.said_at.astimezone(zone)
    return original.content.replace(f"{said:%Y-%m-%d}", "").replace(f"{said:%Y-%m}", "")


def _undone(originals: Sequence[Member], apart: Mapping[UUID, Collection[UUID]]) -> bool:
    seen: set[UUID] = set()
    for each in originals:
        merges = set(apart.get(each.memory_id, ()))
        if merges & seen:
            return True
        seen |= merges
    return False


def merged_memory(
    merge: Merge,
    originals: Sequence[EditableMemory],
    *,
    memory_id: UUID,
    at: datetime,
    job_id: UUID,
) -> EditableMemory:
    """The merged memory, without its index entries.

    It holds since the first of its originals began to hold. Its newest
    evidence is the newest of theirs. The model may lower their importance by a step at most, or a
    merge could make them decay.
    """
    held = [each.memory for each in originals]
    first = min(held, key=lambda each: (each.valid_from, each.created_at))
    highest = max(each.importance for each in held)
    importance = merge.importance
    memory = Memory(
        memory_id=memory_id,
        user_id=first.user_id,
        type=merge.type,
        content=merge.content,
        importance=highest if importance is None else max(importance, highest - IMPORTANCE_STEP),
        confidence=_confidence(held),
        source="consolidation",
        origin=trust.least_trusted(each.origin for each in held),
        status="active",
        valid_from=min(each.valid_from for each in held),
        created_at=at,
        updated_at=at,
        tags=_united([each.tags for each in held]),
        keywords=_united([each.keywords for each in held]),
        context=_agreed([each.context for each in held]),
        metadata=_agreed([each.metadata for each in held]),
        sensitive=any(each.sensitive for each in held),
        conversation_id=first.conversation_id,
        supersedes=[each.memory_id for each in held],
        job_id=job_id,
    )
    return EditableMemory(
        memory,
        said_at=max(each.said_at for each in originals),
        challenges=(),
        lexical_no=0,
        lexical_length=0,
        embedding_state="pending",
        questions=kept([q for each in originals for q in each.questions], merge.content),
    )


def _confidence(originals: Sequence[Memory]) -> str:
    """HIGH if one original is, or three conversations agree; else the highest.

    Conversations count where the user spoke: what a tool repeats fifty times is no surer.
    """
    agreeing = {
        source.conversation_id
        for each in originals
        if trust.is_higher(each.origin)
        for source in each.sources
    }
    if len(agreeing) >= _AGREEING:
        return "high"
    return max((each.confidence for each in originals), key=CONFIDENCES.index)


def _united(labels: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(label for each in labels for label in each))[:MAX_LABELS]


def _agreed(contexts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What no two originals say differently."""
    found: dict[str, Any] = {}
    contested: set[str] = set()
    for context in contexts:
        for key, value in context.items():
            if key in found and found[key] != value:
                contested.add(key)
            found.setdefault(key, value)
    agreed = {key: value for key, value in found.items() if key not in contested}
    return agreed if fits_struct(agreed) else {}
