"""Sessions of the OpenAI Agents SDK and chat histories of LangChain, kept in conversations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from hitherto_client import AsyncHitherto, Hitherto, HithertoCallError
from tests.e2e.assistants import in_thread
from tests.lazily import Lazily
from tests.scripted_model.assistant import Answer, ScriptedAssistant

if TYPE_CHECKING:
    import agents
    import openai
    from langchain_core import chat_history as chat_histories
    from langchain_core import messages as chat_messages
    from langchain_core import runnables as chat_runnables
    from langchain_core.runnables import history as chat_chains

    from hitherto_client.integrations import agents as our_agents
    from hitherto_client.integrations import langchain as our_langchain
    from hitherto_client.integrations import openai as our_openai
else:
    openai = Lazily("openai")
    agents = Lazily("agents")
    chat_histories = Lazily("langchain_core.chat_history")
    chat_messages = Lazily("langchain_core.messages")
    chat_runnables = Lazily("langchain_core.runnables")
    chat_chains = Lazily("langchain_core.runnables.history")
    our_agents = Lazily("hitherto_client.integrations.agents")
    our_langchain = Lazily("hitherto_client.integrations.langchain")
    our_openai = Lazily("hitherto_client.integrations.openai")


Items = list[Any]

SAID: Items = [
    {"role": "user", "content": "Tôi sống ở Đà Nẵng 🏖️"},
    {"role": "user", "content": [{"type": "input_text", "text": "我住在上海。"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA=="},
    {
        "type": "function_call", "call_id": "call_1", "name": "log_in",
        "arguments": '{"account": "hunter2"}',
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "token\x00 4711 \ud800"},
    {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [
            {
                "type": "output_text", "text": "You are in.", "annotations": [],
                "logprobs": [{"token": "You", "logprob": -0.5, "bytes": [89, 2**60], "top": None}],
            }
        ],
    },
]  # fmt: skip
LARGE: Items = [
    {"type": "function_call_output", "call_id": "call_2", "output": "大 🎉" * 40_000},
    {"role": "user", "content": "lặp lại 🎉 " * 10_000},
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant() as server:
        yield server


def session(memory: AsyncHitherto, user: str = "ana", **options: Any) -> our_agents.HithertoSession:
    return our_agents.HithertoSession("s1", memory=memory, user=user, **options)


async def run_of(agent: agents.Agent[Any], question: str, memory: AsyncHitherto) -> Any:
    """One run of an agent, in a session object of its own."""
    config = agents.RunConfig(tracing_disabled=True)
    return await agents.Runner.run(agent, question, session=session(memory), run_config=config)


# --- the Agents SDK ------------------------------------------------------------------------------


async def test_a_session_does_what_the_packages_own_does(memory: AsyncHitherto) -> None:
    """The same steps on the SDK's SQLiteSession give the same items."""
    ours, theirs = session(memory), agents.SQLiteSession("s1")
    assert isinstance(ours, agents.Session)
    both: tuple[Any, Any] = (ours, theirs)

    async def same(step: Any) -> Any:
        first, second = [await step(one) for one in both]
        assert first == second
        return first

    assert await same(lambda s: s.pop_item()) is None
    await same(lambda s: s.clear_session())
    await same(lambda s: s.add_items([]))
    for number in range(len(SAID)):
        await same(lambda s, at=number: s.add_items([SAID[at]]))
    await same(lambda s: s.add_items([*LARGE, SAID[0], SAID[0]]))
    for limit in (None, 0, 1, 3, 50):
        await same(lambda s, limit=limit: s.get_items(limit))
    for _ in range(5):
        assert await same(lambda s: s.pop_item()) is not None
    await same(lambda s: s.add_items([SAID[4], SAID[0]]))
    await same(lambda s: s.get_items(limit=2))
    assert len(await same(lambda s: s.get_items())) == len(SAID) + 1
    await same(lambda s: s.clear_session())
    await same(lambda s: s.get_items())
    await same(lambda s: s.add_items(SAID))
    assert await same(lambda s: s.get_items()) == SAID
    theirs.close()


async def test_a_session_of_more_than_a_page_is_read_whole(memory: AsyncHitherto) -> None:
    said: Items = [{"role": "user", "content": f"Line {number}."} for number in range(210)]
    ours = session(memory)
    await ours.add_items(said)
    assert await ours.get_items() == said
    bounded = session(memory, session_settings=agents.SessionSettings(limit=202))
    assert await bounded.get_items() == said[-202:]


