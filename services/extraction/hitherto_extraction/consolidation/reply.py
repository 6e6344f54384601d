"""Reads from a reply which memories the model wants to merge.

The reply is untrusted: the shape of each item is checked, and the originals it names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.pipeline.answer import EVENT_TYPES, MAX_EVENT_CHARACTERS
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.prompt import local_id
from hitherto_extraction.provider.reply_text import UnusableAnswer, read_object
from hitherto_shared.text.normalise import nfc


@dataclass(frozen=True, slots=True)
class MergedItem:
    """One merged statement, and the local ids of its originals; importance None: not said."""

    type: str
    content: str
    importance: float | None
    merged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merges:
    """What a reply wants to merge, and how much of it had to be dropped."""

    items: Sequence[MergedItem]
    dropped: int


def read_reply(text: str, memories: Sequence[str]) -> Merges:
    """Turn a reply into `Merges`; `memories` are the local ids that were shown.

    Raises:
        UnusableAnswer: There is no JSON object with a list of memories.
    """
    raws = _load(text)
    most = len(memories) // 2
    dropped = max(0, len(raws) - most)
    items: list[MergedItem] = []
    used: set[str] = set()
    for raw in raws[:most]:
        named, strange = _originals(raw, set(memories) - used)
        item, spoilt = _item(raw, named)
        dropped += strange + spoilt
        if item is None:
            dropped += 1
            continue
        used.update(named)
        items.append(item)
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


def _originals(raw: Any, free: set[str]) -> tuple[tuple[str, ...], int]:
    """The originals an item names that are there and still free, and how many are not."""
    given = raw.get("merged") if isinstance(raw, dict) else None
    if not isinstance(given, list):
        return (), 0
    named = tuple(dict.fromkeys(each for each in map(local_id, given) if each in free))
    return named, len(given) - len(named)


def _item(raw: Any, named: tuple[str, ...]) -> tuple[MergedItem | None, int]:
    """The item, if there is anything in it, and how many of its values were spoilt."""
    if len(named) < 2:
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
    return (
        MergedItem(found.type, found.content, found.importance if usable else None, named),
        answer.dropped,
    )
