"""Messages of Pydantic AI: what is said in them, and how a history keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import Utterance
from hitherto_client.integrations.kept_items import KeptItem, as_messages
from hitherto_client.integrations.wording import without_blocks
from hitherto_client.words import Role

KIND = "pydantic-ai"


def words(content: str | Sequence[UserContent] | None) -> str:
    """The text of a prompt, without pictures and files."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = (part.content if isinstance(part, TextContent) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def spoken(message: ModelMessage) -> str:
    """What the user or the model says in a message."""
    said = (part for part in message.parts if isinstance(part, UserPromptPart | TextPart))
    return "\n".join(text for part in said if (text := words(part.content)))


def speaks(message: ModelMessage) -> bool:
    """Whether the user says something in a message."""
    return any(isinstance(part, UserPromptPart) for part in message.parts)


def utterances(messages: Iterable[ModelMessage], *, tools: bool = False) -> Iterator[Utterance]:
    """What is said in messages; with `tools` also the calls of tools and their results."""
    for message in messages:
        role: Role = "assistant" if isinstance(message, ModelResponse) else "user"
        if role == "assistant" or speaks(message):
            yield Utterance(role, spoken(message))
        for part in message.parts if tools else ():
            if isinstance(part, ToolCallPart):
                yield Utterance(
                    "tool", f"{part.tool_name}({part.args_as_json_str()})", part.tool_name
                )
            elif isinstance(part, ToolReturnPart):
                yield Utterance("tool", part.model_response_str(), part.tool_name)


def kept(message: ModelMessage) -> Iterator[MessageInput]:
    """A message as messages of a conversation."""
    if isinstance(message, ModelRequest) and message.instructions:
        # What was known then is no part of what was said, and may be forgotten since.
        message = replace(message, instructions=without_blocks(message.instructions))
    [value] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    role: Role = "assistant" if isinstance(message, ModelResponse) else "user"
    yield from as_messages(KIND, value, role=role, text=spoken(message), label=message.kind)


def message_of(item: KeptItem) -> ModelMessage:
    """The message that is kept."""
    if item.value is not None:
        return ModelMessagesTypeAdapter.validate_python([item.value])[0]
    if item.message.role == "user":
        return ModelRequest([UserPromptPart(item.message.content)])
    return ModelResponse([TextPart(item.message.content)])
