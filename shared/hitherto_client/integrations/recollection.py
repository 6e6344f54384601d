"""What an assistant is told before it answers, and what is kept of the answer.

Nothing here may end the assistant's own work: what fails is logged, and it goes on without memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.waiting_messages import Chat, WaitingMessages

logger = logging.getLogger("hitherto_client")


class _Bounded:
    """What both kinds share: the bounds of each call, and what could not be added yet."""

    def __init__(self, *, timeout: float, max_tokens: int | None) -> None:
        """Set the bounds.

        Args:
            timeout: Seconds to wait for memory at most, each time.
            max_tokens: The budget of a block. Unset: the service's.
        """
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._waiting = WaitingMessages()

    def _asked(self, chat: Chat, question: str) -> dict[str, Any]:
        """The arguments of `get_context`."""
        return {
            "user": chat.user,
            "query": question,
            "conversation": chat.conversation,
            "max_tokens": self._max_tokens,
            "timeout": self._timeout,
        }

    def _said(self, chat: Chat, messages: Iterable[MessageInput]) -> float:
        """Have messages wait to be added; returns until when to try."""
        self._waiting.put(chat, messages)
        return time.monotonic() + max(self._timeout, 0.001)


class Recollection(_Bounded):
    """The memory of an assistant whose calls block. Thread-safe."""

    def __init__(self, memory: Hitherto, *, timeout: float, max_tokens: int | None) -> None:
        """Use a client's memory; the other arguments are bounds."""
        super().__init__(timeout=timeout, max_tokens=max_tokens)
        self._memory = memory

    def block(self, chat: Chat, question: str) -> str:
        """What is known that matters for a question; empty if nothing is, or memory fails."""
        try:
            return self._memory.get_context(**self._asked(chat, question)).prompt_block
        except Exception as error:
            return without(error)

    def keep(self, chat: Chat, messages: Iterable[MessageInput]) -> None:
        """Add what was said to its conversation, now or with a later call."""
        until = self._said(chat, messages)
        while adding := self._waiting.take(chat, until):
            try:
                self._memory.add(**adding)
            except Exception as error:
                if self._waiting.put_back(adding, error):
                    break


class AsyncRecollection(_Bounded):
    """The memory of an asynchronous assistant."""

    def __init__(self, memory: AsyncHitherto, *, timeout: float, max_tokens: int | None) -> None:
        """Use a client's memory; the other arguments are bounds."""
        super().__init__(timeout=timeout, max_tokens=max_tokens)
        self._memory = memory
        self._tasks: set[asyncio.Task[None]] = set()

    async def block(self, chat: Chat, question: str) -> str:
        """What is known that matters for a question; empty if nothing is, or memory fails."""
        try:
            return (await self._memory.get_context(**self._asked(chat, question))).prompt_block
        except Exception as error:
            return without(error)

    async def keep(self, chat: Chat, messages: Iterable[MessageInput]) -> None:
        """Add what was said to its conversation, now or with a later call.

        It is added even if the caller is cancelled.
        """
        await asyncio.shield(self.keeping(chat, messages))

    def keeping(self, chat: Chat, messages: Iterable[MessageInput]) -> asyncio.Task[None]:
        """The same, in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._keep(chat, messages))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, chat: Chat, messages: Iterable[MessageInput]) -> None:
        until = self._said(chat, messages)
        while adding := self._waiting.take(chat, until):
            try:
                await self._memory.add(**adding)
            except Exception as error:
                if self._waiting.put_back(adding, error):
                    break


def without(error: Exception) -> str:
    """The block of an assistant that cannot be told anything: none."""
    logger.warning("the model answers without memory: %s", error)
    return ""
