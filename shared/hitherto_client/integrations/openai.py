"""Memory for the client of the official `openai` package (extra `openai`).

Example:
    client = remembering(OpenAI(), memory=Hitherto(), user="ana", conversation="monday")
    client.chat.completions.create(model="gpt-5", messages=[...])

Every call of the wrapped client is given what is known about the user, and what was said is kept
and learnt from.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar, overload

import grpc

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import missing_package
from hitherto_client.integrations.exchange import Exchange
from hitherto_client.integrations.openai_forms import AnswerSoFar, ChatForm, Form, ResponsesForm

try:
    from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream

    from hitherto_client.integrations.openai_streams import (
        AsyncRememberedStream,
        RememberedStream,
    )
except ImportError as error:
    raise missing_package("openai", error) from error

SyncClient = TypeVar("SyncClient", bound=OpenAI)
AsyncClient = TypeVar("AsyncClient", bound=AsyncOpenAI)

logger = logging.getLogger("hitherto_client")

_RAW_HEADER = "X-Stainless-Raw-Response"
"""Marks calls of `with_raw_response` ("true") and `with_streaming_response` ("stream")."""
_MOST_WAITING = 1_000_000
"""Characters that wait for the service to come back; beyond that the oldest are given up."""
_TRY_AGAIN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
)


@overload
def remembering(
    client: SyncClient,
    *,
    memory: Hitherto,
    user: str,
    conversation: str = "",
    timeout: float = 2.0,
    max_tokens: int | None = None,
    keep: bool = True,
    tools: bool = False,
) -> SyncClient: ...


@overload
def remembering(
    client: AsyncClient,
    *,
    memory: AsyncHitherto,
    user: str,
    conversation: str = "",
    timeout: float = 2.0,
    max_tokens: int | None = None,
    keep: bool = True,
    tools: bool = False,
) -> AsyncClient: ...


def remembering(
    client: Any,
    *,
    memory: Any,
    user: str,
    conversation: str = "",
    timeout: float = 2.0,
    max_tokens: int | None = None,
    keep: bool = True,
    tools: bool = False,
) -> Any:
    """A client like `client` whose calls remember; `client` itself stays as it is.

    Each call of `chat.completions` (`create`, `parse`, `stream`) and `responses` (the same) gets
    the block of GetContext for the user's last message, at the end of its instructions. After the
    call, what the user said since the last reply and the reply are added to the conversation, once,
    even if the call is made again. Of a stream that breaks off, what was received is added. Of
    `with_streaming_response`, only the user's messages are. Everything else of the client is as
    before, and clients from `with_options` remember too.

    If memory fails, calls go on without it and a warning is logged. What could not be added is kept
    in this client and added with its next call.

    Args:
        client: A client of the package; making the wrapped one takes about a millisecond.
        memory: A Hitherto for a synchronous client, an AsyncHitherto for an asynchronous one.
        user: Whom the assistant talks with.
        conversation: Your id for the chat. Unset: a new one.
        timeout: Seconds that a call waits for memory at most, before the model and again after it.
        max_tokens: The budget of the block. Unset: 4,000.
        keep: False: nothing is added, because a session or your own code keeps the conversation.
        tools: True: calls of functions, with their arguments, and their results are kept too.

    Raises:
        TypeError: `client` and `memory` are not both synchronous or both asynchronous.
    """
    remembrance = _Remembrance(
        memory,
        user,
        conversation or str(uuid.uuid4()),
        timeout,
        max_tokens,
        keep,
        tools,
    )
    if isinstance(client, OpenAI) and isinstance(memory, Hitherto):
        return _wrapped(client, _Remembering(remembrance))
    if isinstance(client, AsyncOpenAI) and isinstance(memory, AsyncHitherto):
        return _wrapped(client, _AsyncRemembering(remembrance))
    raise TypeError(
        "remembering takes an OpenAI client with a Hitherto, or an AsyncOpenAI client with an "
        f"AsyncHitherto, not {type(client).__name__} with {type(memory).__name__}"
    )


def _wrapped(client: Any, remembering: _Remembering | _AsyncRemembering, **options: Any) -> Any:
    """A copy of the client, with the methods that remember in place of its own."""
    # The copy of the class, not of the instance: wrapping twice must not remember twice.
    copied = type(client).copy(client, **options)
    for resource, form in ((copied.chat.completions, _CHAT), (copied.responses, _RESPONSES)):
        for name in ("create", "parse"):
            setattr(resource, name, remembering.method(getattr(resource, name), form))
    copied.copy = copied.with_options = functools.partial(_wrapped, copied, remembering)
    return copied


_CHAT, _RESPONSES = ChatForm(), ResponsesForm()


@dataclass(frozen=True, slots=True)
class _Remembrance:
    """Whose memory is used, and how."""

    memory: Any
    user: str
    conversation: str
    timeout: float
    max_tokens: int | None
    keep: bool
    tools: bool
    waiting: list[MessageInput] = field(default_factory=list)
    """What could not be added yet."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def started(self, form: Form, request: Mapping[str, Any]) -> Exchange | None:
        """What a request says; None if it cannot be read."""
        try:
            return form.exchange(request, tools=self.tools)
        except Exception as error:
            logger.warning("a request that cannot be read is not remembered: %r", error)
            return None

    def question(self, exchange: Exchange) -> dict[str, Any]:
        """The arguments of `get_context`."""
        return {
            "user": self.user,
            "query": exchange.question,
            "conversation": self.conversation,
            "max_tokens": self.max_tokens,
            "timeout": self.timeout,
        }

    def extended(self, form: Form, request: dict[str, Any], block: str) -> dict[str, Any]:
        """The request with the block, or as it is if it cannot be extended."""
        if not block:
            return request
        try:
            return form.with_block(request, block)
        except Exception as error:
            logger.warning("the model answers without memory: %r", error)
            return request

    def to_add(self, exchange: Exchange, reply: AnswerSoFar) -> dict[str, Any] | None:
        """The arguments of `add`, with what waited; None if there is nothing to add."""
        said = exchange.ended(reply.utterances(), complete=reply.complete)
        with self.lock:
            # A request that is repeated while its messages wait says the same once more.
            messages = {message["id"]: message for message in (*self.waiting, *said)}
            self.waiting.clear()
        if not messages:
            return None
        return {
            "user": self.user,
            "messages": list(messages.values()),
            "conversation": self.conversation,
            "timeout": self.timeout,
        }

    def not_added(self, adding: Mapping[str, Any], error: Exception) -> None:
        """Keep what could not be added if it may be added later."""
        messages = adding["messages"]
        if not _may_pass(error):
            logger.warning("%d messages are not remembered: %s", len(messages), error)
            return
        logger.warning("%d messages are added with the next call: %s", len(messages), error)
        with self.lock:
            self.waiting[:0] = messages
            size = sum(len(message["content"]) for message in self.waiting)
            while size > _MOST_WAITING:
                size -= len(self.waiting.pop(0)["content"])
                logger.warning("a message is not remembered: too many wait for memory")


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed later."""
    return (
        isinstance(error, HithertoCallError)
        and error.code in _TRY_AGAIN
        and error.reason != "REQUEST_TOO_LARGE"
    )


def _read_reply(reply: AnswerSoFar, whole: Any, request: Mapping[str, Any]) -> None:
    """Read a whole reply of the model, if the call returned one."""
    raw = (request.get("extra_headers") or {}).get(_RAW_HEADER)
    if raw == "stream" or (raw and request.get("stream")):
        return
    try:
        reply.read(whole.parse() if raw else whole)
    except Exception as error:
        logger.warning("a reply that cannot be read is not remembered: %r", error)


def _soon(loop: asyncio.AbstractEventLoop, start: Callable[[], object]) -> None:
    """Start what a dropped stream leaves to do, unless its loop is over."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(start)