@pytest.mark.parametrize("form", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
async def test_a_run_goes_on_in_another_process(
    memory: AsyncHitherto, model: ScriptedAssistant, form: str
) -> None:
    """With a tool call; the second run has a session object and an agent of its own."""
    weather: list[str] = []

    @agents.function_tool
    def get_weather(city: str) -> str:
        """The weather."""
        weather.append(city)
        return f"Mưa ở {city} ☔"

    async def run(question: str) -> str:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as client:
            spoken = getattr(agents, form)("scripted", openai_client=client)
            agent = agents.Agent(name="A", tools=[get_weather], model=spoken)
            return str((await run_of(agent, question, memory)).final_output)

    model.queue(Answer(calls=(("call_1", "get_weather", '{"city": "Huế"}'),)), Answer("Rain."))
    assert await run("How is the weather in Huế?") == "Rain."
    assert weather == ["Huế"]
    assert await run("And tomorrow?") == "You said: And tomorrow?"
    history = [
        ("user", "How is the weather in Huế?"),
        ("assistant", "Rain."),
        ("user", "And tomorrow?"),
    ]
    assert [said for said in model.requests[-1].history if said[1]] == history
    sent = str(model.requests[-1].body)
    assert "Mưa ở Huế ☔" in sent
    assert "call_1" in sent


async def test_the_agent_knows_what_was_said_elsewhere(
    memory: AsyncHitherto, model: ScriptedAssistant
) -> None:
    """Through `remembering`, which leaves the keeping to the session."""
    await our_agents.HithertoSession("earlier", memory=memory, user="ana").add_items(
        [{"role": "user", "content": "I live in Porto."}]
    )
    async with openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as plain:
        client = our_openai.remembering(plain, memory=memory, user="ana", keep=False, timeout=120)
        spoken = agents.OpenAIChatCompletionsModel("scripted", openai_client=client)
        await run_of(agents.Agent(name="A", model=spoken), "Where do I live?", memory)
    assert "Porto" in model.requests[0].instructions
    said = [message.content async for message in memory.messages("ana", "s1")]
    assert said == ["You said: Where do I live?", "Where do I live?"]
    listed = [found.conversation_id async for found in memory.conversations("ana")]
    assert sorted(listed) == ["earlier", "s1"]


async def test_words_are_learnt_from_and_secrets_of_tools_are_not(memory: AsyncHitherto) -> None:
    await session(memory).add_items(SAID)
    messages = [m async for m in memory.messages("ana", "s1")]
    assert [(m.role, m.content) for m in reversed(messages)] == [
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("user", "我住在上海。"),
        ("system", "reasoning"),
        ("system", "function_call log_in"),
        ("system", "function_call_output"),
        ("assistant", "You are in."),
    ]
    found = await memory.search("ana", "Đà Nẵng", scopes=["messages"])
    assert [result.text for result in found][:1] == ["Tôi sống ở Đà Nẵng 🏖️"]
    hidden = await memory.search("ana", "hunter2 account token 4711", scopes=["messages"])
    assert not [result for result in hidden if "log_in" in result.text or "4711" in result.text]


async def test_a_conversation_that_began_otherwise_goes_on(memory: AsyncHitherto) -> None:
    hello: Items = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]
    began = [{"role": "system", "content": "Be brief."}, *hello]
    await memory.add("ana", began, conversation="s1")
    ours = session(memory)
    await ours.add_items(SAID[:1])
    assert await ours.get_items() == [*hello, *SAID[:1]]
    assert [await ours.pop_item() for _ in range(4)] == [SAID[0], hello[1], hello[0], None]
    assert await ours.get_items() == []


async def test_at_once_and_of_several_users(memory: AsyncHitherto) -> None:
    """One session id for two users; batches stay together; an item is popped once."""
    users = ("ana", "bea")

    def batch(user: str, number: int) -> Items:
        return [{"role": "user", "content": f"{user} {number} {part}"} for part in range(3)]

    batches = [(user, number) for number in range(6) for user in users]
    await asyncio.gather(*(session(memory, u).add_items(batch(u, n)) for u, n in batches))
    for user in users:
        items = cast(Items, await session(memory, user).get_items())
        numbers = [int(item["content"].split()[1]) for item in items[::3]]
        assert sorted(numbers) == list(range(6))
        assert items == [item for number in numbers for item in batch(user, number)]
    popped = await asyncio.gather(*(session(memory).pop_item() for _ in range(6)))
    left = cast(Items, await session(memory).get_items())
    texts = [item["content"] for item in (*popped, *left)]
    assert len(texts) == len(set(texts)) == 18
    assert len(await session(memory, "bea").get_items()) == 18


