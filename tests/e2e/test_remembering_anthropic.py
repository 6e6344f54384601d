"""`remembering` of the anthropic package: what is its own; the rest is in test_remembering.py."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_client import AsyncHitherto, Hitherto
from tests.e2e.assistants import FENCE, check_absence, in_thread
from tests.e2e.conftest import Services
from tests.lazily import Lazily
from tests.scripted_model.assistant import Answer, ScriptedAssistant

if TYPE_CHECKING:
    import anthropic

    from hitherto_client.integrations import anthropic as ours_of_anthropic
else:
    anthropic = Lazily("anthropic")
    ours_of_anthropic = Lazily("hitherto_client.integrations.anthropic")

Wrap = Callable[..., Any]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant() as server:
        yield server


@pytest.fixture(params=["synchronous", "asynchronous"])
async def wrap(
    request: pytest.FixtureRequest, services: Services, model: ScriptedAssistant
) -> AsyncIterator[Wrap]:
    """Makes a wrapped client for a conversation."""
    addresses = (services.retrieval_address, services.extraction_address)
    options: dict[str, Any] = {
        "base_url": model.base_url.removesuffix("/v1"),
        "api_key": "test",
        "max_retries": 0,
    }

    def wrapper(client: Any, ours: Any) -> Wrap:
        def wrap(conversation: str = "c1", **more: Any) -> Any:
            given = {"memory": ours, "timeout": 60.0, **more}
            return ours_of_anthropic.remembering(
                client, user="ana", conversation=conversation, **given
            )

        return wrap

    if request.param == "synchronous":
        with (
            Hitherto(*addresses, token=services.token) as ours,
            anthropic.Anthropic(**options) as plain,
        ):
            yield wrapper(plain, ours)
    else:
        async with (
            AsyncHitherto(*addresses, token=services.token) as ours_too,
            anthropic.AsyncAnthropic(**options) as plain_too,
        ):
            yield wrapper(plain_too, ours_too)


def asked(*messages: Any, **arguments: Any) -> dict[str, Any]:
    listed = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    return {"model": "scripted", "max_tokens": 100, "messages": listed, **arguments}


def opened(client: Any, text: str, *, helper: bool) -> Any:
    """A stream, or what will be one."""
    messages = client.messages
    return messages.stream(**asked(text)) if helper else messages.create(**asked(text, stream=True))


def read_some(client: Any, text: str, most: int, *, helper: bool) -> None:
    """Read the first events of a stream, which is then closed."""
    with opened(client, text, helper=helper) as stream:
        for _ in zip(range(most), stream, strict=False):
            pass


async def aread_some(client: Any, text: str, most: int, *, helper: bool) -> None:
    """The same with an asynchronous client."""
    opening = opened(client, text, helper=helper)
    async with opening if helper else await opening as stream:
        async for _ in stream:
            most -= 1
            if not most:
                break


async def said(memory: AsyncHitherto, conversation: str = "c1") -> list[tuple[str, str, bool]]:
    found: list[tuple[str, str, bool]] = [
        (m.role, m.content, not m.metadata) async for m in memory.messages("ana", conversation)
    ]
    return found[::-1]


async def test_each_call_is_told_and_kept(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """With tools, parts of instructions, a reply that is begun, and a repeated request."""

    async def create(client: Any, *messages: Any, **arguments: Any) -> Any:
        call = functools.partial(client.messages.create, **asked(*messages, **arguments))
        asynchronous = isinstance(client, anthropic.AsyncAnthropic)
        return await (call() if asynchronous else in_thread(call))

    client = wrap(tools=True)
    model.queue(Answer("One moment.", calls=(("t1", "weather", '{"city": "Huế"}'),)))
    first = await create(client, "Tôi sống ở Đà Nẵng 🏖️")
    tool = {"type": "tool_result", "tool_use_id": "t1", "content": "Mưa ☔"}
    history = [
        *("Tôi sống ở Đà Nẵng 🏖️", {"role": "assistant", "content": first.content}),
        {"role": "user", "content": [tool]},
    ]
    for _ in range(2):
        model.queue(Answer("Rain."))
        await create(client, *history)
    expected = [
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("assistant", "One moment."),
        ("tool", 'weather({"city": "Huế"})'),
        ("tool", "Mưa ☔"),
        ("assistant", "Rain."),
    ]
    assert [(role, text) for role, text, _ in await said(memory)] == expected

    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    other = wrap("c2")
    await create(other, "Tôi sống ở đâu?", system=parts)
    system = model.requests[-1].body["system"]
    assert system[:-1] == parts
    assert system[-1]["text"].startswith(FENCE)
    assert "Đà Nẵng 🏖️" in system[-1]["text"]
    # A block that comes back is replaced.
    await create(other, "Tôi sống ở đâu?", {"role": "assistant", "content": "Ở"}, system=system)
    assert str(model.requests[-1].body["system"]).count(FENCE) == 1
    await create(other, "Thanks.", system="Be brief.")
    told = model.requests[-1].body["system"]
    assert told == "Be brief." or told.startswith("Be brief.\n\n" + FENCE)
    assert [text for role, text, _ in await said(memory, "c2") if role == "user"] == [
        *("Tôi sống ở đâu?", "Thanks."),
    ]


async def test_streams_are_kept_as_far_as_they_came(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """Of `create` and of `stream`, read to their end and cut."""

    for number, helper in enumerate((False, True)):
        client = wrap(f"s{number}")
        whole, cut = f"Whole {number}", f"Cut {number}"
        for text, most in ((whole, 1_000), (cut, 4)):
            if isinstance(client, anthropic.AsyncAnthropic):
                await aread_some(client, text, most, helper=helper)
            else:
                read = functools.partial(read_some, client, text, most, helper=helper)
                await in_thread(read)
        found = await said(memory, f"s{number}")
        assert found[:3] == [
            ("user", whole, True),
            ("assistant", f"You said: {whole}", True),
            ("user", cut, True),
        ]
        role, text, complete = found[3]
        assert (role, complete) == ("assistant", False)
        assert f"You said: {cut}".startswith(text)


async def test_a_call_goes_on_without_memory(
    model: ScriptedAssistant, caplog: pytest.LogCaptureFixture
) -> None:
    """On a port of 127.0.0.1 on which nobody listens."""
    async with (
        AsyncHitherto("127.0.0.1:1", "127.0.0.1:1") as nowhere,
        anthropic.AsyncAnthropic(
            base_url=model.base_url.removesuffix("/v1"), api_key="test"
        ) as plain,
    ):
        client = ours_of_anthropic.remembering(plain, memory=nowhere, user="ana", timeout=1)
        reply = await client.messages.create(**asked("Hello!"))
        assert reply.content[0].text == "You said: Hello!"
        async with client.messages.stream(**asked("Hello!")) as stream:
            assert await stream.get_final_text() == "You said: Hello!"
        with pytest.raises(TypeError, match="an Anthropic client with a Hitherto"):
            ours_of_anthropic.remembering(plain, memory=Hitherto(), user="ana")  # type: ignore[call-overload]
    check_absence(caplog.text)
