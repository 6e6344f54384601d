"""`remembering`: the client of the openai package, with our services behind its calls."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_client import AsyncHitherto, Hitherto
from tests.e2e.assistants import FENCE, in_thread, kept
from tests.e2e.conftest import Services
from tests.faults.relay import Relay
from tests.lazily import Lazily
from tests.listening import Listener
from tests.scripted_model.assistant import Answer, ScriptedAssistant

if TYPE_CHECKING:
    import openai

    from hitherto_client.integrations import openai as our_openai
else:
    openai = Lazily("openai")
    our_openai = Lazily("hitherto_client.integrations.openai")


SAID = {
    "English": ("I live in Porto.", "Where do I live?", "Porto"),
    "Vietnamese": ("Tôi sống ở Đà Nẵng.", "Tôi sống ở đâu?", "Đà Nẵng"),
    "Chinese": ("我住在上海。", "我住在哪里？", "上海"),
    "emoji": ("My cat 🐈‍⬛ is called Mimi 🎉", "What is my cat 🐈‍⬛ called?", "Mimi 🎉"),
}


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant() as server:
        yield server


Wrap = Callable[..., Any]


@pytest.fixture(params=["synchronous", "asynchronous"])
async def wrap(
    request: pytest.FixtureRequest, services: Services, model: ScriptedAssistant
) -> AsyncIterator[Wrap]:
    """Makes a wrapped client for a user and a conversation."""
    addresses = (services.retrieval_address, services.extraction_address)
    options: dict[str, Any] = {"base_url": model.base_url, "api_key": "test", "max_retries": 0}
    if request.param == "synchronous":
        with Hitherto(*addresses, token=services.token) as ours, openai.OpenAI(**options) as plain:
            yield wrapper(plain, ours)
    else:
        async with (
            AsyncHitherto(*addresses, token=services.token) as ours_too,
            openai.AsyncOpenAI(**options) as plain_too,
        ):
            yield wrapper(plain_too, ours_too)


def wrapper(client: Any, ours: Any) -> Wrap:
    def wrap(user: str = "ana", conversation: str = "c1", **options: Any) -> Any:
        given = {"memory": ours, "timeout": 30.0, **options}
        return our_openai.remembering(client, user=user, conversation=conversation, **given)

    return wrap


async def call(method: Callable[..., Any], **arguments: Any) -> Any:
    """A call of either client; the services share our loop, which a blocking call would stop."""
    if inspect.iscoroutinefunction(method):
        return await method(**arguments)
    made = await in_thread(lambda: method(**arguments))
    return await made if inspect.isawaitable(made) else made


async def chat(client: Any, *messages: Any, **arguments: Any) -> Any:
    """A call of chat.completions; plain texts are the user's."""
    listed = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    create = client.chat.completions.create
    return await call(create, model="scripted", messages=listed, **arguments)


async def respond(client: Any, given: Any, **arguments: Any) -> Any:
    return await call(client.responses.create, model="scripted", input=given, **arguments)


async def take(stream: Any, most: int | None = None) -> list[Any]:
    """The first events of a stream, or all of them."""

    def some() -> list[Any]:
        return [event for _, event in zip(range(most or 10_000), stream, strict=False)]

    if hasattr(stream, "__next__"):
        return list(await in_thread(some))
    events: list[Any] = []
    async for event in stream:
        events.append(event)
        if len(events) == most:
            break
    return events


async def close(stream: Any) -> None:
    if inspect.iscoroutinefunction(stream.close):
        await stream.close()
    else:
        await in_thread(stream.close)


async def kept_soon(
    memory: AsyncHitherto, expected: list[tuple[str, str]], conversation: str = "c1"
) -> None:
    """What is added without anybody waiting for it."""
    async with asyncio.timeout(180):
        while await kept(memory, conversation=conversation) != expected:  # noqa: ASYNC110 - the services'
            await asyncio.sleep(0.02)


