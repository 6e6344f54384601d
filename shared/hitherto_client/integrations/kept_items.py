"""Histories of other packages, kept in conversations: each item exactly, its words to learn from.

An item of a history is JSON of any kind and size. The words that a user or an assistant says in it
are the content of a message; the item itself is in the message's metadata, or in the metadata of
several messages if it is too long for one. An item that is taken out of its history stays in the
conversation, with a message after it that says so.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import grpc

from hitherto_client.errors import HithertoCallError
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import pieces
from hitherto_client.results.conversations import Message
from hitherto_client.results.jobs import Job
from hitherto_client.words import Role

_ITEM, _REMOVES = "history_item", "history_removes"
"""The keys of the metadata."""
_MOST_JSON = 40_000
"""Characters, all of them ASCII, of an item's JSON in one message's metadata."""


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item of a history.

    Attributes:
        id: What `removal` takes.
        message: The message that it begins with.
        value: The item; None for a message that came into the conversation in another way.
    """

    id: str
    message: Message
    value: Any = None


def as_messages(
    kind: str, value: Any, *, role: Role, text: str, label: str
) -> Iterator[MessageInput]:
    """The messages that keep an item.

    Args:
        kind: The package that the item is of.
        value: The item, as JSON.
        role: Who speaks in it.
        text: What is said in it.
        label: The content of messages without such words, which nothing is learnt from.

    Raises:
        TypeError: The item is no JSON.
        ValueError: It holds a number that is not finite, or itself.
    """
    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    parts = [written[at : at + _MOST_JSON] for at in range(0, len(written), _MOST_JSON)]
    texts = list(pieces(text))
    item, total = uuid.uuid4().hex, max(len(parts), len(texts))
    for number, (part, words) in enumerate(zip_longest(parts, texts, fillvalue="")):
        yield {
            "id": f"item_{item}_{number}",
            "role": role if words else "system",
            "content": words or label,
            "metadata": {
                _ITEM: {"id": item, "kind": kind, "json": part, "part": number, "parts": total}
            },
        }


def removal(item: KeptItem) -> MessageInput:
    """The message that takes an item out of its history.

    Its id follows from the item and its content is unique: of several that take out the same item,
    all but the first are refused (`MESSAGE_ID_REUSED`).
    """
    digest = hashlib.sha256(item.id.encode()).hexdigest()
    return {
        "id": f"removal_{digest[:32]}",
        "role": "system",
        "content": f"removed {uuid.uuid4().hex}",
        "metadata": {_REMOVES: item.id},
    }


def check_kept(job: Job | None) -> None:
    """Check the job that a call started: if it is cancelled, the call has stored nothing.

    Raises:
        HithertoCallError: Memory is switched off for the user, so that nothing is kept.
    """
    if job is not None and job.state == "cancelled":
        raise HithertoCallError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "memory is switched off for this user: nothing is kept",
            reason="MEMORY_DISABLED",
        )


@contextmanager
def if_there() -> Iterator[None]:
    """Around the removal of something: what does not exist need not be removed."""
    try:
        yield
    except HithertoCallError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise


class ItemReader:
    """Puts a history together again from the messages of a conversation, the latest first."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._removed: set[str] = set()
        self._parts: dict[str, dict[int, str]] = {}

    def take(self, message: Message) -> KeptItem | None:
        """The item that begins with this message; None if none does, or it was taken out."""
        removes = message.metadata.get(_REMOVES)
        if isinstance(removes, str):
            self._removed.add(removes)
            return None
        kept = message.metadata.get(_ITEM)
        if not isinstance(kept, dict) or kept.get("kind") != self._kind:
            # Said in another way: the words alone.
            spoken = message.role in ("user", "assistant") and message.id not in self._removed
            return KeptItem(message.id, message) if spoken else None
        parts = self._parts.setdefault(kept["id"], {})
        parts[int(kept["part"])] = kept["json"]
        if kept["part"]:
            return None
        del self._parts[kept["id"]]
        if len(parts) < kept["parts"] or kept["id"] in self._removed:
            return None
        value = json.loads("".join(parts[number] for number in range(len(parts))))
        return KeptItem(kept["id"], message, value)
