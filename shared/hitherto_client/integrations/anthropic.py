"""Memory for the official `anthropic` package (extra `anthropic`): its client, and its memory tool.

Example:
    client = remembering(Anthropic(), memory=Hitherto(), user="ana", conversation="monday")
    client.messages.create(model="claude-sonnet-5-5", max_tokens=1_000, messages=[...])

    tool = HithertoMemoryTool(Hitherto(), user="ana")
    Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-5-5",
        max_tokens=1_000,
        messages=[{"role": "user", "content": "Remember that I live in Porto."}],
        tools=[tool],
        betas=["context-management-2025-06-27"],
    ).until_done()
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, overload

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations import package_of
from hitherto_client.integrations.forms import MessagesForm
from hitherto_client.integrations.noted_streams import AsyncNotedStream, NotedStream
from hitherto_client.integrations.remembrance import (
    RememberingOptions,
    Remembrance,
    SyncRemembrance,
    read_reply,
    remembrance_of,
    said,
)
from hitherto_client.memory_files import MemoryFileError, MemoryFiles
from hitherto_client.words import Origin

with package_of("anthropic"):
    from anthropic import (
        Anthropic,
        AsyncAnthropic,
        AsyncMessageStreamManager,
        AsyncStream,
        MessageStreamManager,
        Stream,
    )
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )


SyncClient = TypeVar("SyncClient", bound=Anthropic)
AsyncClient = TypeVar("AsyncClient", bound=AsyncAnthropic)


class RememberedMessages(NotedStream, Stream[Any]):
    """A stream of the package."""


class AsyncRememberedMessages(AsyncNotedStream, AsyncStream[Any]):
    """A stream of the package."""


@overload
def remembering(
    client: SyncClient, *, memory: Hitherto, user: str, **options: Unpack[RememberingOptions]
) -> SyncClient: ...


@overload
def remembering(
    client: AsyncClient, *, memory: AsyncHitherto, user: str, **options: Unpack[RememberingOptions]
) -> AsyncClient: ...


def remembering(
    client: Any, *, memory: Any, user: str, **options: Unpack[RememberingOptions]
) -> Any:
    """A client like `client` whose calls remember; `client` itself stays as it is.

    It does for `messages` (`create`, `parse`, `stream`) what `integrations.openai.remembering` does
    for its package: the block of GetContext follows the instructions (`system`), and what the user
    said since the last reply and the reply are added to the conversation, once. Of a stream that
    breaks off, what was received is added. `beta` and everything else are the package's own.

    Args:
        client: A client of the package.
        memory: A Hitherto for a synchronous client, an AsyncHitherto for an asynchronous one.
        user: Whom the assistant talks with.
        options: See `RememberingOptions`.

    Raises:
        TypeError: `client` and `memory` are not both synchronous or both asynchronous.
    """
    if isinstance(client, Anthropic) and isinstance(memory, Hitherto):
        remembrance = remembrance_of(memory, user, Stream, RememberedMessages, **options)
        return _wrapped(client, remembrance)
    if isinstance(client, AsyncAnthropic) and isinstance(memory, AsyncHitherto):
        remembrance = remembrance_of(memory, user, AsyncStream, AsyncRememberedMessages, **options)
        return _wrapped(client, remembrance)
    raise TypeError(
        "remembering takes an Anthropic client with a Hitherto, or an AsyncAnthropic client with an"
        f" AsyncHitherto, not {type(client).__name__} with {type(memory).__name__}"
    )


_MESSAGES = MessagesForm()


def _wrapped(client: Any, remembrance: Remembrance, **options: Any) -> Any:
    """A copy of the client, with the methods that remember in place of its own."""
    # The copy of the class, not of the instance: wrapping twice must not remember twice.
    copied = type(client).copy(client, **options)
    messages = copied.messages
    for name in ("create", "parse"):
        setattr(messages, name, remembrance.method(getattr(messages, name), _MESSAGES))
    manager = _Managed if isinstance(remembrance, SyncRemembrance) else _AsyncManaged
    messages.stream = functools.partial(manager, remembrance, messages.stream)
    copied.copy = copied.with_options = functools.partial(_wrapped, copied, remembrance)
    return copied


class _Helped:
    """One call of `stream`: what the request says, and the stream of the package's helper."""

    def __init__(self, how: Any, call: Callable[..., Any], **request: Any) -> None:
        self._how = how
        self._call = call
        self._request = _MESSAGES.whole(request) if _MESSAGES.key in request else request
        self._exchange = how.started(_MESSAGES, self._request)
        self._manager: Any = None
        self._stream: Any = None

    def _asked(self, block: str) -> Any:
        self._manager = self._call(**self._how.extended(_MESSAGES, self._request, block))
        return self._manager

    def _said(self) -> Any:
        """What is new, if anything is to be kept."""
        if self._exchange is None or self._stream is None or not self._how.keep:
            return ()
        reply = _MESSAGES.reply(tools=self._how.tools)
        # Without a first event there is none, which the package asserts.
        with contextlib.suppress(AssertionError):
            read_reply(reply, self._stream.current_message_snapshot, {})
        return said(self._exchange, reply)


class _Managed(_Helped, MessageStreamManager[Any]):
    """Asks for the block when the stream begins, and adds what was received when it ends."""

    def __enter__(self) -> Any:
        question = self._exchange.question if self._exchange else ""
        block = self._how.recollection.block(self._how.chat, question)
        self._stream = self._asked(block).__enter__()
        return self._stream

    def __exit__(self, *error: Any) -> None:
        try:
            self._manager.__exit__(*error)
        finally:
            self._how.recollection.keep(self._how.chat, self._said())


class _AsyncManaged(_Helped, AsyncMessageStreamManager[Any]):
    """See _Managed."""

    async def __aenter__(self) -> Any:
        question = self._exchange.question if self._exchange else ""
        block = await self._how.recollection.block(self._how.chat, question)
        self._stream = await self._asked(block).__aenter__()
        return self._stream

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._manager.__aexit__(*error)
        finally:
            await self._how.recollection.keep(self._how.chat, self._said())


class _OverFiles:
    def __init__(
        self, memory: Hitherto, *, user: str, origin: Origin = "assistant", **options: Any
    ) -> None:
        """Offer a person's memory to a model.

        Args:
            memory: The client.
            user: Whose memory.
            origin: On whose word new lines stand (`MemoryFiles`).
            options: What the base class takes, such as `cache_control`.
        """
        super().__init__(**options)
        self._files = MemoryFiles(memory, user=user, origin=origin)

    def _run(self, command: Any) -> str:
        try:
            return self._files.run(command.to_dict())
        except MemoryFileError as error:
            # The runner tells the model.
            raise ToolError(str(error)) from error


class HithertoMemoryTool(_OverFiles, BetaAbstractMemoryTool):
    """The tool `memory_20250818` over a person's memory, for `tool_runner`.

    The files are those of `MemoryFiles`.
    """

    def execute(self, command: Any) -> str:
        """Run one of the six commands."""
        return self._run(command)

    view = create = str_replace = insert = delete = rename = execute


class AsyncHithertoMemoryTool(_OverFiles, BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`; the commands run in threads."""

    async def execute(self, command: Any) -> str:
        """Run one of the six commands."""
        return await asyncio.to_thread(self._run, command)

    view = create = str_replace = insert = delete = rename = execute
