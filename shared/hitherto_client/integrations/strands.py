"""A memory store for Strands Agents (extra `strands`).

Example:
    store = HithertoMemoryStore(Hitherto(), user="ana", conversation="monday")
    agent = Agent(memory_manager=MemoryManager(stores=[store]))
    agent("I live in Porto.")

The manager tells the model what the store finds, and gives the store what was said. The calls to
the services run in threads, so that one client serves agents on any event loop.
"""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any

from hitherto_client._sync.client import Hitherto
from hitherto_client.days import days_in, iso_day, zone_or_utc
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import Utterance, pieces, storable, text_of
from hitherto_client.integrations.found_items import FoundItem, find
from hitherto_client.integrations.recollection import Chat, Recollection
from hitherto_client.words import Origin

with package_of("strands"):
    from strands.memory import (
        AddMessagesContext,
        ExtractionConfig,
        InvocationTrigger,
        MemoryEntry,
        MemoryStore,
        SearchOptions,
    )
    from strands.types.content import Message

_RESULTS = 10
_DESCRIPTION = "What is known about the user, and what was said in all conversations with them."
_SPEAKERS = {
    "user": "",
    "operator": "",
    "assistant": "said by the assistant",
    "tool": "from a tool",
    "document": "from a document",
}


class HithertoMemoryStore(MemoryStore):
    """A store of `MemoryManager` that finds what is known about a user and learns from each run.

    What the user and the agent say is added to the conversation after each run, once. The services
    learn from it; no model of yours is called. If memory fails, the run goes on without it and a
    warning is logged; what could not be added is added after another run with this store. `search`
    and `add` raise HithertoCallError if they fail.
    """

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: str,
        conversation: str = "",
        timeout: float = 2.0,
        keep: bool = True,
        origin: Origin = "assistant",
        name: str = "hitherto",
        description: str = _DESCRIPTION,
        max_search_results: int | None = None,
        extraction: ExtractionConfig | None = None,
    ) -> None:
        """Give an agent a memory.

        Args:
            memory: The client.
            user: Whom the agent talks with.
            conversation: Your id for the chat. Unset: a new one.
            timeout: Seconds that a run waits for memory at most, each time.
            keep: False: nothing that is said is added, because your own code keeps the chat.
            origin: On whose word `add` saves. What the assistant saves never displaces what the
                user said.
            name: The name of the store in its manager.
            description: What the model is told that the store holds.
            max_search_results: How many results a search has if it does not say. Unset: the
                manager's.
            extraction: When what was said is added, and which parts of it. Unset: after each run,
                without calls of tools and their results.
        """
        self.name = name
        self.description: str | None = description
        self.max_search_results = max_search_results
        self.writable = True
        self.extraction: ExtractionConfig | bool | None = keep and (
            {"trigger": InvocationTrigger(), **(extraction or {})}
        )
        self._memory = memory
        self._chat = Chat(user, conversation or str(uuid.uuid4()))
        self._timeout = timeout
        self._origin = origin
        self._recollection = Recollection(memory, timeout=timeout, max_tokens=None)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """What is known that matters for a question, best first, with days and speakers."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or _RESULTS
        return await asyncio.to_thread(self._search, query, limit)

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Save one statement; returns the id of its memory, which may have been known before."""
        return await asyncio.to_thread(self._save, content, metadata)

    async def add_messages(
        self, messages: list[Message], context: AddMessagesContext | None = None
    ) -> None:
        """Add what was said to the conversation, now or with a later call.

        The manager calls it once for each message, since it does not raise. The numbers in the
        context begin anew in every manager, and so cannot tell messages apart.
        """
        await asyncio.to_thread(self._recollection.keep, self._chat, list(_said(messages)))

    def _search(self, query: str, limit: int) -> list[MemoryEntry]:
        found = find(self._memory, self._chat.user, query, limit=limit, timeout=self._timeout)
        with days_in(self._zone):
            return [_entry(item) for item in found]

    def _save(self, content: str, metadata: dict[str, Any] | None) -> str:
        saved = self._memory.save_memory(
            self._chat.user,
            storable(content),
            origin=self._origin,
            conversation=self._chat.conversation,
            metadata=metadata,
            timeout=self._timeout,
        )
        return saved.memory.id

    @functools.cached_property
    def _zone(self) -> tzinfo:
        """Where the user lives, for the days of results."""
        return zone_or_utc(self._memory.connection, self._chat.user)


def _entry(item: FoundItem) -> MemoryEntry:
    """An entry with the day and the speaker in its content: the model is told nothing else."""
    speaker = _SPEAKERS.get(item.said_by, f"said by {item.said_by}") if item.said_by else ""
    notes = ", ".join(note for note in (iso_day(item.at) if item.at else "", speaker) if note)
    content = f"{item.text} ({notes})" if notes else item.text
    metadata = {"kind": item.kind, "id": item.id, "score": round(item.score, 3)}
    return MemoryEntry(content=content, metadata=metadata)


def _said(messages: Sequence[Message]) -> Iterator[MessageInput]:
    """What is said in messages."""
    for message in messages:
        for utterance in _utterances(message):
            for piece in pieces(utterance.text):
                said: MessageInput = {
                    "id": f"said_{uuid.uuid4().hex}",
                    "role": utterance.role,
                    "content": piece,
                }
                if utterance.name:
                    said["name"] = storable(utterance.name)[:128]
                yield said


def _utterances(message: Message) -> Iterator[Utterance]:
    """What is said in a message, and the calls of tools and their results that it still has."""
    texts = []
    for block in message["content"]:
        if "text" in block:
            texts.append(block["text"])
        elif "citationsContent" in block:
            texts.append(text_of(block["citationsContent"].get("content")))
    yield Utterance(message["role"], "\n".join(text for text in texts if text))
    for block in message["content"]:
        if "toolUse" in block:
            call = block["toolUse"]
            given = json.dumps(call["input"], ensure_ascii=False)
            yield Utterance("tool", f"{call['name']}({given})", call["name"])
        elif "toolResult" in block:
            yield Utterance("tool", text_of(block["toolResult"]["content"]))