def _note(reply: AnswerSoFar, event: Any) -> None:
    try:
        reply.note(event)
    except Exception as error:
        logger.warning("a part of a reply that cannot be read is not remembered: %r", error)


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


_dropped = _Dropped()


class _Remembering:
    """The methods of a synchronous client."""

    def __init__(self, remembrance: _Remembrance) -> None:
        self._remembrance = remembrance

    def method(self, call: Callable[..., Any], form: Form) -> Callable[..., Any]:
        """`call`, with memory before and after it."""

        @functools.wraps(call)
        def remembered(**request: Any) -> Any:
            if form.key not in request:
                return call(**request)
            request = form.whole(request)
            exchange = self._remembrance.started(form, request)
            if exchange is None:
                return call(**request)
            block = self._context(exchange)
            given = call(**self._remembrance.extended(form, request, block))
            if not self._remembrance.keep:
                return given
            reply = form.reply(tools=self._remembrance.tools)
            add = functools.partial(self._add, exchange, reply)
            if isinstance(given, Stream):
                _dropped.ready()
                return RememberedStream(
                    given,
                    note=functools.partial(_note, reply),
                    ended=add,
                    dropped=functools.partial(_dropped.add, add),
                )
            _read_reply(reply, given, request)
            add()
            return given

        return remembered

    def _context(self, exchange: Exchange) -> str:
        try:
            context = self._remembrance.memory.get_context(**self._remembrance.question(exchange))
        except Exception as error:
            logger.warning("the model answers without memory: %s", error)
            return ""
        return str(context.prompt_block)

    def _add(self, exchange: Exchange, reply: AnswerSoFar) -> None:
        adding = self._remembrance.to_add(exchange, reply)
        if adding is not None:
            try:
                self._remembrance.memory.add(**adding)
            except Exception as error:
                self._remembrance.not_added(adding, error)