async def test_what_is_not_kept_raises(memory: AsyncHitherto, blocking: Hitherto) -> None:
    await memory.update_user_settings("ana", memory_enabled=False)
    with pytest.raises(HithertoCallError) as refused:
        await session(memory).add_items(SAID)
    assert refused.value.reason == "MEMORY_DISABLED"
    history = our_langchain.HithertoChatMessageHistory("h1", memory=blocking, user="ana")
    with pytest.raises(HithertoCallError) as refused:
        await in_thread(lambda: history.add_user_message("Hello!"))
    assert refused.value.reason == "MEMORY_DISABLED"
    assert await session(memory).get_items() == []
    with pytest.raises(TypeError):
        await session(memory, "bea").add_items([cast(Any, {"role": "user", "content": object()})])
    # A port of 127.0.0.1 on which nobody listens.
    async with AsyncHitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        for step in (session(nowhere).add_items(SAID), session(nowhere).get_items()):
            with pytest.raises(HithertoCallError):
                await step


# --- LangChain -----------------------------------------------------------------------------------

DEPRECATED = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)
"""For the package's own parts; it advises its users to move to LangGraph."""


def turns() -> list[chat_messages.BaseMessage]:
    parts: list[Any] = [{"type": "text", "text": "我住在"}, {"type": "text", "text": "上海。"}]
    call: Any = {"name": "log_in", "args": {"account": "hunter2", "n": 3}, "id": "1"}
    result = chat_messages.ToolMessage("token 4711", tool_call_id="1")
    result.artifact = {"rows": [1, 2.5, None]}
    said = chat_messages.AIMessage("You are in.", response_metadata={"m": "t"})
    said.additional_kwargs = {"x": {"y": 2**60}}
    return [
        chat_messages.SystemMessage("Be brief."),
        chat_messages.HumanMessage("Tôi sống ở Đà Nẵng 🏖️", id="h1", name="Ana"),
        chat_messages.HumanMessage(parts),
        chat_messages.AIMessage("", tool_calls=[call]),
        result,
        said,
    ]


@DEPRECATED
async def test_a_history_does_what_the_packages_own_does(
    blocking: Hitherto, memory: AsyncHitherto
) -> None:
    def history_of(user: str = "ana", **options: Any) -> our_langchain.HithertoChatMessageHistory:
        return our_langchain.HithertoChatMessageHistory("h1", memory=blocking, user=user, **options)

    ours, theirs = history_of(), chat_histories.InMemoryChatMessageHistory()

    def steps() -> None:
        for history in (ours, theirs):
            assert history.messages == []
            history.clear()
            history.add_messages(turns())
            history.add_user_message("Hello!")
            history.add_ai_message("Hi.")
        assert ours.messages == theirs.messages
        assert str(ours) == str(theirs)
        # A window never begins with the result of a tool, whose call it would lack.
        for limit in range(len(theirs.messages) + 2):
            expected = theirs.messages[-limit:] if limit else []
            while expected and expected[0].type == "tool":
                expected = expected[1:]
            assert history_of(limit=limit).messages == expected
        assert history_of("bea").messages == []

    await in_thread(steps)
    said = [(m.role, m.content) async for m in memory.messages("ana", "h1")]
    assert said[::-1] == [
        ("system", "system"),
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("user", "我住在\n上海。"),
        ("system", "ai"),
        ("system", "tool"),
        ("assistant", "You are in."),
        ("user", "Hello!"),
        ("assistant", "Hi."),
    ]
    await in_thread(ours.clear)
    assert await in_thread(lambda: ours.messages) == []
    # Its words are those of any conversation.
    await memory.add("ana", [{"role": "user", "content": "Hello!"}], conversation="h1")
    assert await in_thread(lambda: ours.messages) == [chat_messages.HumanMessage("Hello!")]


@DEPRECATED
async def test_a_chain_remembers_its_turns(blocking: Hitherto) -> None:
    """A runnable with history, in another object for every turn."""

    def reply(messages: Any) -> chat_messages.AIMessage:
        return chat_messages.AIMessage(" | ".join(message.content for message in messages))

    def turn(text: str, user: str) -> str:
        chain = chat_chains.RunnableWithMessageHistory(
            chat_runnables.RunnableLambda(reply),
            lambda session_id: our_langchain.HithertoChatMessageHistory(
                session_id, memory=blocking, user=user
            ),
        )
        config: Any = {"configurable": {"session_id": "h1"}}
        return str(chain.invoke([chat_messages.HumanMessage(text)], config).content)

    assert await in_thread(lambda: turn("Một", "ana")) == "Một"
    assert await in_thread(lambda: turn("Hai", "bea")) == "Hai"
    assert await in_thread(lambda: turn("Ba", "ana")) == "Một | Một | Ba"
