"""One request to the model, with a second try or a division into two halves.

If a reply was cut off, or the prompt was not read to its end, the batch is cut in two; so is one
that the server refuses while it accepts others. A single message that a content filter refuses is
skipped and counted. An unusable reply is never taken for "nothing to remember".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from hitherto_extraction.pipeline.answer import EVENT_TYPES, Answer
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.provider.placeholders import is_placeholder
from hitherto_extraction.provider.protocol import ChatModel, Completion, Prompt
from hitherto_extraction.provider.reply_text import CutOffAnswer, UnusableAnswer
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import (
    ContentRefused,
    ModelError,
    ModelMisbehaved,
    ModelRefused,
    estimate_tokens,
)
from hitherto_shared.offloading import in_thread_if_long

logger = logging.getLogger("hitherto.extraction")

ASKS = 2
"""Number of requests in one attempt of a job."""
_WORK_OF_A_LETTER = 4
"""The work of checking one letter of a reply, in characters read (`in_thread_if_long`)."""

_OVERHEAD = 20
"""Estimated tokens of a message's id, role, name and time."""


class TooMuch(Exception):
    """The model ran out of room; retry with fewer messages.

    Attributes:
        spent: The cost of the unusable calls, which is charged all the same.
        for_content: Whether a content filter refused a part of it.
    """

    def __init__(self, spent: Sequence[Completion], *, for_content: bool = False) -> None:
        super().__init__("the batch was too much for one call")
        self.spent = spent
        self.for_content = for_content


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
    """Ask what a conversation teaches, as in `ask_for`.

    A single message that a content filter refuses teaches nothing, and is skipped.
    """
    batch = prompt.batch

    def read(text: str) -> Answer:
        answer = read_answer(
            text,
            messages=[message.local_id for message in batch.messages],
            memories=[memory.local_id for memory in batch.memories],
            events=[m.local_id for m in batch.memories if m.type in EVENT_TYPES],
            zone=zone_of(batch.time_zone),
        )
        return _without_placeholders(answer, prompt)

    try:
        return await ask_for(chat, prompt, read, divisible=len(batch.messages) > 1)
    except ContentRefused as error:
        logger.warning("a message was skipped, because %s", error)
        spent = _completions(error)
        return _reply(Answer(skipped=True), spent, spent[-1].model if spent else chat.model)


def _without_placeholders(answer: Answer, prompt: Prompt) -> Answer:
    """The answer without memories that only fill in the form of the request."""
    said = "\n".join(message.content for message in prompt.batch.messages)
    new = [item for item in answer.new if not is_placeholder(item.content, prompt.system, said)]
    return replace(answer, new=new, dropped=answer.dropped + len(answer.new) - len(new))


async def ask_for(
    chat: ChatModel, prompt: Prompt, read: Callable[[str], Read], *, divisible: bool
) -> ModelReply[Read]:
    """Request until there is an answer, at most `ASKS` times.

    `read` converts the reply's text to an answer, or raises `UnusableAnswer`. A batch is
    `divisible` if less can be asked when it is too large or refused.

    Raises:
        TooMuch: The reply was cut off, or the server refuses this prompt: try with less.
        ModelMisbehaved: No reply was usable; the error holds the last one.
        ModelUnavailable: The model is unreachable.
        ModelRefused: The model refuses the request, which cannot be divided.
    """
    spent: list[Completion] = []
    why = ""
    for _ in range(ASKS):
        try:
            completion = await chat.complete(_again(prompt, why) if why else prompt)
        except ModelError as error:
            error.spent = [*spent, *error.spent]
            if isinstance(error, ModelRefused) and divisible:
                for_content = isinstance(error, ContentRefused)
                raise TooMuch(_completions(error), for_content=for_content) from None
            raise
        spent.append(completion)
        if divisible and (completion.filtered or completion.unread):
            raise TooMuch(spent, for_content=completion.filtered)
        if completion.filtered:
            declined = ContentRefused("the model declined to answer")
            declined.spent = spent
            raise declined
        try:
            # A reply may have megabytes.
            work = _WORK_OF_A_LETTER * len(completion.text)
            answer = await in_thread_if_long(work, read, completion.text)
        except UnusableAnswer as error:
            why = str(error)
            cut_off = completion.truncated or isinstance(error, CutOffAnswer)
            if cut_off and divisible:
                raise TooMuch(spent) from None
            if cut_off:
                why = "it was cut off; raise MEMORY_EXTRACTION_MAX_TOKENS if this lasts"
            logger.warning("unusable reply: %s", why)
            continue
        if completion.truncated and divisible:
            raise TooMuch(spent)
        return _reply(answer, spent, completion.model)
    failure = ModelMisbehaved(
        f"{ASKS} replies in a row were unusable; the last one: {why}", reply=spent[-1].text
    )
    failure.spent = spent
    raise failure


def _reply(answer: Read, spent: Sequence[Completion], model: str) -> ModelReply[Read]:
    return ModelReply(
        answer=answer,
        model=model,
        calls=sum(c.calls for c in spent),
        input_tokens=sum(c.input_tokens for c in spent),
        output_tokens=sum(c.output_tokens for c in spent),
    )


def _completions(error: ModelError) -> list[Completion]:
    return [each for each in error.spent if isinstance(each, Completion)]


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
