"""Servers that refuse a part of the usual request in words that nobody knows: faults.md row 81."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt, load_prompt
from hitherto_extraction.provider.guarded import GuardedChatModel
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import CONSOLIDATION, RECONCILIATION, Prompt
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.model_api import (
    ContentRefused,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    PromptTooLong,
)
from hitherto_shared.model_server import ModelServer
from tests.scripted_model import ChatAnswer, ChatRequest, RawReply, ScriptedModel, StatusFault
from tests.scripted_model.scripts import Outcome, empty_script

Refuses = Callable[[dict[str, Any]], bool]


def prompt() -> Prompt:
    return build_prompt(HARMLESS)


def poisoned() -> Prompt:
    """A prompt that a server may tell from others."""
    return replace(prompt(), user=f"{prompt().user} Goodbye.")


def is_poisoned(body: Mapping[str, Any]) -> bool:
    return "Goodbye." in str(body["messages"])


def has_schema(body: dict[str, Any]) -> bool:
    return "schema" in str(body.get("response_format"))


def has_bounds(body: dict[str, Any]) -> bool:
    return "maxLength" in str(body.get("response_format"))


def has_format(body: dict[str, Any]) -> bool:
    return "response_format" in body


def has_temperature(body: dict[str, Any]) -> bool:
    return "temperature" in body


def has_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def has_max_tokens(body: dict[str, Any]) -> bool:
    return "max_tokens" in body


REFUSALS: dict[str, tuple[int, str, Refuses]] = {
    "kimi": (400, "invalid temperature: only 1 is allowed for this model", has_temperature),
    "gemini states": (
        400, "The specified schema produces a constraint that has too many states for serving",
        has_bounds,
    ),
    "gemini names": (
        400, "Unknown name \"additionalProperties\" at 'generation_config.response_schema'",
        has_schema,
    ),
    "guided": (400, "guided decoding is not supported", has_format),
    "system": (400, "System role not supported", has_system),
    "tokens": (400, "unsupported parameter", has_max_tokens),
    "several": (422, "no", lambda body: has_format(body) or has_temperature(body)),
    "everything": (
        400, "no",
        lambda body: has_format(body) or has_temperature(body) or has_system(body)
        or has_max_tokens(body),
    ),
    "llama.cpp": (500, "failed to build the grammar", has_bounds),
    "a large grammar": (500, "The grammar of the schema is too large", has_bounds),
    "a large tree": (429, "constraint too large to compile", has_bounds),
    "sglang": (500, "Internal Server Error", has_schema),
    # OpenRouter's words for parameters that no provider of the model takes.
    "openrouter": (
        404, "No endpoints found that support the requested parameters", has_temperature
    ),
    "another type": (415, "Unsupported Media Type", has_format),
    "not implemented": (501, "not implemented", has_bounds),
    "not allowed": (403, "structured output is not in your plan", has_schema),
}  # fmt: skip


def refusing(status: int, words: str, refuses: Refuses) -> Callable[[ChatRequest], Outcome]:
    def script(request: ChatRequest) -> Outcome:
        refused = refuses(dict(request.body))
        return StatusFault(status, message=words) if refused else empty_script(request)

    return script


@asynccontextmanager
async def guarded(server: ScriptedModel) -> AsyncIterator[GuardedChatModel]:
    model = GuardedChatModel(
        OpenAIChatModel(model="m", server=ModelServer(server.base_url), max_tokens=300),
        CircuitBreaker("the language model"),
        prompt(),
    )
    try:
        yield model
    finally:
        await model.close()


@pytest.mark.parametrize("kind", REFUSALS)
async def test_row_81_the_simplest_form_that_passes_is_found_and_kept(kind: str) -> None:
    status, words, refuses = REFUSALS[kind]
    async with ScriptedModel(refusing(status, words, refuses)) as server, guarded(server) as chat:
        if status == 500 and "too large" not in words:
            with pytest.raises(ModelUnavailable):
                await chat.complete(prompt())
        assert "new_memories" in (await chat.complete(prompt())).text
        before = server.calls["chat"]
        assert before < 20
        assert "new_memories" in (await chat.complete(prompt())).text

        assert server.calls["chat"] == before + 1
        body = dict(server.chat_requests[-1].body)
        # Nothing was given up that the server accepts, where one change is enough.
        if kind not in ("several", "everything"):
            kept = [
                part
                for part in (has_format, has_temperature, has_system, has_max_tokens)
                if part is not refuses
            ]
            assert all(part(body) for part in kept if refuses is not has_schema or part(body))
            assert has_temperature(body) or refuses is has_temperature
            assert has_system(body) or refuses is has_system
        assert str(body["messages"]).count(prompt().system[:40]) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (422, "Schema is too complex for compilation"),
        (500, "Internal Server Error"),
    ],
)
@pytest.mark.parametrize("task", [RECONCILIATION, CONSOLIDATION])
async def test_row_81_a_schema_of_another_task_is_given_up_too(
    task: str, status: int, words: str
) -> None:
    """That of the extraction passes, so that a harmless prompt with it proves nothing."""
    asked = replace(prompt(), task=task, schema=load_prompt(f"{task}_2")[1])

    def refuses(body: dict[str, Any]) -> bool:
        return f"'name': '{task}'" in str(body.get("response_format"))

    async with ScriptedModel(refusing(status, words, refuses)) as server, guarded(server) as chat:
        await chat.complete(prompt())
        if status == 500:
            with pytest.raises(ModelUnavailable):
                await chat.complete(asked)
        assert (await chat.complete(asked)).text
        before = server.calls["chat"]
        await chat.complete(asked)
        await chat.complete(prompt())
        assert server.calls["chat"] == before + 2


@pytest.mark.parametrize("status", [400, 404])
async def test_row_81_a_server_that_refuses_every_form_is_searched_once(status: int) -> None:
    async with (
        ScriptedModel(refusing(status, "no", lambda _: True)) as server,
        guarded(server) as chat,
    ):
        with pytest.raises(ModelMisconfigured, match="OPENAI_BASE_URL and MEMORY_EXTRACTION_MODEL"):
            await chat.complete(prompt())
        assert server.calls["chat"] < 15
        server.calls.clear()
        chat._breaker._open_until = 0.0
        with pytest.raises(ModelMisconfigured):
            await chat.complete(prompt())
        assert server.calls["chat"] == 2
        # Once it has answered, there may be another one behind the address.
        refuses: Refuses
        for refuses in (lambda _: False, has_temperature):
            server.script = refusing(status, "no", refuses)
            chat._breaker._open_until = 0.0
            await chat.complete(prompt())


@pytest.mark.parametrize("status", [404, 501])
async def test_row_81_nothing_is_given_up_for_a_server_that_recovers(status: int) -> None:
    """As one does that has just been started, behind a proxy that answers for it until then."""
    async with ScriptedModel(empty_script) as server, guarded(server) as chat:
        server.queue(StatusFault(status), StatusFault(status))
        with pytest.raises(ModelMisconfigured):
            await chat.complete(prompt())
        chat._breaker._open_until = 0.0
        await chat.complete(prompt())

        body = dict(server.chat_requests[-1].body)
        assert has_temperature(body)
        assert has_bounds(body)


@pytest.mark.parametrize("status", [404, 501])
async def test_a_prompt_that_alone_is_not_found_is_refused(status: int) -> None:
    poison = poisoned()
    refuses: Refuses = is_poisoned
    async with ScriptedModel(refusing(status, "no", refuses)) as server, guarded(server) as chat:
        with pytest.raises(ModelRefused) as caught:
            await chat.complete(poison)
        # The harmless one is charged.
        assert [each.calls for each in caught.value.spent] == [1]
        assert not chat._breaker.is_open()


async def test_an_outage_proves_nothing_about_a_prompt() -> None:
    poison = poisoned()
    refuses: Refuses = lambda _: True  # noqa: E731
    async with ScriptedModel(refusing(500, "panic", refuses)) as server, guarded(server) as chat:
        for _ in range(5):
            chat._breaker._open_until = 0.0
            with pytest.raises(ModelUnavailable):
                await chat.complete(poison)
        server.script = refusing(500, "panic", is_poisoned)
        chat._breaker._open_until = 0.0
        with pytest.raises(ModelUnavailable):
            await chat.complete(poison)


@pytest.mark.parametrize("others", [0, 3])
async def test_a_prompt_that_the_server_fails_on_alone_is_refused(others: int) -> None:
    poison = poisoned()

    def script(request: ChatRequest) -> Outcome:
        fails = is_poisoned(request.body)
        return StatusFault(500, message="panic") if fails else empty_script(request)

    async with ScriptedModel(script) as server, guarded(server) as chat:
        for _ in range(3):
            with pytest.raises(ModelUnavailable):
                await chat.complete(poison)
            for _ in range(others):
                await chat.complete(prompt())
        with pytest.raises(ModelRefused):
            await chat.complete(poison)
        assert not chat._breaker.is_open()
        assert (await chat.complete(prompt())).calls == 1


QUOTED: dict[str, dict[str, Any]] = {
    "groq": {
        "error": {
            "message": "Failed to generate JSON. See 'failed_generation'",
            "code": "json_validate_failed",
            "failed_generation": "{The temperature, the grammar, a content_filter, a json_schema",
        }
    },
    "fastapi": {
        "detail": [
            {
                "loc": ["body", "messages", 1],
                "msg": "Value error",
                "input": {"content": "max_completion_tokens and response_format, too large"},
            }
        ]
    },
}


@pytest.mark.parametrize("kind", QUOTED)
async def test_row_81_words_that_a_refusal_only_quotes_change_nothing(kind: str) -> None:
    async with ScriptedModel() as server, guarded(server) as chat:
        server.queue(StatusFault(400, body=json.dumps(QUOTED[kind]).encode()))
        with pytest.raises(ModelRefused) as caught:
            await chat.complete(prompt())
        assert not isinstance(caught.value, ContentRefused | PromptTooLong)
        await chat.complete(prompt())

        usual, *others = [dict(request.body) for request in server.chat_requests]
        assert len(others) == 2  # the harmless one and the second
        assert all(usual[part] == body[part] for body in others for part in usual)


@pytest.mark.parametrize("status", [429, 413, 500])
async def test_row_27_a_request_that_is_too_large_is_no_outage(status: int) -> None:
    words = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."
    large = poisoned()
    refuses: Refuses = is_poisoned
    async with (
        ScriptedModel(refusing(status, words, refuses)) as server,
        guarded(server) as chat,
    ):
        with pytest.raises(PromptTooLong, match="HITHERTO_BATCH_TOKENS"):
            await chat.complete(large)
        assert server.calls["chat"] == (1 if status == 413 else 2)
        assert not chat._breaker.is_open()


def reply(content: str | None, reason: str | None, **message: Any) -> RawReply:
    said = {"role": "assistant", "content": content, **message}
    body = {"choices": [{"index": 0, "message": said, "finish_reason": reason}]}
    return RawReply(json.dumps(body).encode())


ANSWER = '{"new_memories": []}'


async def test_row_80_cut_off_has_many_names() -> None:
    for reason in ["length", "max_tokens", "MAX_TOKENS", "model_length"]:
        async with ScriptedModel() as server, guarded(server) as chat:
            server.queue(reply('{"new_mem', reason))
            completion = await chat.complete(prompt())
            assert (completion.text, completion.truncated) == ('{"new_mem', True), reason


async def test_row_80_and_a_reply_that_ended_by_itself_has_others() -> None:
    for reason in ["stop", "eos", None, "end_turn", "STOP"]:
        async with ScriptedModel() as server, guarded(server) as chat:
            server.queue(reply(ANSWER, reason))
            assert not (await chat.complete(prompt())).truncated, reason


@pytest.mark.parametrize("thought", ["", "<think>Let me think", "<think>a</think>"])
async def test_row_80_thinking_that_leaves_no_room_gets_more_once_and_for_good(
    thought: str,
) -> None:
    def script(request: ChatRequest) -> Outcome:
        enough = request.body["max_tokens"] >= 1200 and not is_poisoned(request.body)
        if not enough:
            return reply(thought, "length", reasoning_content="Let me think")
        return ChatAnswer(ANSWER)

    async with ScriptedModel(script) as server, guarded(server) as chat:
        first = await chat.complete(prompt())
        second = await chat.complete(prompt())
        endless = await chat.complete(poisoned())

        assert (first.text, first.calls, second.calls, endless.calls) == (ANSWER, 2, 1, 1)
        sizes = [request.body["max_tokens"] for request in server.chat_requests]
        assert sizes == [300, 1200, 1200, 1200]


async def test_row_80_more_room_is_not_kept_where_it_does_not_help() -> None:
    async with ScriptedModel(lambda _: reply("", "length")) as server, guarded(server) as chat:
        assert (await chat.complete(prompt())).truncated
        await chat.complete(prompt())

        sizes = [request.body["max_tokens"] for request in server.chat_requests]
        assert sizes == [300, 1200, 300, 1200]


async def test_row_80_a_limit_that_is_refused_leaves_the_first_reply() -> None:
    def script(request: ChatRequest) -> Outcome:
        much = request.body["max_tokens"] > 1000
        return StatusFault(400, message="max is 1000") if much else reply("", "length")

    async with ScriptedModel(script) as server, guarded(server) as chat:
        assert (await chat.complete(prompt())).truncated


CALL = {"type": "function", "function": {"name": "extraction", "arguments": ANSWER}}


async def test_row_79_an_answer_beside_the_content_is_read() -> None:
    cases: list[dict[str, Any]] = [
        {"tool_calls": [CALL]},
        {"tool_calls": [{"function": {"arguments": {"new_memories": []}}}]},
        {"function_call": {"name": "extraction", "arguments": ANSWER}},
        {"reasoning_content": f"\n{ANSWER}\n"},
        {"reasoning": ANSWER},
    ]
    for message in cases:
        async with ScriptedModel() as server, guarded(server) as chat:
            server.queue(reply(None, "stop", **message))
            assert (await chat.complete(prompt())).text == ANSWER, message


@pytest.mark.parametrize(
    ("reason", "reasoning"), [("length", ANSWER), ("stop", f"Perhaps {ANSWER}?"), ("stop", "Hm.")]
)
async def test_row_79_a_draft_in_the_reasoning_is_no_answer(reason: str, reasoning: str) -> None:
    async with ScriptedModel(lambda _: reply("", "length")) as server, guarded(server) as chat:
        server.queue(reply("", reason, reasoning_content=reasoning))
        assert (await chat.complete(prompt())).text == ""


async def test_what_a_filter_or_the_model_declines_is_told() -> None:
    cases: list[RawReply] = [
        reply("", "content_filter"),
        reply(None, "stop", refusal="I will not."),
        reply("half an answer", "stop", refusal="I will not."),
    ]
    for declined in cases:
        async with ScriptedModel() as server, guarded(server) as chat:
            server.queue(declined)
            completion = await chat.complete(prompt())
            assert (completion.text, completion.filtered) == ("", True), declined


async def test_a_refusal_by_a_content_filter_is_told() -> None:
    for code in ["content_filter", "content_policy_violation"]:
        async with ScriptedModel() as server, guarded(server) as chat:
            server.queue(StatusFault(400, code=code))
            with pytest.raises(ContentRefused):
                await chat.complete(prompt())
            assert server.calls["chat"] == 1, code


def counted(tokens: int) -> Callable[[ChatRequest], Outcome]:
    return lambda _: ChatAnswer(ANSWER, usage=(tokens, 5))


@pytest.mark.parametrize(
    ("tokens", "unread"),
    [(4096, True), (2048, True), (1500, True), (4097, False), (9_000, False), (100, False)],
)
async def test_a_prompt_that_was_cut_silently_is_told(
    tokens: int, unread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    said = "I have bought a canoe. " * 1_000
    asked = replace(prompt(), user=said)
    async with ScriptedModel(counted(tokens)) as server, guarded(server) as chat:
        for _ in range(2):
            assert (await chat.complete(asked)).unread == unread
    warnings = [r.getMessage() for r in caplog.records if "OLLAMA_CONTEXT_LENGTH" in r.getMessage()]
    assert len(warnings) == unread


async def test_what_the_operator_adds_to_requests_wins() -> None:
    async with ScriptedModel(empty_script) as server:
        told = ModelServer(server.base_url, extra={"temperature": 0.9, "top_k": 1})
        model = OpenAIChatModel(model="m", server=told)
        await model.complete(prompt())
        await model.close()
        body = server.chat_requests[-1].body
        assert (body["temperature"], body["top_k"]) == (0.9, 1)
