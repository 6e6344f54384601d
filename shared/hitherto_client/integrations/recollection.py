"""What an assistant is told before it answers, and what is kept of the answer, now or later.

Nothing here may end the assistant's own work: what fails is logged, and it goes on without memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import grpc

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.calls import countable
from hitherto_client.errors import HithertoCallError
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import batched

logger = logging.getLogger("hitherto_client")

_MOST_WAITING = 1_000_000
"""Characters that wait for the service to come back; beyond that the oldest are given up."""
_MESSAGE = re.compile(r"messages\[(\d+)\]")
"""The field of an invalid message."""
_TRY_AGAIN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
)


class Chat(NamedTuple):
    """Where something is said."""

    user: str
    conversation: str


class WaitingMessages:
    """Messages that wait to be added, of all conversations of a client. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Chat, MessageInput]] = []
        self._lock = threading.Lock()

    def put(self, chat: Chat, said: Iterable[MessageInput]) -> None:
        """Have messages wait. What waits already, because a request is repeated, waits once."""
        with self._lock:
            known = {(there, message["id"]) for there, message in self._waiting}
            self._waiting += (
                (chat, message) for message in said if (chat, message["id"]) not in known
            )

    def take(self, chat: Chat, until: float) -> dict[str, Any] | None:
        """The arguments of the next `add`; None if there is none, or no time `until` then.

        What waits elsewhere follows what was said in `chat`. Times are those of `time.monotonic`.
        """
        left = until - time.monotonic()
        with self._lock:
            if left <= 0 or not self._waiting:
                return None
            chats = {there for there, _ in self._waiting}
            chosen = chat if chat in chats else self._waiting[0][0]
            here = [message for there, message in self._waiting if there == chosen]
            messages = next(batched(here))
            taken = {message["id"] for message in messages}
            self._waiting = [
                (there, message)
                for there, message in self._waiting
                if there != chosen or message["id"] not in taken
            ]
        return {
            "user": chosen.user,
            "messages": messages,
            "conversation": chosen.conversation,
            "timeout": left,
        }

    def put_back(self, adding: Mapping[str, Any], error: Exception) -> bool:
        """Keep what could not be added if it may be added later; tells whether only then.

        Of a call with messages that the service refuses, the others may be added at once.
        """
        messages = adding["messages"]
        chat = Chat(adding["user"], adding["conversation"])
        if not _may_pass(error):
            # At least one of these, or none: a call with all of them again would never end.
            refused = _refused(error).intersection(range(len(messages)))
            others = [each for at, each in enumerate(messages) if refused and at not in refused]
            with self._lock:
                self._waiting[:0] = [(chat, each) for each in others]
            lost = len(messages) - len(others)
            logger.warning("%d messages are not remembered: %s", lost, error)
            return False
        logger.warning("%d messages are added with the next call: %s", len(messages), error)
        with self._lock:
            self._waiting[:0] = [(chat, each) for each in messages]
            size = sum(len(message["content"]) for _, message in self._waiting)
            while size > _MOST_WAITING:
                size -= len(self._waiting.pop(0)[1]["content"])
                logger.warning("a message is not remembered: too many wait for memory")
        return True


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed later."""
    return (
        isinstance(error, HithertoCallError)
        and error.code in _TRY_AGAIN
        and error.reason != "REQUEST_TOO_LARGE"
    )


def _refused(error: Exception) -> set[int]:
    """The places of the messages that the service refuses; none if it refuses the call."""
    if not isinstance(error, HithertoCallError):
        return set()
    found = [_MESSAGE.match(violation.field) for violation in error.violations]
    return {int(place[1]) for place in found if place} if all(found) else set()


class _Bounded:
    """What both kinds share: the bounds of each call, and what could not be added yet.

    `timeout` are the seconds to wait for memory at most, each time; `max_tokens` is the budget of a
    block, unset: the service's.
    """

    def __init__(self, *, timeout: float, max_tokens: int | None) -> None:
        self._timeout = countable(timeout)
        self._max_tokens = max_tokens
        self._waiting = WaitingMessages()

    def _asked(self, chat: Chat, question: str) -> dict[str, Any]:
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
        return time.monotonic() + self._timeout


class Recollection(_Bounded):
    """The memory of an assistant whose calls block. Thread-safe."""

    def __init__(self, memory: Hitherto, *, timeout: float, max_tokens: int | None) -> None:
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
