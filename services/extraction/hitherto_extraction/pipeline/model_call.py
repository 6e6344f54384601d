"""One question to the model, and the patience it takes: a second try, or two halves.

A reply that is no answer is asked for once more. A reply that was cut off at the token limit, or a
question the model refuses for its length, means the batch was too much: it is cut in two. Nothing
unusable is ever taken for "nothing to remember".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from hitherto_extraction.pipeline.answer import (
    EVENT_TYPES,
    Answer,
    UnusableAnswer,
    read_answer,
)
from hitherto_extraction.provider.protocol import ChatModel, Completion, Prompt
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import ModelError, ModelMisbehaved, PromptTooLong
from hitherto_shared.offloading import beside_loop

logger = logging.getLogger("hitherto.extraction")

ASKS = 2
"""How often one attempt of a job asks before it counts as failed."""
_WORK_OF_A_LETTER = 4
"""What it takes to check a letter of a reply, as characters read (`beside_loop`)."""


class TooMuch(Exception):
    """The model ran out of room: ask about fewer messages.

    Attributes:
        spent: What was asked in vain, which costs all the same.
    """

    def __init__(self, spent: Sequence[Completion]) -> None:
        super().__init__("the batch was too much for one call")
        self.spent = spent


Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class ModelReply(Generic[Read]):
    """An answer and what it took."""

    answer: Read
    model: str
    calls: int
    input_tokens: int
    output_tokens: int


Reply: TypeAlias = ModelReply[Answer]


async def ask(chat: ChatModel, prompt: Prompt, *, closing_only: bool = False) -> Reply:
    """Ask what a conversation teaches, as `ask_for` does; `closing_only` as for `read_answer`."""
    return await ask_for(
        chat,
        prompt,
        lambda text: read_answer(
            text,
            messages=[message.local_id for message in prompt.batch.messages],
            memories=[memory.local_id for memory in prompt.batch.memories],
            events=[m.local_id for m in prompt.batch.memories if m.type in EVENT_TYPES],
            closing_only=closing_only,
        ),
        divisible=len(prompt.batch.messages) > 1,
    )


async def ask_for(
    chat: ChatModel, prompt: Prompt, read: Callable[[str], Read], *, divisible: bool
) -> ModelReply[Read]:
    """Ask until there is an answer, at most `ASKS` times.

    Args:
        chat: Whom to ask.
        prompt: The question.
        read: Makes an answer of the reply's text, or raises `UnusableAnswer`.
        divisible: Whether less can be asked about if the reply is cut off.

    Raises:
        TooMuch: The reply was cut off, or the question is too long for the model.
        ModelMisbehaved: No reply was an answer; the error holds the last one.
        ModelUnavailable: The model is out of reach.
        ModelRefused: The model refuses the request.
    """
    spent: list[Completion] = []
    why = ""
    for _ in range(ASKS):
        try:
            completion = await chat.complete(_again(prompt, why) if why else prompt)
        except ModelError as error:
            if isinstance(error, PromptTooLong) and divisible:
                raise TooMuch(spent) from None
            error.spent = [*spent, *error.spent]
            raise
        spent.append(completion)
        try:
            # A reply may have megabytes.
            work = _WORK_OF_A_LETTER * len(completion.text)
            answer = await beside_loop(work, read, completion.text)
        except UnusableAnswer as error:
            why = str(error)
            if completion.truncated and divisible:
                raise TooMuch(spent) from None
            if completion.truncated:
                why = "it was cut off; raise MEMORY_EXTRACTION_MAX_TOKENS if this lasts"
            logger.warning("unusable reply: %s", why)
            continue
        if completion.truncated and divisible:
            raise TooMuch(spent)
        return ModelReply(
            answer=answer,
            model=completion.model,
            calls=sum(c.calls for c in spent),
            input_tokens=sum(c.input_tokens for c in spent),
            output_tokens=sum(c.output_tokens for c in spent),
        )
    failure = ModelMisbehaved(
        f"{ASKS} replies in a row were unusable; the last one: {why}", reply=spent[-1].text
    )
    failure.spent = spent
    raise failure


def halves(messages: Sequence[StoredMessage]) -> list[list[StoredMessage]]:
    """A batch in two, in order."""
    middle = len(messages) // 2
    return [list(messages[:middle]), list(messages[middle:])]


def _again(prompt: Prompt, why: str) -> Prompt:
    """The same question, told what was wrong; the user message stays the last."""
    return replace(
        prompt,
        system=f"{prompt.system}\nYour previous reply could not be used: {why}. Answer with one "
        "JSON object as described and nothing else.\n",
    )
