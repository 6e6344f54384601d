"""Reads from a reply of the reconciliation what it proposes.

The reply is untrusted: the shape of each item is checked, and that it names memories that were
shown. What it may change is decided in `settling`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.pipeline.free_json import text_of
from hitherto_extraction.pipeline.prompt import local_id
from hitherto_extraction.provider.reply_text import UnusableAnswer, read_object

KEYS = ("same", "replaced", "doubtful", "certain")
MAX_REASON_CHARACTERS = 200
_MAX_ITEMS = 40
_PAIRS = {"replaced": ("old", "new"), "doubtful": ("id", "because")}
"""The two fields in which an item names its memories."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """What the item at a place of the reply says of two memories, by local ids.

    `memory` says the same as `other`, was replaced by it, or is in doubt because of it; then
    `reason` says why.
    """

    item: str
    memory: str
    other: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a reply proposes, and how many of its items had to be dropped."""

    same: Sequence[Proposed] = ()
    replaced: Sequence[Proposed] = ()
    doubtful: Sequence[Proposed] = ()
    certain: Sequence[str] = ()
    dropped: int = 0


def read_reply(text: str, shown: Collection[str]) -> Proposals:
    """Turn a reply into `Proposals`; `shown` are the local ids in the prompt.

    Raises:
        UnusableAnswer: There is no JSON object with one of the lists, or no item of their form.
    """
    reply, _ = read_object(text, KEYS)
    given = {key: reply[key] for key in KEYS if isinstance(reply.get(key), list)}
    if not given:
        raise UnusableAnswer(f"the reply has none of the lists {', '.join(KEYS)}")
    ids = frozenset(shown)
    found: dict[str, list[Any]] = {key: [] for key in KEYS}
    dropped = sum(key in reply and key not in given for key in KEYS)
    for key, raws in given.items():
        for i, raw in enumerate(raws):
            named = _named(key, f"{key}[{i}]", raw, ids) if i < _MAX_ITEMS else []
            found[key] += named
            dropped += not named
    if any(given.values()) and not any(found.values()):
        raise UnusableAnswer("none of the reply's items has the required form")
    return Proposals(**{key: list(dict.fromkeys(found[key])) for key in KEYS}, dropped=dropped)


def _named(key: str, item: str, raw: Any, shown: frozenset[str]) -> list[Proposed] | list[str]:
    """What an item proposes about memories that were shown."""
    if key == "certain":
        return [name] if (name := local_id(raw)) in shown else []
    if not isinstance(raw, dict):
        return []
    if key == "same":
        others = raw.get("others")
        pairs = [(each, raw.get("keep")) for each in (others if isinstance(others, list) else [])]
    else:
        one, other = _PAIRS[key]
        pairs = [(raw.get(one), raw.get(other))]
    reason = " ".join(text_of(raw.get("reason")).split())[:MAX_REASON_CHARACTERS].rstrip()
    ids = dict.fromkeys((local_id(one), local_id(other)) for one, other in pairs)
    return [
        Proposed(item, memory, other, reason)
        for memory, other in ids
        if memory != other and shown.issuperset((memory, other))
    ]
