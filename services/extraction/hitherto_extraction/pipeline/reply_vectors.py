"""The vectors of one reply: of what it says, and of the messages and the summary behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.embeddings.protocol import Vector

VectorKey = tuple[str, int]
"""What a vector is of: ("new", index), ("updated", index), ("source", index of the new item that
came from it), ("message", number) or ("summary", 0)."""
_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors under the embedder's name; those that it could not compute are missing.

    Attributes:
        wanted: The numbers of the messages that are to have a vector; a missing one is back-filled.
            None: neither messages nor the summary are indexed, as in a rehearsal.
        summary: The words that the summary's vector was computed from.
    """

    model: str = ""
    found: Mapping[VectorKey, Vector] = field(default_factory=dict)
    wanted: Collection[int] | None = None
    summary: str | None = None

    @property
    def of_new(self) -> dict[int, Vector]:
        """The vectors of new items, by their index."""
        return {index: vector for (kind, index), vector in self.found.items() if kind == "new"}

    def state_of(self, message: StoredMessage) -> str:
        """The state that a message is indexed with."""
        if ("message", message.message_no) in self.found:
            return "stored"
        return "pending" if message.message_no in (self.wanted or ()) else "none"


def is_passage(message: StoredMessage) -> bool:
    """Whether a message belongs in the indexes and is not there yet."""
    return message.role in _ROLES and not (message.indexed or message.sealed)
