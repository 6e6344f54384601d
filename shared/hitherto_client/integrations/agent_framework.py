"""Memory for the Microsoft Agent Framework (extra `agent-framework`).

Example:
    memory = HithertoContextProvider(AsyncHitherto(), user="ana")
    agent = Agent(OpenAIChatClient(), "Be brief.", context_providers=[memory])
    await agent.run("I live in Porto.")

`HithertoContextProvider` tells the model what is known and learns from each run, and
`HithertoHistoryProvider` keeps the messages of sessions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import ModelExchange, Utterance, batched, text_of
from hitherto_client.integrations.kept_items import (
    ItemReader,
    KeptItem,
    as_messages,
    check_kept,
)
from hitherto_client.integrations.recollection import AsyncRecollection, Chat
from hitherto_client.words import Role

with package_of("agent-framework"):
    from agent_framework import (
        AgentSession,
        ContextProvider,
        HistoryProvider,
        Message,
        SessionContext,
    )

User = str | Callable[[AgentSession], str]
"""Whom the agent talks with, or what tells it of a session."""

_KIND = "agent-framework"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


class HithertoContextProvider(ContextProvider):
    """Tells the model what is known about the user, and learns from what is said.

    Each run gets the block of GetContext for its input among its instructions. When the run has
    ended, what the user and the agent said in it is added to the conversation that has the
    session's id. If memory fails, the run goes on without it and a warning is logged; what could
    not be added is added after another run with this object.
    """

    def __init__(
        self,
        memory: AsyncHitherto,
        *,
        user: User,
        timeout: float = 2.0,
        max_tokens: int | None = None,
        keep: bool = True,
        source_id: str = "hitherto",
    ) -> None:
        """Give agents a memory.

        Args:
            memory: The client, on the event loop of the runs.
            user: Whom the agent talks with; a function of the session for an agent of many users.
            timeout: Seconds that a run waits for memory at most, before it and again after it.
            max_tokens: The budget of the block. Unset: 4,000.
            keep: False: nothing is added, because a history provider keeps the messages.
            source_id: The provider's id in the agent.
        """
        super().__init__(source_id)
        self._recollection = AsyncRecollection(memory, timeout=timeout, max_tokens=max_tokens)
        self._user = user
        self._keep = keep

    async def before_run(
        self, *, session: AgentSession, context: SessionContext, **run: Any
    ) -> None:
        """Add what is known to the instructions."""
        question = ModelExchange(_utterances(context.input_messages)).question
        block = await self._recollection.block(self._chat(session), question)
        if block:
            context.extend_instructions(self.source_id, block)

    async def after_run(
        self, *, session: AgentSession, context: SessionContext, **run: Any
    ) -> None:
        """Add what was said."""
        if not self._keep or context.response is None:
            return
        # The history may be the model server's, so that ids cannot follow from it.
        exchange = ModelExchange(_utterances(context.input_messages), thread=uuid.uuid4().hex)
        said = exchange.ended(_utterances(context.response.messages))
        await self._recollection.keep(self._chat(session), said)

    def _chat(self, session: AgentSession) -> Chat:
        return Chat(_user_of(self._user, session), session.session_id)


class HithertoHistoryProvider(HistoryProvider):
    """Keeps the messages of sessions, exactly and in order, for all processes.

    What the user and the agent say can be searched and is learnt from; calls of tools and their
    results are in the history only. A conversation that began in another way goes on here. A run
    fails if its history cannot be read or stored.
    """

    def __init__(
        self,
        memory: AsyncHitherto,
        *,
        user: User,
        source_id: str = "hitherto_history",
        **options: Any,
    ) -> None:
        """Keep histories.

        Args:
            memory: The client, on the event loop of the runs.
            user: Whom the agent talks with; a function of the session for an agent of many users.
            source_id: The provider's id in the agent.
            options: What the base class takes, such as `store_inputs`.
        """
        super().__init__(source_id, **options)
        self._memory = memory
        self._user = user

    async def before_run(self, *, session: AgentSession, state: dict[str, Any], **run: Any) -> None:
        """Load the history."""
        state["user"] = _user_of(self._user, session)
        await super().before_run(session=session, state=state, **run)

    async def after_run(self, *, session: AgentSession, state: dict[str, Any], **run: Any) -> None:
        """Store what is new.

        Raises:
            TypeError: A message is no JSON.
            HithertoCallError: It could not be stored, or memory is switched off for the user
                (`MEMORY_DISABLED`).
        """
        state["user"] = _user_of(self._user, session)
        await super().after_run(session=session, state=state, **run)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The messages of a session, the oldest first."""
        reader = ItemReader(_KIND)
        found: list[Message] = []
        async for message in self._memory.messages(*self._chat(session_id, state)):
            item = reader.take(message)
            if item is not None:
                found.append(_message_of(item))
        return found[::-1]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages at the end of a session."""
        user, conversation = self._chat(session_id, state)
        for batch in batched(part for message in messages for part in _kept(message)):
            added = await self._memory.add(user, batch, conversation=conversation)
            check_kept(added.job)

    def _chat(self, session_id: str | None, state: dict[str, Any] | None) -> Chat:
        """Where a session is kept.

        Raises:
            ValueError: The session, or its user, is not known.
        """
        user = (state or {}).get("user") or self._user
        if not session_id or not isinstance(user, str):
            raise ValueError("a history is that of a session, and of a user")
        return Chat(user, session_id)


def _user_of(user: User, session: AgentSession) -> str:
    return user(session) if callable(user) else user


def _spoken(message: Message) -> str:
    """What the user or the agent says in a message."""
    if message.role not in _ROLES:
        return ""
    return text_of([part for part in message.contents if part.type == "text"])


def _utterances(messages: Iterable[Message]) -> Iterator[Utterance]:
    for message in messages:
        if message.role in _ROLES:
            yield Utterance(_ROLES[message.role], _spoken(message))


def _kept(message: Message) -> Iterator[MessageInput]:
    role = _ROLES.get(message.role, "system")
    text = _spoken(message)
    return as_messages(_KIND, message.to_dict(), role=role, text=text, label=message.role)


def _message_of(item: KeptItem) -> Message:
    if item.value is not None:
        return Message.from_dict(item.value)
    return Message(item.message.role, [item.message.content])
