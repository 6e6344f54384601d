"""One request to the model, with a second try or a division into two halves.

An unusable reply is requested once more. If a reply was cut off at the token limit, or the model
refuses a prompt for its length, the batch was too large and is cut in two. An unusable reply is
never taken for "nothing to remember".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from hitherto_extraction.pipeline.answer import EVENT_TYPES, Answer, UnusableAnswer
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.provider.protocol import ChatModel, Completion, Prompt
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import ModelError, ModelMisbehaved, PromptTooLong, estimate_tokens
from hitherto_shared.offloading import beside_loop

logger = logging.getLogger("hitherto.extraction")

ASKS = 2
"""Number of requests in one attempt of a job."""
_WORK_OF_A_LETTER = 4
"""The work of checking one letter of a reply, in characters read (`beside_loop`)."""

_OVERHEAD = 20
"""Estimated tokens of a message's id, role, name and time."""


class TooMuch(Exception):
    """The model ran out of room; retry with fewer messages.

    Attributes:
        spent: The cost of the unusable calls, which is charged all the same.
    """

    def __init__(self, spent: Sequence[Completion]) -> None:
        super().__init__("the batch was too much for one call")
        self.spent = spent


Read = TypeVar("Read")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ModelReply(Generic[Read]):
    """An answer and its cost."""

    answer: Read
    model: str
    calls: int
    input_tokens: int
    output_tokens: int


async def ask(chat: ChatModel, prompt: Prompt) -> ModelReply[Answer]:
    """Ask what a conversation teaches, as in `ask_for`."""
    return await ask_for(
        chat,
        prompt,
        lambda text: read_answer(
            text,
            messages=[message.local_id for message in prompt.batch.messages],
            memories=[memory.local_id for memory in prompt.batch.memories],
            events=[m.local_id for m in prompt.batch.memories if m.type in EVENT_TYPES],
            zone=zone_of(prompt.batch.time_zone),
        ),
        divisible=len(prompt.batch.messages) > 1,
    )


async def ask_for(
    chat: ChatModel, prompt: Prompt, read: Callable[[str], Read], *, divisible: bool
) -> ModelReply[Read]:
    """Request until there is an answer, at most `ASKS` times.

    Args:
        chat: The model.
        prompt: The prompt.
        read: Converts the reply's text to an answer, or raises `UnusableAnswer`.
        divisible: Whether the batch can be divided if the reply is cut off.

    Raises:
        TooMuch: The reply was cut off, or the prompt is too long for the model.
        ModelMisbehaved: No reply was usable; the error holds the last one.
        ModelUnavailable: The model is unreachable.
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


def _again(prompt: Prompt, why: str) -> Prompt:
    """The same prompt with the fault of the last reply; the user message stays last."""
    return replace(
        prompt,
        system=f"{prompt.system}\nYour previous reply could not be used: {why}. Answer with one "
        "JSON object as described and nothing else.\n",
    )


def split(messages: Sequence[StoredMessage], budget: int) -> list[list[StoredMessage]]:
    """Batches of at most `budget` tokens; a longer message gets a batch of its own."""
    batches: list[list[StoredMessage]] = []
    room = 0
    for message in messages:
        size = estimate_tokens(message.content) + _OVERHEAD
        if not batches or size > room:
            batches.append([])
            room = budget
        batches[-1].append(message)
        room -= size
    return batches


def halves(batch: Sequence[Item]) -> list[list[Item]]:
    """A batch in two halves, in order."""
    middle = len(batch) // 2
    return [list(batch[:middle]), list(batch[middle:])]
