"""An exchange with a model: what a request to a model says that was not said before, and its reply.

A request repeats the history, and a failed or regenerated one is sent again. Each message
therefore has an id that follows from its text and from everything before it: what is sent twice is
kept once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.wording import pieces, storable
from hitherto_client.words import Role

MOST_QUESTION = 8_000
"""Characters of a question that memory is searched for."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody says in a request or reply.

    Attributes:
        role: Who says it.
        text: The words; empty for an assistant that only calls tools.
        name: The name of a tool.
    """

    role: Role
    text: str
    name: str = ""


class ModelExchange:
    """The end of a request's history: everything after the last reply of the assistant."""

    def __init__(self, history: Iterable[Utterance], *, thread: str = "") -> None:
        """Read a request.

        Args:
            history: Its messages, without instructions.
            thread: What the history continues that the request only names.
        """
        self._digest = hashlib.sha256(thread.encode("utf-8", "replace"))
        self._said: list[MessageInput] = []
        self.question = ""
        """What the user said last."""
        for utterance in history:
            if utterance.role == "assistant":
                self._said.clear()
            if utterance.role == "user" and utterance.text.strip():
                self.question = storable(utterance.text[:MOST_QUESTION])
            kept = self._kept(utterance)
            if utterance.role != "assistant":
                self._said += kept

    def ended(self, reply: Iterable[Utterance], *, complete: bool = True) -> list[MessageInput]:
        """What is new in the conversation: the end of the history, and the reply to it.

        Args:
            reply: What the model said.
            complete: False if the reply broke off, which is noted in its metadata.
        """
        said = list(self._said)
        for utterance in reply:
            for message in self._kept(utterance):
                if not complete:
                    message["metadata"] = {"incomplete": True}
                said.append(message)
        return said

    def _kept(self, utterance: Utterance) -> list[MessageInput]:
        """The utterance as messages, several if it is too long for one, with their ids."""
        identity = json.dumps([utterance.role, utterance.name, utterance.text])
        self._digest.update(f"{identity}\n".encode())
        stem = f"said_{self._digest.hexdigest()[:32]}"
        kept: list[MessageInput] = []
        for number, piece in enumerate(pieces(utterance.text)):
            message: MessageInput = {
                "id": f"{stem}_{number}" if number else stem,
                "role": utterance.role,
                "content": piece,
            }
            if utterance.name:
                message["name"] = storable(utterance.name)[:128]
            kept.append(message)
        return kept
