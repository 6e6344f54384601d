"""A memory block for the agents and chat engines of LlamaIndex (extra `llama-index`).

Example:
    block = HithertoMemoryBlock(Hitherto(), user="ana")
    memory = Memory.from_defaults(session_id="monday", memory_blocks=[block])
    await agent.run("I live in Porto.", memory=memory)
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hitherto_client._sync.client import Hitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import ModelExchange, Utterance, text_of
from hitherto_client.integrations.recollection import Chat, Recollection
from hitherto_client.words import Role

with package_of("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock

_ROLES: dict[MessageRole, Role] = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
}
_MOST_CHATS = 1_000
"""How many histories a block recognises; those that were read last."""


class HithertoMemoryBlock(BaseMemoryBlock[str]):
    """Tells the model what is known about the user, and learns from what is said.

    Each time that the `Memory` around it is read, the block is that of GetContext for the user's
    last message, and what is new in the history is added to the conversation that has the
    session's id, once. If memory fails, the block is empty and a warning is logged; what could not
    be added is added at another reading. The calls to the services run in threads, so that one
    client serves all event loops.
    """

    name: str = "hitherto"
    accept_short_term_memory: bool = False
    """What leaves the short-term memory was added when it was said."""

    _recollection: Recollection = PrivateAttr()
    _user: str = PrivateAttr()
    _keep: bool = PrivateAttr()
    _session: str = PrivateAttr()
    _read: dict[Chat, list[int]] = PrivateAttr(default_factory=dict)
    """The messages of each history when it was last read, as hashes."""

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: str,
        timeout: float = 2.0,
        max_tokens: int | None = None,
        keep: bool = True,
        **options: Any,
    ) -> None:
        """Give a `Memory` what is known.

        Args:
            memory: The client.
            user: Whom the model talks with.
            timeout: Seconds that a reading waits for the block at most, and again to add messages.
            max_tokens: The budget of the block. Unset: 4,000.
            keep: False: nothing is added, because your own code keeps the conversation.
            options: What the base class takes, such as `name` and `priority`.
        """
        super().__init__(**options)
        self._recollection = Recollection(memory, timeout=timeout, max_tokens=max_tokens)
        self._user = user
        self._keep = keep
        self._session = str(uuid.uuid4())

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, as LlamaIndex asks for it."""
        return cls.__name__

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = _without_echo(list(_utterances(messages or ())))
        chat = self._chat(block_kwargs.get("session_id"))
        block = ""
        if not said or said[-1].role == "user":
            question = ModelExchange(said).question
            block = await asyncio.to_thread(self._recollection.block, chat, question)
        if self._keep:
            await asyncio.to_thread(self._recollection.keep, chat, self._new(chat, said))
        return block

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Add messages that are put into the block itself."""
        for message in messages:
            chat = self._chat(message.additional_kwargs.get("session_id"))
            # Nothing before it is known, so that its id cannot follow from that.
            exchange = ModelExchange((), thread=uuid.uuid4().hex)
            said = exchange.ended(_utterances([message]))
            await asyncio.to_thread(self._recollection.keep, chat, said)

    def _new(self, chat: Chat, said: Sequence[Utterance]) -> list[MessageInput]:
        """What was not in the history when it was read before."""
        before, now = self._read.pop(chat, []), [hash(utterance) for utterance in said]
        self._read[chat] = now
        if len(self._read) > _MOST_CHATS:
            del self._read[next(iter(self._read))]
        known = _overlap(before, now)
        if not known:
            # The history of another process: all but its end was added there.
            replies = [at for at, utterance in enumerate(said) if utterance.role == "assistant"]
            known = replies[-1] + 1 if replies else 0
        exchange = ModelExchange(said[:known])
        return exchange.ended(said[known:])[len(exchange.ended(())) :]

    def _chat(self, session: str | None) -> Chat:
        return Chat(self._user, session or self._session)


def _utterances(messages: Iterable[ChatMessage]) -> Iterator[Utterance]:
    for message in messages:
        role = _ROLES.get(message.role)
        if role is not None:
            texts = [block for block in message.blocks if isinstance(block, TextBlock)]
            yield Utterance(role, text_of(texts))


def _without_echo(said: list[Utterance]) -> list[Utterance]:
    """The history without a question that is read with it although it stands in it already."""
    echoed = said[-2:-1] == said[-1:] and said[-1].role == "user"
    return said[:-1] if echoed else said


def _overlap(before: Sequence[int], now: Sequence[int]) -> int:
    """How many messages at the beginning of a history are the end of what it was before."""
    counts = range(min(len(before), len(now)), 0, -1)
    return next((count for count in counts if before[-count:] == now[:count]), 0)
