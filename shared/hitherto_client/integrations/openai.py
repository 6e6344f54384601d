"""Memory for the client of the official `openai` package (extra `openai`).

Example:
    client = remembering(OpenAI(), memory=Hitherto(), user="ana", conversation="monday")
    client.chat.completions.create(model="gpt-5", messages=[...])

Every call of the wrapped client is given what is known about the user, and what was said is kept
and learnt from.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar, Unpack, overload

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations import package_of
from hitherto_client.integrations.forms import ChatForm, ResponsesForm
from hitherto_client.integrations.noted_streams import AsyncNotedStream, NotedStream
from hitherto_client.integrations.remembrance import (
    RememberingOptions,
    Remembrance,
    remembrance_of,
)

with package_of("openai"):
    from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream

OpenAIClient = TypeVar("OpenAIClient", bound=OpenAI)
AsyncOpenAIClient = TypeVar("AsyncOpenAIClient", bound=AsyncOpenAI)


class RememberedStream(NotedStream, Stream[Any]):
    """A stream of the package."""


class AsyncRememberedStream(AsyncNotedStream, AsyncStream[Any]):
    """A stream of the package."""


@overload
def remembering(
    client: OpenAIClient, *, memory: Hitherto, user: str, **options: Unpack[RememberingOptions]
) -> OpenAIClient: ...


@overload
def remembering(
    client: AsyncOpenAIClient,
    *,
    memory: AsyncHitherto,
    user: str,
    **options: Unpack[RememberingOptions],
) -> AsyncOpenAIClient: ...


def remembering(
    client: Any, *, memory: Any, user: str, **options: Unpack[RememberingOptions]
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
        options: See `RememberingOptions`.

    Raises:
        TypeError: `client` and `memory` are not both synchronous or both asynchronous.
    """
    if isinstance(client, OpenAI) and isinstance(memory, Hitherto):
        return _wrapped(client, remembrance_of(memory, user, Stream, RememberedStream, **options))
    if isinstance(client, AsyncOpenAI) and isinstance(memory, AsyncHitherto):
        noted = AsyncRememberedStream
        return _wrapped(client, remembrance_of(memory, user, AsyncStream, noted, **options))
    raise TypeError(
        "remembering takes an OpenAI client with a Hitherto, or an AsyncOpenAI client with an "
        f"AsyncHitherto, not {type(client).__name__} with {type(memory).__name__}"
    )


def _wrapped(client: Any, remembering: Remembrance, **options: Any) -> Any:
    """A copy of the client, with the methods that remember in place of its own."""
    # The copy of the class, not of the instance: wrapping twice must not remember twice.
    copied = type(client).copy(client, **options)
    for resource, form in ((copied.chat.completions, _CHAT), (copied.responses, _RESPONSES)):
        for name in ("create", "parse"):
            setattr(resource, name, remembering.method(getattr(resource, name), form))
    copied.copy = copied.with_options = functools.partial(_wrapped, copied, remembering)
    return copied


_CHAT, _RESPONSES = ChatForm(), ResponsesForm()
