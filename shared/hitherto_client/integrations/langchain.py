"""A chat history of LangChain, kept in a conversation (extra `langchain`).

Example:
    history = HithertoChatMessageHistory("monday", memory=Hitherto(), user="ana")
    history.add_user_message("I live in Porto.")
"""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import batched, text_of
from hitherto_client.integrations.kept_items import (
    ItemReader,
    KeptItem,
    as_messages,
    check_kept,
    if_there,
)
from hitherto_client.words import Role

with package_of("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        message_to_dict,
        messages_from_dict,
    )

_KIND = "langchain"
_RESULTS = frozenset({"tool", "function"})
_ROLES: dict[str, Role] = {"human": "user", "ai": "assistant"}


class HithertoChatMessageHistory(BaseChatMessageHistory):
    """Keeps the messages of a chat, exactly and in order, for all processes.

    What the person and the model say can be searched and is learnt from; system messages and
    results of tools are in the history only. A conversation that began in another way goes on here.
    The asynchronous methods work in threads, as the base class does. What fails raises
    HithertoCallError.
    """

    def __init__(
        self, conversation: str, *, memory: Hitherto, user: str, limit: int | None = None
    ) -> None:
        """Open a history; it begins with its first message.

        Args:
            conversation: Your id for the chat.
            memory: The client.
            user: Whom the model talks with.
            limit: How many of the last messages `messages` has. Unset: all. There are fewer where
                these would begin with the result of a tool: models refuse one without its call.
        """
        super().__init__()
        self._conversation = conversation
        self._memory = memory
        self._user = user
        self._limit = limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, the oldest first."""
        reader = ItemReader(_KIND)
        found: list[BaseMessage] = []
        for message in self._memory.messages(self._user, self._conversation):
            if len(found) == self._limit:
                break
            item = reader.take(message)
            if item is not None:
                found.append(_message_of(item))
        # Without the call that it answers, the result of a tool at the beginning is refused.
        while self._limit is not None and found and found[-1].type in _RESULTS:
            found.pop()
        return found[::-1]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end.

        Raises:
            TypeError: A message is no JSON.
            HithertoCallError: They could not be stored, or memory is switched off for the user
                (`MEMORY_DISABLED`).
        """
        kept = [
            part
            for message in messages
            for part in as_messages(
                _KIND,
                message_to_dict(message),
                role=_ROLES.get(message.type, "system"),
                text=text_of(message.content) if message.type in _ROLES else "",
                label=message.type,
            )
        ]
        for batch in batched(kept):
            added = self._memory.add(self._user, batch, conversation=self._conversation)
            check_kept(added.job)

    def clear(self) -> None:
        """Delete the conversation with its messages and summary; what was learnt stays."""
        with if_there():
            self._memory.delete_conversation(self._user, self._conversation)


def _message_of(item: KeptItem) -> BaseMessage:
    if item.value is not None:
        return messages_from_dict([item.value])[0]
    said = HumanMessage if item.message.role == "user" else AIMessage
    return said(item.message.content)
