"""Whose memory the calls of an openai client use, and what has not been added to it yet.

Nothing here may end a call: what cannot be read or extended is logged, and the call goes on.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from hitherto_client.batches import groups
from hitherto_client.errors import HithertoCallError
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import Exchange
from hitherto_client.integrations.openai_forms import AnswerSoFar, Form

logger = logging.getLogger("hitherto_client")

_RAW_HEADER = "X-Stainless-Raw-Response"
"""Marks calls of `with_raw_response` ("true") and `with_streaming_response` ("stream")."""
_MOST_WAITING = 1_000_000
"""Characters that wait for the service to come back; beyond that the oldest are given up."""
_MOST_AT_ONCE = 1_000
"""Messages of one call."""
_MESSAGE_BYTES = 512
"""The most that an id, a name and keys add to a message."""
_MESSAGE = re.compile(r"messages\[(\d+)\]")
"""The field of an invalid message."""
_TRY_AGAIN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
)


@dataclass(eq=False)
class Remembrance(ABC):
    """Whose memory is used, and how, before and after each call."""

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
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Where an asynchronous client adds."""

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
        self, call: Callable[..., Any], form: Form, request: dict[str, Any], exchange: Exchange
    ) -> Any:
        """The reply to a request that is given what is known; what was said is then added."""

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

    def without(self, error: Exception) -> str:
        """The block if memory could not be asked: none."""
        logger.warning("the model answers without memory: %s", error)
        return ""

    def extended(self, form: Form, request: dict[str, Any], block: str) -> dict[str, Any]:
        """The request with the block, or as it is if it cannot be extended."""
        if not block:
            return request
        try:
            return form.with_block(request, block)
        except Exception as error:
            logger.warning("the model answers without memory: %r", error)
            return request

    def said(self, exchange: Exchange, reply: AnswerSoFar) -> float:
        """Have what was said wait to be added; returns until when to try."""
        said = exchange.ended(reply.utterances(), complete=reply.complete)
        with self.lock:
            # A request that is repeated while its messages wait says the same once more.
            messages = {message["id"]: message for message in (*self.waiting, *said)}
            self.waiting[:] = messages.values()
        return time.monotonic() + max(self.timeout, 0.001)

    def to_add(self, until: float) -> dict[str, Any] | None:
        """The arguments of the next `add`, with as much as a call takes; None if there is none."""
        left = until - time.monotonic()
        with self.lock:
            messages = next(groups(self.waiting, _size, _MOST_AT_ONCE), []) if left > 0 else []
            del self.waiting[: len(messages)]
        if not messages:
            return None
        return {
            "user": self.user,
            "messages": messages,
            "conversation": self.conversation,
            "timeout": left,
        }

    def not_added(self, adding: Mapping[str, Any], error: Exception) -> bool:
        """Keep what could not be added if it may be added later; tells whether only then.

        Of a call with messages that the service refuses, the others may be added at once.
        """
        messages = adding["messages"]
        if not _may_pass(error):
            # At least one of these, or none: a call with all of them again would never end.
            refused = _refused(error).intersection(range(len(messages)))
            others = [each for at, each in enumerate(messages) if refused and at not in refused]
            with self.lock:
                self.waiting[:0] = others
            lost = len(messages) - len(others)
            logger.warning("%d messages are not remembered: %s", lost, error)
            return False
        logger.warning("%d messages are added with the next call: %s", len(messages), error)
        with self.lock:
            self.waiting[:0] = messages
            size = sum(len(message["content"]) for message in self.waiting)
            while size > _MOST_WAITING:
                size -= len(self.waiting.pop(0)["content"])
                logger.warning("a message is not remembered: too many wait for memory")
        return True


def _size(message: MessageInput) -> int:
    return len(message["content"].encode()) + _MESSAGE_BYTES


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
