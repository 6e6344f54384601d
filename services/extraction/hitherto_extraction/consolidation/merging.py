"""Reads which memories a reply merges, which of that is permitted, and what a merged memory is.

The reply is untrusted: the shape of each item is checked, the originals it names, and that its
words say what they say. Pure: a reply and rows in, a row out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

from hitherto_extraction.consolidation.groups import Group, fit_together
from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import EVENT_TYPES, MAX_EVENT_CHARACTERS, MAX_LABELS
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.free_json import fits_struct
from hitherto_extraction.pipeline.prompt import local_id
from hitherto_extraction.pipeline.questions import kept
from hitherto_extraction.pipeline.updates import IMPORTANCE_STEP
from hitherto_extraction.provider.reply_text import UnusableAnswer, read_object
from hitherto_extraction.storage.consolidation import Member
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CONFIDENCES, Memory
from hitherto_shared.text.normalise import nfc

_AGREEING = 3
"""Number of conversations that make a merged memory certain if they agree."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A statement that replaces several, before the originals are read again.

    `importance` is None if the model says none; `words` are those of its sources. The vectors, of
    the content and of these words, are None if the embedder was down.
    """

    type: str
    content: str
    importance: float | None
    originals: Group
    words: str = ""
    content_vector: Vector | None = None
    words_vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Merges:
    """What a reply merges, how many of its items were dropped, and which part of these was refused.

    An item is refused if its statement holds a number that its originals lack, or lacks one of
    theirs, is longer than all of them together, or reads as an instruction.
    """

    items: Sequence[Merge]
    dropped: int
    refused: int = 0


def local_ids(group: Group) -> dict[str, Member]:
    """The memories of a group by their ids in the prompt."""
    return {f"e{i}": member for i, member in enumerate(group, 1)}


def read_reply(text: str, group: Group) -> Merges:
    """What a reply about a group merges; unusable without a JSON object with a list of memories."""
    raws = _load(text)
    most = len(group) // 2
    dropped = max(0, len(raws) - most)
    free = local_ids(group)
    items: list[Merge] = []
    for raw in raws[:most]:
        originals, strange_ids = _originals(raw, free)
        merge, spoilt = _merge(raw, originals)
        dropped += strange_ids + spoilt
        if merge is None:
            dropped += 1
            continue
        free = {name: each for name, each in free.items() if each not in originals}
        items.append(merge)
    return Merges(items, dropped)


def _load(text: str) -> list[Any]:
    reply, wrapped = read_object(text, ("memories",))
    if not isinstance(reply.get("memories"), list):
        raise UnusableAnswer("the reply is not a JSON object with a list of memories")
    if wrapped and not reply["memories"]:
        # A reply of the wrong form is read for what it found, rather than taken to say that there
        # is nothing.
        raise UnusableAnswer("the reply is not bare JSON and says nothing")
    found: list[Any] = reply["memories"]
    return found


def _originals(raw: Any, free: dict[str, Member]) -> tuple[Group, int]:
    """The originals an item names that are there and still free, and how many are not."""
    given = raw.get("merged") if isinstance(raw, dict) else None
    if not isinstance(given, list):
        return (), 0
    named = dict.fromkeys(each for each in map(local_id, given) if each in free)
    return tuple(free[each] for each in named), len(given) - len(named)


def _merge(raw: Any, originals: Group) -> tuple[Merge | None, int]:
    """What an item merges, if there is anything in it, and how many of its values were spoilt."""
    if len(originals) < 2 or not raw.get("type"):
        return None, 0
    # The fields have the rules of a new memory's.
    try:
        answer = read_answer(json.dumps({"new_memories": [raw]}), messages=[], memories=[])
    except (UnusableAnswer, RecursionError):
        return None, 0
    if not answer.new:
        return None, 0
    found = answer.new[0]
    content = nfc(raw["content"]).strip()
    if found.type in EVENT_TYPES and len(content) > MAX_EVENT_CHARACTERS:
        return None, 0
    said = raw.get("importance")
    number = isinstance(said, int | float) and not isinstance(said, bool)
    usable = number and (isinstance(said, int) or math.isfinite(said))
    importance = found.importance if usable else None
    return Merge(_type(found.type, originals), found.content, importance, originals), answer.dropped


def accept(merges: Merges, *, apart: Mapping[UUID, Collection[UUID]], zone: tzinfo) -> Merges:
    """The permitted ones of some merges; the others are dropped.

    `apart` names, for each memory, the merges that a person has taken it out of; two memories with
    one of them in common are not merged again. `zone` is the person's time zone.
    """
    found: list[Merge] = []
    dropped, refused = merges.dropped, 0
    for merge in merges.items:
        if not _faithful(merge, zone):
            refused += 1
        elif _undone(merge.originals, apart):
            dropped += 1
        else:
            found.append(merge)
    return Merges(found, dropped + refused, refused)


def _type(said: str, originals: Group) -> str:
    """The model's type, if the originals' types permit it; else their most frequent type."""
    if all(fit_together(said, each.type) for each in originals):
        return said
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


def _undone(originals: Group, apart: Mapping[UUID, Collection[UUID]]) -> bool:
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
