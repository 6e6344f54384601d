"""The language model: one call with tools, and the loop that runs what it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openai import OpenAI

MAX_ROUNDS = 10
"""Calls of the model for one answer of an agent, at most."""

TEMPERATURE = 0.7
MAX_TOKENS = 2_000

Message = dict[str, Any]
RunTool = Callable[[str, str], str]
"""Runs a tool call: its name and its arguments as JSON text; returns JSON text for the model."""


@dataclass(slots=True)
class Model:
    """A chat model behind the OpenAI API.

    Attributes:
        client: The client, for OpenAI's or any compatible server.
        name: The model.
    """

    client: OpenAI
    name: str = "gpt-4o-mini"

    def call(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Message:
        """One call; the reply as a message that can be sent back.

        Raises:
            openai.OpenAIError: The server did not answer.
        """
        given: dict[str, Any] = {"tools": list(tools), "tool_choice": "auto"} if tools else {}
        # A server may answer without any choice, or with one that holds no message.
        reply = self.client.chat.completions.create(
            model=self.name,
            messages=messages,  # type: ignore[arg-type] # plain dicts, as they came
            temperature=TEMPERATURE,
            max_tokens=MAX_TOKENS,
            **given,
        )
        message = reply.choices[0].message if reply.choices else None
        return message.model_dump(exclude_none=True) if message else {"role": "assistant"}


@dataclass(slots=True)
class Loop:
    """Calls the model until it answers without tools.

    Attributes:
        model: The model.
        tools: The tools that it is offered, in OpenAI's format.
        run: Runs one tool call.
        stopped: Asked after every round of tools; True ends the loop with one last call without
            tools, in which the model says what there is to say.
        rounds: Calls of the model so far.
    """

    model: Model
    tools: Sequence[Mapping[str, Any]]
    run: RunTool
    stopped: Callable[[], bool] = lambda: False
    rounds: int = field(default=0, init=False)

    def answer(self, messages: list[Message]) -> str:
        """The model's answer to the messages, which grow by what was called; it may be empty.

        Raises:
            openai.OpenAIError: The server did not answer.
        """
        while True:
            self.rounds += 1
            last = self.rounds == MAX_ROUNDS or self.stopped()
            reply = self.model.call(messages, () if last else self.tools)
            calls = reply.get("tool_calls") or []
            # Without tools, a model that calls one all the same gets no answer to it.
            if last or not calls:
                return str(reply.get("content") or "").strip()
            messages.append(reply)
            for call in calls:
                asked = call.get("function", {})
                result = self.run(str(asked.get("name")), str(asked.get("arguments") or "{}"))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def as_text(value: Mapping[str, Any]) -> str:
    """A tool's result as the model reads it."""
    return json.dumps(value, ensure_ascii=False)