class _AsyncRemembering:
    """The methods of an asynchronous client."""

    def __init__(self, remembrance: _Remembrance) -> None:
        self._remembrance = remembrance
        self._tasks: set[asyncio.Task[None]] = set()

    def method(self, call: Callable[..., Awaitable[Any]], form: Form) -> Callable[..., Any]:
        """`call`, with memory before and after it."""

        @functools.wraps(call)
        async def remembered(**request: Any) -> Any:
            if form.key not in request:
                return await call(**request)
            request = form.whole(request)
            exchange = self._remembrance.started(form, request)
            if exchange is None:
                return await call(**request)
            block = await self._context(exchange)
            given = await call(**self._remembrance.extended(form, request, block))
            if not self._remembrance.keep:
                return given
            reply = form.reply(tools=self._remembrance.tools)
            if isinstance(given, AsyncStream):
                loop = asyncio.get_running_loop()
                start = functools.partial(self._start_adding, exchange, reply)
                return AsyncRememberedStream(
                    given,
                    note=functools.partial(_note, reply),
                    ended=lambda: asyncio.shield(start()),
                    dropped=lambda: _soon(loop, start),
                )
            _read_reply(reply, given, request)
            await asyncio.shield(self._start_adding(exchange, reply))
            return given

        return remembered

    async def _context(self, exchange: Exchange) -> str:
        try:
            context = await self._remembrance.memory.get_context(
                **self._remembrance.question(exchange)
            )
        except Exception as error:
            logger.warning("the model answers without memory: %s", error)
            return ""
        return str(context.prompt_block)

    def _start_adding(self, exchange: Exchange, reply: AnswerSoFar) -> asyncio.Task[None]:
        """Add in a task of its own, which goes on if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(self._add(exchange, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _add(self, exchange: Exchange, reply: AnswerSoFar) -> None:
        adding = self._remembrance.to_add(exchange, reply)
        if adding is not None:
            try:
                await self._remembrance.memory.add(**adding)
            except Exception as error:
                self._remembrance.not_added(adding, error)
