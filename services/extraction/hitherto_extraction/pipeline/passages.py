"""What a job brings along to index the messages it read: which of them, and their vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_shared.embeddings.protocol import Vector

_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """The vectors of a job's messages and of the summary, under the embedder's name.

    Attributes:
        model: The embedder's name.
        wanted: The numbers of the messages that are to have a vector.
        messages: Vectors by message number; a wanted one that is missing is back-filled.
        summary: The vector of a summary, by its words.
    """

    model: str = ""
    wanted: Collection[int] = ()
    messages: Mapping[int, Vector] = field(default_factory=dict)
    summary: Mapping[str, Vector] = field(default_factory=dict)

    def state_of(self, message: StoredMessage) -> str:
        """The state that a message is indexed with."""
        if message.message_no in self.messages:
            return "stored"
        return "pending" if message.message_no in self.wanted else "none"


def is_passage(message: StoredMessage) -> bool:
    """Whether a message belongs in the indexes and is not there yet."""
    return message.role in _ROLES and not (message.indexed or message.sealed)


def embedded_text(message: StoredMessage) -> str:
    """The text that the vector of a message is computed from."""
    return MESSAGES.contents(message.name, message.content)[0]
