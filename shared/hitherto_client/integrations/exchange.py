"""An exchange with a model, in a form that the services store: its texts, and what is new in it.

A request repeats the history, and a failed or regenerated one is sent again. Each message
therefore has an id that follows from its text and from everything before it: what is sent twice is
kept once.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_client.batches import groups
from hitherto_client.inputs import MessageInput
from hitherto_client.words import Role

_MOST_MESSAGES = 1_000
_MESSAGE_BYTES = 512
"""The most that an id, a name and keys add to a message."""
MOST_BYTES = 60 * 1024
"""UTF-8 bytes of a message that is kept in one piece; the services take 64 KiB."""


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts of which only those of text count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (part if isinstance(part, str) else field(part, "text") for part in content)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def field(item: Any, name: str) -> Any:
    """A field of a mapping or an object; None if it has none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def storable(text: str) -> str:
    """The text in NFC, without characters that no database stores."""
    text = text.replace("\x00", "").encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFC", text)


def pieces(text: str) -> Iterator[str]:
    """The storable text in pieces of at most `MOST_BYTES`; none of them is blank."""
    raw = storable(text).encode()
    start = 0
    while start < len(raw):
        end = min(start + MOST_BYTES, len(raw))
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        piece = raw[start:end].decode()
        if piece.strip():
            yield piece
        start = end


def batched(
    messages: Iterable[MessageInput], *, any_json: bool = False
) -> Iterator[list[MessageInput]]:
    """The messages in batches that a call takes.

    Their metadata is a few texts or, if `any_json`, whatever a caller gives.
    """
    # As JSON a digit in a list takes 3 bytes, and in a request 11.
    growth = 4 if any_json else 1

    def size(message: MessageInput) -> int:
        metadata = str(message.get("metadata", ""))
        return len(message["content"].encode()) + growth * len(metadata.encode()) + _MESSAGE_BYTES

    return groups(messages, size, _MOST_MESSAGES)


_BEGIN = re.compile(r"<<<hitherto:memory ([0-9A-Za-z]{8,64}): ")


def joined(instructions: str, block: str) -> str:
    """The instructions without any earlier block, and the block after them."""
    bare = without_blocks(instructions).rstrip()
    return f"{bare}\n\n{block}" if bare else block


def without_blocks(text: str) -> str:
    """The text without the blocks of memory in it, such as a reply's echo of its instructions."""
    kept: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = f"<<<end hitherto:memory {begin[1]}>>>"
        found = text.find(end, begin.end())
        if found < 0:
            break
        kept.append(text[at : begin.start()])
        at = found + len(end)
    return "".join(kept) + text[at:]


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
    """The end of a request's history: everything after the last reply of the assistant.

    `history` is without instructions, and `thread` what it continues and the request only names.
    """

    def __init__(self, history: Iterable[Utterance], *, thread: str = "") -> None:
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

        That the reply broke off, so that it is not `complete`, is noted in its metadata.
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
