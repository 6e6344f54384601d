"""Memory for the `litellm` package (extra `litellm`): its functions, and its Router.

Example:
    llm = remembering(litellm, memory=Hitherto(), user="ana", conversation="monday")
    llm.completion(model="gpt-5-mini", messages=[{"role": "user", "content": "I live in Porto."}])

Every call is given what is known about the user, and what was said is kept and learnt from.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Unpack

from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations import package_of
from hitherto_client.integrations.forms import ChatForm
from hitherto_client.integrations.noted_streams import AsyncNotedStream, NotedStream
from hitherto_client.integrations.remembrance import RememberingOptions, remembrance_of

with package_of("litellm"):
    from litellm import CustomStreamWrapper, Router


class RememberedCompletion(NotedStream, CustomStreamWrapper):
    """A stream of the package."""

    def _closed_with(self) -> Any:
        return self._stream


class AsyncRememberedCompletion(AsyncNotedStream, CustomStreamWrapper):
    """A stream of the package, which closes it with `aclose`; `close` does not wait."""

    def _closed_with(self) -> Any:
        return self._stream

    async def aclose(self) -> None:
        """Close the stream; what was received of the reply is kept."""
        await self._stream.aclose()
        await self._end()

    def close(self) -> None:  # type: ignore[override]
        """Close the stream; what was received of the reply is kept soon."""
        self._stream.close()
        self._drop()


class RememberingCalls:
    """LiteLLM, or a Router, whose chat completions remember; all else is its own."""

    def __init__(
        self,
        calls: Any,
        *,
        memory: Hitherto | AsyncHitherto,
        user: str,
        **options: Unpack[RememberingOptions],
    ) -> None:
        """Use a user's memory; the arguments are those of `remembering`."""
        self._calls = calls
        blocking = isinstance(memory, Hitherto)
        name, noted = (
            ("completion", RememberedCompletion)
            if blocking
            else ("acompletion", AsyncRememberedCompletion)
        )
        remembrance = remembrance_of(memory, user, CustomStreamWrapper, noted, **options)
        self._remembered = remembrance.method(getattr(calls, name), _CHAT)
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    def completion(self, model: str, messages: Any = (), **request: Any) -> Any:
        """`litellm.completion`, which remembers."""
        return self._asked("completion", "Hitherto")(model=model, messages=messages, **request)

    def acompletion(self, model: str, messages: Any = (), **request: Any) -> Any:
        """`litellm.acompletion`, which remembers; to be awaited."""
        call = self._asked("acompletion", "AsyncHitherto")
        return call(model=model, messages=messages, **request)

    def _asked(self, name: str, client: str) -> Any:
        if name != self._name:
            raise TypeError(f"{name} remembers with a client of class {client}")
        return self._remembered


def remembering(
    calls: Any,
    *,
    memory: Hitherto | AsyncHitherto,
    user: str,
    **options: Unpack[RememberingOptions],
) -> Any:
    """The package, or a Router, whose calls remember; what is given stays as it is.

    It does for `completion`, or for `acompletion` with an AsyncHitherto, what
    `integrations.openai.remembering` does for its package: the block of GetContext follows the
    instructions, and what the user said since the last reply and the reply are added to the
    conversation, once. Of a stream that breaks off, what was received is added. Everything else,
    such as `responses`, is the package's own.

    Args:
        calls: The module `litellm`, or a Router of it.
        memory: A Hitherto to call `completion`, an AsyncHitherto to call `acompletion`.
        user: Whom the assistant talks with.
        options: See `RememberingOptions`.

    Raises:
        TypeError: `calls` or `memory` is something else.
    """
    if isinstance(calls, RememberingCalls):
        calls = calls._calls  # To wrap twice must not remember twice.
    litellm = isinstance(calls, ModuleType) and calls.__name__ == "litellm"
    if not (litellm or isinstance(calls, Router)):
        raise TypeError(
            f"remembering takes the module litellm or a Router, not {type(calls).__name__}"
        )
    if not isinstance(memory, Hitherto | AsyncHitherto):
        raise TypeError(f"memory is a Hitherto or an AsyncHitherto, not {type(memory).__name__}")
    return RememberingCalls(calls, memory=memory, user=user, **options)


_CHAT = ChatForm()
