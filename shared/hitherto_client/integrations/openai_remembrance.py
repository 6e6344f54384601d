"""Whose memory the calls of an openai client use, and how requests and replies are read for it.

Nothing here may end a call: what cannot be read or extended is logged, and the call goes on.
"""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.backlog import Place
from hitherto_client.integrations.exchange import Exchange
from hitherto_client.integrations.openai_forms import AnswerSoFar, Form
from hitherto_client.integrations.recollection import without

logger = logging.getLogger("hitherto_client")

_RAW_HEADER = "X-Stainless-Raw-Response"
"""Marks calls of `with_raw_response` ("true") and `with_streaming_response` ("stream")."""


@dataclass(eq=False)
class Remembrance(ABC):
    """Whose memory is used, and how, before and after each call."""

    recollection: Any
    place: Place
    keep: bool
    tools: bool

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

    def extended(self, form: Form, request: dict[str, Any], block: str) -> dict[str, Any]:
        """The request with the block, or as it is if it cannot be extended."""
        if not block:
            return request
        try:
            return form.with_block(request, block)
        except Exception as error:
            without(error)
            return request


def said(exchange: Exchange, reply: AnswerSoFar) -> list[MessageInput]:
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