async def test_what_one_turn_said_is_known_in_the_next(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    for user, api in (*((language, chat) for language in SAID), ("Responses", respond)):
        model.requests.clear()
        said, asked, known = SAID.get(user, SAID["Vietnamese"])
        first = await api(wrap(user), said)
        assert FENCE not in model.requests[0].instructions
        await api(wrap(user, "c2"), asked)
        assert FENCE in model.requests[1].instructions
        assert known in model.requests[1].instructions
        assert model.requests[1].history == [("user", asked)]
        answer = f"You said: {said}"
        assert (first.output_text if api is respond else first.choices[0].message.content) == answer
        assert await kept(memory, user) == [("user", said), ("assistant", answer)]
        expected = [("user", asked), ("assistant", f"You said: {asked}")]
        assert await kept(memory, user, "c2") == expected


async def test_instructions_are_extended_and_the_callers_messages_are_not(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    for role, told in (
        ("system", "Be brief."),
        ("developer", [{"type": "text", "text": "Be brief."}]),
    ):
        await memory.save_memory(role, "Ana lives in Porto.")
        model.requests.clear()
        await extended(wrap(role), model, role, told)
        assert [said for said, _ in await kept(memory, role)] == ["user", "assistant"] * 2
    # A block that comes back is replaced.
    client, echoed = wrap("system", "c2"), "Be brief."
    for _ in range(3):
        reply = await respond(client, "Where do I live?", instructions=echoed)
        echoed = reply.instructions
    assert echoed.startswith("Be brief.\n\n<<<hitherto:memory ")
    assert echoed.count(FENCE) == 1


async def extended(client: Any, model: ScriptedAssistant, role: str, told: Any) -> None:
    messages: list[Any] = [{"role": role, "content": told}]
    for question in ("Where do I live?", "Are you sure?"):
        messages.append({"role": "user", "content": question})
        before = deepcopy(messages)
        reply = await call(client.chat.completions.create, model="scripted", messages=messages)
        assert messages == before
        messages.append(reply.choices[0].message)
    for request in model.requests:
        assert len([m for m in request.body["messages"] if m["role"] == role]) == 1
        assert request.instructions.count(FENCE) == 1
        assert request.instructions.index("Be brief.") < request.instructions.index(FENCE)
        assert "Porto" in request.instructions


async def test_a_request_sent_again_is_kept_once(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """A failed call, its repetition elsewhere, a second answer, and the same word said later."""
    model.queue(Answer(status=500))
    with pytest.raises(openai.InternalServerError):
        await chat(wrap(), "Hello!")
    assert await kept(memory) == []
    model.queue(Answer("Hi."), Answer("Hi."), Answer("Good day."))
    for _ in range(3):
        await chat(wrap(), "Hello!")
    hello = [("user", "Hello!"), ("assistant", "Hi."), ("assistant", "Good day.")]
    assert await kept(memory) == hello
    history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]
    model.queue(Answer("Sure."))
    await chat(wrap(), *history, "Hello!")
    assert await kept(memory) == [*hello, ("user", "Hello!"), ("assistant", "Sure.")]


async def test_a_tools_arguments_are_kept_only_if_asked_for(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    secret = '{"account": "hunter2"}'
    asked = {"role": "user", "content": "Log me in."}
    for user, tools in (("ana", False), ("bea", True)):
        model.queue(Answer(calls=(("call_1", "log_in", secret),)), Answer("You are in."))
        client = wrap(user, tools=tools)
        reply = (await chat(client, asked)).choices[0].message
        result = {"role": "tool", "tool_call_id": "call_1", "content": "token 4711"}
        await chat(client, asked, reply, result)
        told = [("tool", f"log_in({secret})"), ("tool", "token 4711")] if tools else []
        expected = [("user", "Log me in."), *told, ("assistant", "You are in.")]
        assert await kept(memory, user) == expected

        model.queue(Answer(calls=(("call_2", "log_in", secret),)), Answer("Again."))
        client = wrap(user, "c2", tools=tools)
        answered = await respond(client, [asked])
        result = {"type": "function_call_output", "call_id": "call_2", "output": "token 4711"}
        await respond(client, [asked, *answered.output, result])
        assert await kept(memory, user, "c2") == [*expected[:-1], ("assistant", "Again.")]


async def test_streams_pass_and_are_kept(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    client = wrap()
    # Reading on after a break is one stream.
    stream = await chat(wrap(conversation="c2"), "Hello world!", stream=True)
    await take(stream, 2)
    assert await kept(memory, conversation="c2") == []
    await take(stream)
    assert (await kept(memory, conversation="c2"))[-1] == ("assistant", "You said: Hello world!")
    chunks = await take(await chat(client, "Hello world!", stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "You said: Hello world!"
    events = await take(await respond(client, "And now?", stream=True))
    assert events[-1].response.output_text == "You said: And now?"
    expected = [
        ("user", "Hello world!"),
        ("assistant", "You said: Hello world!"),
        ("user", "And now?"),
        ("assistant", "You said: And now?"),
    ]
    assert await kept(memory) == expected
    model.queue(Answer(calls=(("call_1", "log_in", '{"account": "hunter2"}'),)))
    chunks = await take(await chat(wrap(tools=True), "Log me in.", stream=True))
    told = ("tool", 'log_in({"account": "hunter2"})')
    assert await kept(memory) == [*expected, ("user", "Log me in."), told]


@pytest.mark.parametrize("api", [chat, respond])
async def test_of_a_stream_that_breaks_off_the_beginning_is_kept(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto, api: Any
) -> None:
    """Two words arrive; the third never does."""
    for way in ("closed", "dropped", "cut"):
        cut = way == "cut"
        model.queue(Answer("One two three", cut_after=2 if cut else None, held_after=2))
        stream = await api(wrap(conversation=way), "Count!", stream=True)
        if cut:
            with pytest.raises(openai.APIConnectionError):
                await take(stream)
        else:
            await take(stream, 3 if api is chat else 5)
        if way == "closed":
            await close(stream)
            await close(stream)
        del stream
        gc.collect()
        await kept_soon(memory, [("user", "Count!"), ("assistant", "One two")], way)
        found = [m async for m in memory.messages("ana", way)]
        assert [m.metadata for m in found] == [{"incomplete": True}, {}], way


async def test_the_packages_own_helpers_remember(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """`stream`, left before its end and read to it, `parse`, and raw responses."""
    await memory.save_memory("ana", "Ana lives in Porto.")
    client = wrap()
    chats = {"model": "scripted", "messages": [{"role": "user", "content": "Where do I live?"}]}
    await helper(client.chat.completions.stream(**chats), "content.delta", 1)
    given = {"model": "scripted", "input": "And for how long?"}
    await helper(client.responses.stream(**given), "response.output_text.delta", None)
    parsed = await call(client.chat.completions.parse, **chats)
    assert parsed.choices[0].message.content == "You said: Where do I live?"
    raw = await call(client.responses.with_raw_response.create, **given)
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().output_text == "You said: And for how long?"
    assert all("Porto" in request.instructions for request in model.requests)
    assert await kept(memory) == [
        ("user", "Where do I live?"),
        ("assistant", "You"),
        ("user", "And for how long?"),
        ("assistant", "You said: And for how long?"),
        ("assistant", "You said: Where do I live?"),
    ]


async def helper(manager: Any, kind: str, most: int | None) -> None:
    """Read a helper's stream until so many events of a kind have come."""

    def enough(event: Any) -> bool:
        nonlocal most
        if most is not None and event.type == kind and event.delta:
            most -= 1
        return most == 0

    def read() -> None:
        with manager as stream:
            any(map(enough, stream))

    if hasattr(manager, "__enter__"):
        await in_thread(read)
        return
    async with manager as stream:
        async for event in stream:
            if enough(event):
                break


async def test_everything_else_is_the_clients_own(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    client = wrap()
    assert isinstance(client, openai.OpenAI | openai.AsyncOpenAI)
    assert [m.id for m in (await call(client.models.list)).data] == ["scripted"]
    patient = client.with_options(timeout=120.0)
    assert patient.timeout == 120.0
    await chat(patient, "Hello!")
    assert await kept(memory) == [("user", "Hello!"), ("assistant", "You said: Hello!")]
    with pytest.raises(TypeError, match="messages"):
        await call(client.chat.completions.create, model="scripted")


async def test_wrapping_twice_remembers_once(
    model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    await memory.save_memory("ana", "Ana lives in Porto.")
    mixed: Any = openai.OpenAI(api_key="x")
    with pytest.raises(TypeError, match="OpenAI client with a Hitherto"):
        our_openai.remembering(mixed, memory=memory, user="ana")
    async with openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as plain:
        first = wrapper(plain, memory)(timeout=120)
        second = wrapper(first, memory)(conversation="c2", timeout=120)
        await chat(second, "Where do I live?")
        await chat(plain, "Where do I live?")
    assert [r.instructions.count(FENCE) for r in model.requests] == [1, 0]
    assert await kept(memory, conversation="c1") == []
    assert len(await kept(memory, conversation="c2")) == 2


async def test_users_never_mix(wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto) -> None:
    """Many at once through one client, two turns each."""
    users = [f"user-{number}" for number in range(8)]

    async def talks(user: str) -> None:
        client = wrap(user=user)
        await chat(client, f"My code word is {user}-secret.")
        stream = await chat(client, f"What is my code word? {user}", stream=True)
        await take(stream)

    await asyncio.gather(*map(talks, users))
    asked = [r for r in model.requests if "What is" in r.history[-1][1]]
    assert len(asked) == len(users)
    for request in asked:
        user = request.history[-1][1].split()[-1]
        assert [u for u in users if f"{u}-secret" in request.instructions] == [user]
    for user in users:
        said = await kept(memory, user=user)
        assert len(said) == 4
        assert all(user in content for _, content in said)


async def test_a_cancelled_reader_leaves_what_was_received(
    model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """As when the person closes the browser: the server's task is cancelled."""
    model.queue(Answer("One two three", held_after=2))
    arrived = asyncio.Event()

    async def serve(client: openai.AsyncOpenAI) -> None:
        stream = await chat(client, "Count!", stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content == " two":
                arrived.set()

    async with openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as plain:
        client = wrapper(plain, memory)(timeout=120)
        task = asyncio.create_task(serve(client))
        async with asyncio.timeout(180):
            await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await kept_soon(memory, [("user", "Count!"), ("assistant", "One two")])


async def test_silent_memory_does_not_hold_an_answer_up(
    model: ScriptedAssistant, caplog: pytest.LogCaptureFixture
) -> None:
    """A service that takes connections and never answers."""

    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        Listener(listen) as silent,
        AsyncHitherto(f"127.0.0.1:{silent.port}", f"127.0.0.1:{silent.port}") as ours,
        openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as plain,
        asyncio.timeout(180),
    ):
        client = wrapper(plain, ours)(timeout=0.2)
        with caplog.at_level(logging.WARNING, "hitherto_client"):
            reply = await chat(client, "Hunter2!")
    assert reply.choices[0].message.content == "You said: Hunter2!"
    assert "answers without memory" in caplog.text
    assert "added with the next call" in caplog.text
    assert "Hunter2" not in caplog.text


async def test_what_memory_did_not_confirm_is_added_again_and_kept_once(
    services: Services,
    model: ScriptedAssistant,
    memory: AsyncHitherto,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Added, but the confirmation is lost; the next call brings it once more, before its own.

    A request that is repeated meanwhile waits once.
    """
    port = int(services.extraction_address.rpartition(":")[2])
    async with (
        Relay(port) as relay,
        AsyncHitherto(services.retrieval_address, relay.address, token=services.token) as ours,
        openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as plain,
    ):
        client = wrapper(plain, ours)(timeout=2)
        await ours.get_user_settings("ana", timeout=120)
        relay.hold = True
        await chat(client, "One.")
        assert len(await kept(memory)) == 2
        await chat(client, "One.")
        relay.hold = False
        relay.cut()
        one = [("user", "One."), ("assistant", "You said: One.")]
        history = [{"role": role, "content": content} for role, content in one]
        expected = [*one, ("user", "Two."), ("assistant", "You said: Two.")]
        async with asyncio.timeout(180):
            while await kept(memory) != expected:
                # The channel may need longer than a call to find the service again.
                await chat(client, *history, "Two.")
    assert "are not remembered" not in caplog.text


async def test_what_is_too_much_for_one_call_is_added_with_several(
    wrap: Wrap, memory: AsyncHitherto, caplog: pytest.LogCaptureFixture
) -> None:
    """More messages, and more text, than the service takes at once."""
    client = wrap()
    lines = [f"Line {number}." for number in range(2_100)]
    text = "ngày mai 🎉 明天 đ" * 180_000
    await chat(client, *lines, f"{text}\x00", "That is all.")
    found = await kept(memory)
    assert [text for _, text in found if text.startswith("Line ")] == lines
    assert "".join(said for _, said in found[2_100:-2]) == text
    assert found[-2:] == [("user", "That is all."), ("assistant", "You said: That is all.")]
    assert "not remembered" not in caplog.text


async def test_a_message_that_is_refused_costs_no_other(
    wrap: Wrap, memory: AsyncHitherto, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool's name that cannot be stored, as the names of tools that others offer."""
    client = wrap(tools=True)
    nameless = {"role": "function", "name": "\n", "content": "12 °C"}
    named = {"role": "function", "name": "weather", "content": "14 °C"}
    await chat(client, "One.", nameless, "Two.", named, nameless, "Three.")
    assert [text for _, text in await kept(memory)] == [
        *("One.", "Two.", "14 °C", "Three.", "You said: Three."),
    ]
    assert "2 messages are not remembered" in caplog.text


class Unreadable:
    """A message that neither we nor the package can read."""

    role = "system"

    @property
    def content(self) -> str:
        raise RuntimeError("unreadable")


async def test_the_package_decides_about_odd_requests(
    wrap: Wrap, model: ScriptedAssistant, memory: AsyncHitherto
) -> None:
    """What cannot be read is passed on: errors are those of the package."""
    await memory.save_memory("ana", "Ana lives in Porto.")
    create = wrap().chat.completions.create
    with pytest.raises(TypeError, match="Unreadable"):
        await call(create, model="scripted", messages=[Unreadable()])
    with pytest.raises(TypeError, match="not JSON serializable"):
        await call(create, model="scripted", messages=[{"role": "user", "content": object()}])
    once = ({"role": "user", "content": text} for text in ("Hello!",))
    await call(create, model="scripted", messages=once)
    assert model.requests[-1].history == [("user", "Hello!")]
    assert await kept(memory) == [("user", "Hello!"), ("assistant", "You said: Hello!")]
