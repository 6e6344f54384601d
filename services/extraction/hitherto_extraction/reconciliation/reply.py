"""Reads from a reply of the reconciliation what it proposes.

The reply is untrusted: the shape of each item is checked, and that it names memories that were
shown. What it may change is decided in `settling`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.pipeline.free_json import text_of
from hitherto_extraction.pipeline.prompt import local_id
from hitherto_extraction.provider.reply_text import UnusableAnswer, read_object

KEYS = ("same", "replaced", "doubtful", "certain")
MAX_REASON_CHARACTERS = 200
_MAX_ITEMS = 40


@dataclass(frozen=True, slots=True)
class SameItem:
    """Memories that say the same as the one to keep, by local ids."""

    item: str
    keep: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplacedItem:
    """A memory that another one replaces, by local ids."""

    item: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DoubtfulItem:
    """A memory that may no longer hold because of another, by local ids, and why."""

    item: str
    memory: str
    because: str
    reason: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a reply proposes, and how many of its items had to be dropped.

    The `item` of each is its place in the reply.
    """

    same: tuple[SameItem, ...] = ()
    replaced: tuple[ReplacedItem, ...] = ()
    doubtful: tuple[DoubtfulItem, ...] = ()
    certain: tuple[str, ...] = ()
    dropped: int = 0


def read_reply(text: str, shown: Collection[str]) -> Proposals:
    """Turn a reply into `Proposals`; `shown` are the local ids in the prompt.

    Raises:
        UnusableAnswer: There is no JSON object with one of the lists.
    """
    reply, _ = read_object(text, KEYS)
    if not any(isinstance(reply.get(key), list) for key in KEYS):
        raise UnusableAnswer(f"the reply has none of the lists {', '.join(KEYS)}")
    ids = frozenset(shown)
    same = _each(reply, "same", lambda item, raw: _same(item, raw, ids))
    replaced = _each(reply, "replaced", lambda item, raw: _replaced(item, raw, ids))
    doubtful = _each(reply, "doubtful", lambda item, raw: _doubtful(item, raw, ids))
    certain = _each(reply, "certain", lambda _, raw: _id(raw, ids))
    given = sum(len(reply[key]) for key in KEYS if isinstance(reply.get(key), list))
    odd = sum(key in reply and not isinstance(reply[key], list) for key in KEYS)
    read = len(same) + len(replaced) + len(doubtful) + len(certain)
    if given and not read:
        raise UnusableAnswer("none of the reply's items has the required form")
    return Proposals(
        tuple(same),
        tuple(replaced),
        tuple(doubtful),
        tuple(dict.fromkeys(certain)),
        given - read + odd,
    )


def _each(reply: dict[str, Any], key: str, read: Any) -> list[Any]:
    raws = reply.get(key)
    if not isinstance(raws, list):
        return []
    found = (read(f"{key}[{i}]", raw) for i, raw in enumerate(raws[:_MAX_ITEMS]))
    return [each for each in found if each is not None]


def _id(raw: Any, shown: Collection[str]) -> str | None:
    """A local id that was shown."""
    name = local_id(raw)
    return name if name in shown else None


def _same(item: str, raw: Any, shown: Collection[str]) -> SameItem | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("others"), list):
        return None
    keep = _id(raw.get("keep"), shown)
    others = dict.fromkeys(_id(each, shown) for each in raw["others"])
    named = tuple(each for each in others if each is not None and each != keep)
    return SameItem(item, keep, named) if keep is not None and named else None


def _replaced(item: str, raw: Any, shown: Collection[str]) -> ReplacedItem | None:
    if not isinstance(raw, dict):
        return None
    old, new = _id(raw.get("old"), shown), _id(raw.get("new"), shown)
    if old is None or new is None or old == new:
        return None
    return ReplacedItem(item, old, new)


def _doubtful(item: str, raw: Any, shown: Collection[str]) -> DoubtfulItem | None:
    if not isinstance(raw, dict):
        return None
    memory, because = _id(raw.get("id"), shown), _id(raw.get("because"), shown)
    if memory is None or because is None or memory == because:
        return None
    reason = " ".join(text_of(raw.get("reason")).split())[:MAX_REASON_CHARACTERS].rstrip()
    return DoubtfulItem(item, memory, because, reason)
