"""Whose memory the calls of a model's client use, and how requests and replies are read.

Nothing here may end a call: what cannot be read or extended is logged, and the call goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypedDict

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import ModelExchange
from hitherto_client.integrations.forms import AnswerSoFar, Form
from hitherto_client.integrations.recollection import AsyncRecollection, Chat, Recollection, without

logger = logging.getLogger("hitherto_client")

_RAW_HEADER = "X-Stainless-Raw-Response"
"""Marks calls of `with_raw_response` ("true") and `with_streaming_response` ("stream")."""


TIMEOUT = 2.0
"""Seconds that a call waits for memory at most, unless told otherwise."""


class RememberingOptions(TypedDict, total=False):
    """How the calls of a client remember.

    Attributes:
        conversation: Your id for the chat. Unset: a new one.
        timeout: Seconds that a call waits for memory at most, before the model and again after it.
            Unset: 2.
        max_tokens: The budget of the block. Unset: 4,000.
        keep: False: nothing is added, because your own code keeps the conversation. Unset: True.
        tools: True: calls of tools, with their arguments, and their results are kept too.
    """

    conversation: str
    timeout: float
    max_tokens: int | None
    keep: bool
    tools: bool


@dataclass(eq=False)
class Remembrance(ABC):
    """Whose memory is used, and how, before and after each call."""

    recollection: Any
    chat: Chat
    keep: bool
    tools: bool
    stream: type[Any]
    """The package's class of streams."""
    noted: Callable[..., Any]
    """Makes the stream that takes the place of one (`noted_streams`)."""

    def method(self, call: Callable[..., Any], form: Form) -> Callable[..., Any]:
        """`call`, which remembers."""

        @functools.wraps(call)
        def remembered(**request: Any) -> Any:
            if form.key not in request:
                return call(**request)
            request = form.whole(request)
            exchange = self.started(form, request)
            if exchange is None:
                return call(**request)
            return self.remembered(call, form, request, exchange)

        return remembered

    @abstractmethod
    def remembered(
        self, call: Callable[..., Any], form: Form, request: dict[str, Any], exchange: ModelExchange
    ) -> Any:
        """The reply to a request that is given what is known; what was said is then added."""

    def started(self, form: Form, request: Mapping[str, Any]) -> ModelExchange | None:
        """What a request says; None if it cannot be read."""
        try:
            return form.exchange(request, tools=self.tools)
        except Exception as error:
            logger.warning("a request that cannot be read is not remembered: %r", error)
            return None

    def extended(self, form: Form, request: dict[str, Any], block: str) -> dict[str, Any]:
        """The request with the block, or as it is if it cannot be extended."""
        if not block:
            return request
        try:
            return form.with_block(request, block)
        except Exception as error:
            without(error)
            return request


def said(exchange: ModelExchange, reply: AnswerSoFar) -> list[MessageInput]:
    """What is new in the conversation."""
    return exchange.ended(reply.utterances(), complete=reply.complete)


def read_reply(reply: AnswerSoFar, whole: Any, request: Mapping[str, Any]) -> None:
    """Read a whole reply of the model, if the call returned one."""
    raw = (request.get("extra_headers") or {}).get(_RAW_HEADER)
    if raw == "stream" or (raw and request.get("stream")):
        return
    try:
        reply.read(whole.parse() if raw else whole)
    except Exception as error:
        logger.warning("a reply that cannot be read is not remembered: %r", error)


def note_event(reply: AnswerSoFar, event: Any) -> None:
    """Take the next event of a stream."""
    try:
        reply.note(event)
    except Exception as error:
        logger.warning("a part of a reply that cannot be read is not remembered: %r", error)


def _soon(loop: asyncio.AbstractEventLoop, start: Callable[[], object]) -> None:
    """Start what a dropped stream leaves to do, unless its loop is over."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(start)


class _Dropped:
    """Adds what dropped streams have received, in a thread: a finalizer must not block."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.add = self._queue.put
        """Reentrant, as a finalizer needs it."""

    def ready(self) -> None:
        """Start the thread; not left to the finalizer."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="hitherto-dropped-streams", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._queue.get()()


DROPPED = _Dropped()
"""Of all clients."""


class SyncRemembrance(Remembrance):
    """Of a client whose calls block."""

    def remembered(
        self, call: Callable[..., Any], form: Form, request: dict[str, Any], exchange: ModelExchange
    ) -> Any:
        """See Remembrance."""
        block = self.recollection.block(self.chat, exchange.question)
        given = call(**self.extended(form, request, block))
        if not self.keep:
            return given
        reply = form.reply(tools=self.tools)

        def add() -> None:
            self.recollection.keep(self.chat, said(exchange, reply))

        if isinstance(given, self.stream):
            DROPPED.ready()
            return self.noted(
                given,
                note=functools.partial(note_event, reply),
                ended=add,
                dropped=functools.partial(DROPPED.add, add),
            )
        read_reply(reply, given, request)
        add()
        return given


class AsyncRemembrance(Remembrance):
    """Of an asynchronous client."""

    async def remembered(
        self, call: Callable[..., Any], form: Form, request: dict[str, Any], exchange: ModelExchange
    ) -> Any:
        """See Remembrance."""
        block = await self.recollection.block(self.chat, exchange.question)
        given = await call(**self.extended(form, request, block))
        if not self.keep:
            return given
        reply = form.reply(tools=self.tools)

        def start() -> asyncio.Task[None]:
            task: asyncio.Task[None] = self.recollection.keeping(self.chat, said(exchange, reply))
            return task

        if isinstance(given, self.stream):
            loop = asyncio.get_running_loop()
            return self.noted(
                given,
                note=functools.partial(note_event, reply),
                ended=lambda: asyncio.shield(start()),
                dropped=lambda: _soon(loop, start),
            )
        read_reply(reply, given, request)
        await asyncio.shield(start())
        return given


def remembrance_of(
    memory: Hitherto | AsyncHitherto,
    user: str,
    stream: type[Any],
    noted: Callable[..., Any],
    *,
    conversation: str = "",
    timeout: float = TIMEOUT,
    max_tokens: int | None = None,
    keep: bool = True,
    tools: bool = False,
) -> Remembrance:
    """Whose memory the calls of one chat use; the arguments are those of `remembering`."""
    how = (Chat(user, conversation or str(uuid.uuid4())), keep, tools, stream, noted)
    if isinstance(memory, Hitherto):
        return SyncRemembrance(Recollection(memory, timeout=timeout, max_tokens=max_tokens), *how)
    return AsyncRemembrance(AsyncRecollection(memory, timeout=timeout, max_tokens=max_tokens), *how)
