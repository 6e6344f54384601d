"""A memory service for agents of Google's Agent Development Kit (extra `google-adk`).

Example:
    service = HithertoMemoryService(Hitherto())
    runner = Runner(agent=agent, memory_service=service, …)
    …
    await service.add_session_to_memory(session)

The calls to the services run in threads, so that one client serves runners on any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from hitherto_client._sync.client import Hitherto
from hitherto_client.calls import countable
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import batched, pieces, storable
from hitherto_client.integrations.found_items import FoundItem, find
from hitherto_client.integrations.kept_items import if_there
from hitherto_client.words import Origin

with package_of("google-adk"):
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai.types import Content, Part

_NO_SESSION = "events"
"""The conversation of events that are added without a session."""


def user_of_app(app_name: str, user_id: str) -> str:
    """The user of an app, apart from the users of all other apps."""
    return f"{quote(app_name, safe='')}/{user_id}"


class HithertoMemoryService(BaseMemoryService):
    """Finds what is known about a user, and learns from the sessions that are added.

    What the user and the agents say is kept in a conversation that has the session's id, each
    event once, however often it is added. Calls of tools, their results and thoughts are not kept.
    If the user has switched memory off, nothing is kept or found, and `add_memory` raises
    HithertoCallError, as every call that fails.
    """

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: Callable[[str, str], str] = user_of_app,
        limit: int = 10,
        timeout: float = 10.0,
    ) -> None:
        """Give runners a memory.

        Args:
            memory: The client.
            user: The user of Hitherto, by the app's name and its id for the user. Unset: as the
                kit has it, each app has users of its own. `lambda app, user: user` lets all
                assistants of a person share one memory.
            limit: How many results a search has.
            timeout: Seconds that a call waits for memory at most.
        """
        self._memory = memory
        self._user = user
        self._limit = limit
        self._timeout = countable(timeout)

    async def add_session_to_memory(self, session: Session) -> None:
        """Add what was said in a session; what was added before is skipped."""
        user = self._user(session.app_name, session.user_id)
        await asyncio.to_thread(self._add, user, session.id, session.events, {})

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add what was said in some events; what was added before is skipped.

        `custom_metadata` is JSON that is kept with each message.
        """
        user, metadata = self._user(app_name, user_id), dict(custom_metadata or {})
        await asyncio.to_thread(self._add, user, session_id or _NO_SESSION, events, metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save statements at once.

        Those of the author `user` count as the user's, all others as the assistant's: these never
        displace what the user said. Their ids are not kept. `custom_metadata` is JSON that is kept
        with each memory, besides its own.

        Raises:
            ValueError: A timestamp is not in ISO 8601.
            HithertoCallError: A statement could not be saved.
        """
        user = self._user(app_name, user_id)
        for entry in memories:
            metadata = {**(custom_metadata or {}), **entry.custom_metadata}
            await asyncio.to_thread(self._save, user, entry, metadata)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """What is known that matters for a question, best first, from all sessions."""
        found = await asyncio.to_thread(
            find,
            self._memory,
            self._user(app_name, user_id),
            query,
            limit=self._limit,
            timeout=self._timeout,
        )
        return SearchMemoryResponse(memories=[_entry(item) for item in found])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget a memory that a search found; of one that does not exist, nothing happens.

        Raises:
            ValueError: There is no id, as with messages and documents.
            HithertoCallError: It could not be forgotten.
        """
        if not memory_id:
            raise ValueError("only a memory with an id can be forgotten")
        await asyncio.to_thread(self._forget, self._user(app_name, user_id), memory_id)

    def _add(
        self, user: str, conversation: str, events: Sequence[Event], metadata: dict[str, Any]
    ) -> None:
        said = (message for event in events for message in _messages(event, metadata))
        for batch in batched(said, any_json=True):
            self._memory.add(user, batch, conversation=conversation, timeout=self._timeout)

    def _save(self, user: str, entry: MemoryEntry, metadata: dict[str, Any]) -> None:
        origin: Origin = "user" if entry.author == "user" else "assistant"
        self._memory.save_memory(
            user,
            storable(_words(entry.content)),
            origin=origin,
            metadata=metadata,
            valid_from=_moment(entry.timestamp),
            timeout=self._timeout,
        )

    def _forget(self, user: str, memory_id: str) -> None:
        with if_there():
            self._memory.forget_memory(user, memory_id, timeout=self._timeout)


def _said(event: Event) -> str:
    """What is said in an event: written, or spoken in a live session, which has no content then."""
    spoken = event.input_transcription or event.output_transcription
    return _words(event.content) or (spoken.text if spoken else None) or ""


def _words(content: Content | None) -> str:
    """What is written, without thoughts, files, and calls of tools."""
    parts = (content.parts if content is not None else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _messages(event: Event, metadata: dict[str, Any]) -> Iterator[MessageInput]:
    """What is said in an event, in several messages if it is long."""
    if event.partial:
        return  # A whole event follows.
    for place, piece in enumerate(pieces(_said(event))):
        message: MessageInput = {
            "id": f"{event.id}_{place}" if place else event.id,
            "role": "user" if event.author == "user" else "assistant",
            "content": piece,
            "created_at": datetime.fromtimestamp(event.timestamp, UTC),
        }
        if event.author != "user":
            message["name"] = storable(event.author)[:128]
        if metadata:
            message["metadata"] = metadata
        yield message


def _moment(timestamp: str | None) -> datetime | None:
    if not timestamp:
        return None
    moment = datetime.fromisoformat(timestamp)
    return moment if moment.tzinfo else moment.astimezone()


def _entry(item: FoundItem) -> MemoryEntry:
    """An entry; only memories, which can be forgotten, have an id."""
    return MemoryEntry(
        content=Content(
            parts=[Part(text=item.text)], role="model" if item.said_by == "assistant" else "user"
        ),
        custom_metadata={"kind": item.kind, "score": round(item.score, 3)},
        id=item.id if item.kind == "memory" else None,
        author=item.said_by or None,
        timestamp=item.at.isoformat(timespec="seconds") if item.at else None,
    )
