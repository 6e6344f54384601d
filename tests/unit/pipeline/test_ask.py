"""Asking the model: how messages become calls (B6), and what follows bad answers (rows 26, 27)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.pipeline.model_call import TooMuch, ask, halves, split
from hitherto_extraction.pipeline.prompt import build_prompt
from hitherto_extraction.provider.protocol import (
    Batch,
    ChatModel,
    Completion,
    Prompt,
    PromptMessage,
)
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import (
    ContentRefused,
    ModelMisbehaved,
    ModelRefused,
    PromptTooLong,
    estimate_tokens,
)
from tests.refusing import refusing
from tests.scripted_model import CONTENT_FAULTS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = '{"new_memories": []}'


class Answers(ChatModel):
    """Gives one prepared text after another."""

    def __init__(self, *texts: str, **flags: bool) -> None:
        self._texts = list(texts)
        self._flags = flags
        self.prompts: list[Prompt] = []

    @property
    def extractor(self) -> str:
        return "openai"

    @property
    def model(self) -> str:
        return "prepared"

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        return Completion(self._texts.pop(0), "prepared", 1, 100, 20, **self._flags)

    async def close(self) -> None:
        pass


def prompt(messages: int = 2) -> Prompt:
    said = [PromptMessage(f"m{n}", "user", "", "hi", NOON) for n in range(1, messages + 1)]
    batch = Batch(profile={}, summary=None, memories=[], messages=said)
    return build_prompt(batch)


GARBAGE = {name: text for name, text in CONTENT_FAULTS.items() if name != "truncated_json"}


async def test_row_26_garbage_is_asked_for_once_more_and_paid_twice() -> None:
    for garbage in GARBAGE.values():
        chat = Answers(garbage, NOTHING)
        reply = await ask(chat, prompt())
        assert (reply.calls, reply.input_tokens, reply.output_tokens) == (2, 200, 40), garbage
        first, second = chat.prompts
        # The same user message, still the last; what was wrong is told to the system.
        assert second.user == first.user, garbage
        assert second.system.startswith(first.system), garbage
        assert len(second.system) > len(first.system), garbage


async def test_what_was_wrong_never_quotes_the_reply() -> None:
    chat = Answers("canary garbage", NOTHING)
    await ask(chat, prompt())
    assert "canary" not in chat.prompts[1].system


async def test_row_27_a_cut_off_reply_is_too_much_and_says_what_it_cost() -> None:
    for text in [NOTHING, '{"new_memories": [{"type": "fa']:
        with pytest.raises(TooMuch) as raised, refusing(text):
            await ask(Answers(text, truncated=True), prompt())
        assert [c.input_tokens for c in raised.value.spent] == [100], text


async def test_row_80_json_that_ends_inside_is_too_much_whatever_the_server_says() -> None:
    with pytest.raises(TooMuch):
        await ask(Answers(CONTENT_FAULTS["truncated_json"]), prompt())
    with pytest.raises(ModelMisbehaved, match="MEMORY_EXTRACTION_MAX_TOKENS"):
        await ask(Answers(*[CONTENT_FAULTS["truncated_json"]] * 2), prompt(1))


async def test_a_prompt_that_was_declined_or_cut_is_divided() -> None:
    for flag in ["filtered", "unread"]:
        with pytest.raises(TooMuch) as raised, refusing(flag):
            await ask(Answers(NOTHING, **{flag: True}), prompt())
        assert [c.input_tokens for c in raised.value.spent] == [100], flag


async def test_a_single_message_that_is_declined_is_skipped_and_counted() -> None:
    reply = await ask(Answers("", filtered=True), prompt(1))
    assert (reply.answer.new, reply.answer.skipped, reply.calls) == ((), True, 1)


async def test_a_single_message_that_was_cut_is_used_as_far_as_it_goes() -> None:
    assert (await ask(Answers(NOTHING, unread=True), prompt(1))).answer.new == []


@pytest.mark.parametrize("refusal", [ModelRefused, PromptTooLong, ContentRefused])
async def test_a_prompt_that_is_refused_while_others_pass_is_divided(
    refusal: type[ModelRefused],
) -> None:
    class Refusing(Answers):
        async def complete(self, prompt: Prompt) -> Completion:
            error = refusal("no")
            error.spent = [await super().complete(prompt)]
            raise error

    with pytest.raises(TooMuch) as raised:
        await ask(Refusing(NOTHING), prompt())
    assert [c.input_tokens for c in raised.value.spent] == [100]
    if refusal is ContentRefused:
        assert (await ask(Refusing(NOTHING), prompt(1))).answer.skipped
    else:
        with pytest.raises(refusal):
            await ask(Refusing(NOTHING), prompt(1))


async def test_a_placeholder_is_no_memory() -> None:
    junk = [{"type": "fact", "content": text} for text in ("string", "...", "<statement>")]
    told = {"type": "fact", "content": "The user says hi"}
    said = json.dumps({"new_memories": [*junk, told]})
    reply = await ask(Answers(said), prompt())
    assert [item.content for item in reply.answer.new] == ["The user says hi"]
    assert reply.answer.dropped == 3


def test_halves_keep_every_message_in_order() -> None:
    for count in [2, 3, 7]:
        messages = [StoredMessage(n, f"m{n}", "user", "", "hi", NOON) for n in range(count)]
        first, second = halves(messages)
        assert first, count
        assert second, count
        assert [*first, *second] == messages, count


def stored(*contents: str) -> list[StoredMessage]:
    return [StoredMessage(n, f"m{n}", "user", "", c, NOON) for n, c in enumerate(contents, 1)]


def test_a_message_above_the_budget_stands_alone() -> None:
    short, long, last = stored("a", "x" * 9000, "b")
    assert split([short, long, last], 200) == [[short], [long], [last]]


def test_tokens_are_estimated_from_bytes() -> None:
    for text, tokens in [("", 0), ("abc", 1), ("abcd", 2), ("Hà Nội", 3)]:
        assert estimate_tokens(text) == tokens


@given(st.lists(st.text(max_size=400), max_size=30), st.integers(30, 400))
def test_every_message_once_in_order_within_the_budget(contents: list[str], budget: int) -> None:
    contents = [c.encode("utf-8", "ignore").decode() for c in contents]
    messages = stored(*contents)
    batches = split(messages, budget)
    assert [message for batch in batches for message in batch] == messages
    for batch in batches:
        assert batch
        assert len(batch) == 1 or sum(estimate_tokens(m.content) for m in batch) <= budget
