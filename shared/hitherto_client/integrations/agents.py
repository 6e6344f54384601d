"""A session of the OpenAI Agents SDK, kept in a conversation (extra `agents`).

Example:
    session = HithertoSession("monday", memory=AsyncHitherto(), user="ana")
    await Runner.run(agent, "I live in Porto.", session=session)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import batched, field, text_of
from hitherto_client.integrations.kept_items import (
    ItemReader,
    KeptItem,
    as_messages,
    check_kept,
    if_there,
    removal,
)
from hitherto_client.words import Role

with package_of("agents"):
    from agents import SessionSettings, TResponseInputItem

_KIND = "openai-agents"


class HithertoSession:
    """Keeps the items of an agent's runs, exactly and in order, for all processes.

    What the user and the agent say can be searched and is learnt from; calls of tools and their
    results are in the history only. A conversation that began in another way goes on here. What is
    known from other conversations is not part of a session: `remembering` with `keep=False` gives
    it to the model. What fails raises HithertoCallError.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        *,
        memory: AsyncHitherto,
        user: str,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Open a session; it begins with its first item.

        Args:
            session_id: Your id for the conversation.
            memory: The client, on the event loop of the runs.
            user: Whom the agent talks with.
            session_settings: The Agents SDK's own, such as the number of items to read.
        """
        self.session_id = session_id
        self.session_settings = session_settings
        self._memory = memory
        self._user = user

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The last `limit` items, or all of them, the oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        found: list[TResponseInputItem] = []
        if limit is not None and limit <= 0:
            return found
        async for item in self._items(ItemReader(_KIND)):
            found.append(_item_of(item))
            if len(found) == limit:
                break
        return found[::-1]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end.

        Raises:
            TypeError: An item is no JSON.
            HithertoCallError: They could not be stored, or memory is switched off for the user
                (`MEMORY_DISABLED`).
        """
        messages = [message for item in items for message in _messages_of(item)]
        for batch in batched(messages):
            added = await self._memory.add(self._user, batch, conversation=self.session_id)
            check_kept(added.job)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item out of the session, which of several callers only one gets.

        What was said in it stays in the conversation and may be learnt from.
        """
        reader = ItemReader(_KIND)
        async for item in self._items(reader):
            try:
                await self._memory.add(self._user, [removal(item)], conversation=self.session_id)
            except HithertoCallError as error:
                if error.reason != "MESSAGE_ID_REUSED":
                    raise
                # Somebody else took it; the one before it is the last now.
                continue
            return _item_of(item)
        return None

    async def clear_session(self) -> None:
        """Delete the conversation with its messages and summary; what was learnt stays."""
        with if_there():
            await self._memory.delete_conversation(self._user, self.session_id)

    async def _items(self, reader: ItemReader) -> AsyncIterator[KeptItem]:
        """The items, the latest first."""
        async for message in self._memory.messages(self._user, self.session_id):
            item = reader.take(message)
            if item is not None:
                yield item


def _messages_of(item: TResponseInputItem) -> Any:
    given = cast(dict[str, Any], item)
    kind = given.get("type") or "message"
    role = given.get("role")
    speaker: Role = role if role in ("user", "assistant") else "system"
    spoken = kind == "message" and speaker != "system"
    name = field(given, "name")
    return as_messages(
        _KIND,
        given,
        role=speaker,
        text=text_of(given.get("content")) if spoken else "",
        label=f"{kind} {name}" if isinstance(name, str) and name else kind,
    )


def _item_of(item: KeptItem) -> TResponseInputItem:
    said = {"role": item.message.role, "content": item.message.content}
    return cast(TResponseInputItem, item.value if item.value is not None else said)
