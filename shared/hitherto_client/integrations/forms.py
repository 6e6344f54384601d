"""What a model's API has to say of itself: where its requests have messages, and replies words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from hitherto_client.integrations.exchange import ModelExchange, Utterance


class AnswerSoFar(ABC):
    """What a model answered, whole or event by event."""

    def __init__(self, *, tools: bool) -> None:
        self._tools = tools
        self._text: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self.complete = False
        """Whether the model came to an end."""

    @abstractmethod
    def read(self, whole: Any) -> None:
        """Take a whole reply."""

    @abstractmethod
    def note(self, event: Any) -> None:
        """Take the next event of a stream."""

    def utterances(self) -> Iterator[Utterance]:
        """The words of the reply, and the tool calls if these are kept."""
        yield Utterance("assistant", "".join(self._text))
        if self._tools:
            for name, arguments in self._calls.values():
                yield Utterance("tool", f"{name}({arguments})", name)

    def _call(self, place: int, name: str | None, arguments: str | None) -> None:
        call = self._calls.setdefault(place, ["", ""])
        call[0] += name or ""
        call[1] += arguments or ""


class Form(ABC):
    """How requests of one kind are read and extended. A request is never changed, only copied."""

    key: str
    """The argument with the messages."""
    reply: type[AnswerSoFar]

    def whole(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request, with messages that can be read more than once."""
        messages = request[self.key]
        if not isinstance(messages, str | list | tuple) and hasattr(messages, "__iter__"):
            messages = list(messages)
        return {**request, self.key: messages}

    @abstractmethod
    def exchange(self, request: Mapping[str, Any], *, tools: bool) -> ModelExchange:
        """What the request says; results of tools only with `tools`."""

    @abstractmethod
    def with_block(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """The request with a block of memory in its instructions, in place of an earlier one."""
