"""What a scripted chat model answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.scripted_model.prompts import ChatRequest


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One completion.

    Attributes:
        content: The text; None is a message without any.
        finish_reason: `length` is an answer that was cut off.
        usage: Prompt and completion tokens; None leaves `usage` out of the reply.
        refusal: The model's own refusal.
        model: The name under which it answers; that it was asked by, if empty.
    """

    content: str | None
    finish_reason: str = "stop"
    usage: tuple[int, int] | None = (100, 20)
    refusal: str | None = None
    model: str = ""

    @classmethod
    def of(cls, **keys: Any) -> ChatAnswer:
        """Answer with one JSON object, such as `ChatAnswer.of(new_memories=[...])`."""
        return cls(json.dumps(keys, ensure_ascii=False))

    def body(self, model: str) -> dict[str, Any]:
        """The answer as OpenAI would wrap it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.refusal is not None:
            message["refusal"] = self.refusal
        reply: dict[str, Any] = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 1_750_000_000,
            "model": self.model or model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
        }
        if self.usage is not None:
            prompt, completion = self.usage
            reply["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            }
        return reply


def memory(content: str, sources: Sequence[str] = ("m1",), **more: Any) -> dict[str, Any]:
    """One item of `new_memories` that nothing is wrong with."""
    return {
        "type": "fact",
        "content": content,
        "importance": 0.5,
        "confidence": "high",
        "tags": [],
        "keywords": [],
        "entities": [],
        "source_message_ids": list(sources),
        "origin": "user",
    } | more


def cited(quote: str, *sources: str, **more: Any) -> dict[str, Any]:
    """What a change cites: words of the message `m1`, or of the messages named."""
    return {"source_message_ids": list(sources or ["m1"]), "quote": quote, **more}


def change(known: str, quote: str, *sources: str, **more: Any) -> dict[str, Any]:
    """One item of a list of changes: of the memory `e1`…, with the words that say so."""
    return {"id": known, **cited(quote, *sources), **more}


def value(path: str, given: Any, quote: str, *sources: str, **more: Any) -> dict[str, Any]:
    """One item of `profile_changes`, with the words that say so."""
    return {"path": path, "value": given, **cited(quote, *sources), **more}


CHANGES = (
    "updated_memories",
    "contradicted_memories",
    "achieved_goals",
    "forgotten_memories",
    "profile_changes",
)


def quoting(request: ChatRequest, **answer: Any) -> ChatAnswer:
    """The answer of a model that shows its evidence.

    Each change that quotes nothing yet quotes the whole of the message it cites; of the user's
    last message, if it cites none.
    """
    contents = {message.local_id: message.content for message in request.messages}
    users = [message.local_id for message in request.messages if message.role == "user"]

    def shown(item: Mapping[str, Any]) -> dict[str, Any]:
        sources = item.get("source_message_ids") or users[-1:]
        quote = contents.get(sources[0], "")[:900] if sources else ""
        return {"source_message_ids": sources, "quote": quote, **item}

    more: dict[str, Any] = {key: list(map(shown, answer[key])) for key in CHANGES if key in answer}
    if answer.get("profile"):
        more["profile"] = shown(answer["profile"])
    return ChatAnswer.of(**{**answer, **more})


def merged(content: str, originals: list[str], **more: Any) -> dict[str, Any]:
    """One item of a consolidation's `memories` that nothing is wrong with."""
    return {
        "type": "preference",
        "content": content,
        "importance": 0.8,
        "confidence": "high",
        "tags": [],
        "merged": originals,
    } | more
