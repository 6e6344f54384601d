"""Agents of the Microsoft Agent Framework with our memory, on a scripted model server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_client import AsyncHitherto, HithertoCallError
from tests.e2e.assistants import ANSWER, WHERE, check_absence, check_agent, kept
from tests.lazily import Lazily
from tests.scripted_model.assistant import Answer, ScriptedAssistant

if TYPE_CHECKING:
    import agent_framework
    import openai
    from agent_framework import openai as their_openai

    from hitherto_client.integrations import agent_framework as ours_of_the_framework
else:
    agent_framework = Lazily("agent_framework")
    openai = Lazily("openai")
    their_openai = Lazily("agent_framework.openai")
    ours_of_the_framework = Lazily("hitherto_client.integrations.agent_framework")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant() as server:
        yield server


def log_in(account: str) -> str:
    """Log in."""
    return f"token 4711 of {account}"


LOGS_IN = Answer(calls=(("call_1", "log_in", '{"account": "hunter2"}'),))


@pytest.fixture
async def agent(
    model: ScriptedAssistant,
) -> AsyncIterator[Callable[..., agent_framework.Agent[Any]]]:
    """Makes an agent with context providers."""
    async with openai.AsyncOpenAI(base_url=model.base_url, api_key="test") as client:
        chat = their_openai.OpenAIChatCompletionClient("scripted", async_client=client)

        def made(*providers: Any) -> agent_framework.Agent[Any]:
            return agent_framework.Agent(
                chat,
                "Be brief.",
                tools=[agent_framework.tool(log_in, approval_mode="never_require")],
                context_providers=providers,
            )

        yield made


def user_of(session: agent_framework.AgentSession) -> str:
    return str(session.state["user"])


def session(name: str, user: str = "ana") -> agent_framework.AgentSession:
    opened = agent_framework.AgentSession(session_id=name)
    opened.state["user"] = user
    return opened


async def test_each_run_is_told_and_learnt_from(
    memory: AsyncHitherto,
    model: ScriptedAssistant,
    agent: Callable[..., agent_framework.Agent[Any]],
) -> None:
    provider = ours_of_the_framework.HithertoContextProvider(memory, user=user_of, timeout=60)
    ours = agent(provider, agent_framework.InMemoryHistoryProvider())
    opened: dict[tuple[str, str], agent_framework.AgentSession] = {}

    async def say(text: str, conversation: str, user: str) -> list[str]:
        model.requests.clear()
        if text == WHERE:
            model.queue(LOGS_IN, Answer(ANSWER))
        place = opened.setdefault((user, conversation), session(conversation, user))
        if user == "bea":
            async for _ in ours.run(text, session=place, stream=True):
                pass
        else:
            await ours.run(text, session=place)
        return [request.instructions for request in model.requests]

    await check_agent(memory, say, lambda text: f"You said: {text}")


async def test_a_run_goes_on_without_memory(
    agent: Callable[..., agent_framework.Agent[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """On a port of 127.0.0.1 on which nobody listens; a history that cannot be read raises."""
    async with AsyncHitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        told = agent(ours_of_the_framework.HithertoContextProvider(nowhere, user="ana", timeout=1))
        assert (await told.run("Hello!", session=session("s1"))).text == "You said: Hello!"
        history = ours_of_the_framework.HithertoHistoryProvider(nowhere, user="ana")
        with pytest.raises(HithertoCallError):
            await agent(history).run("Hello!", session=session("s1"))
    check_absence(caplog.text)


async def test_a_history_does_what_the_packages_own_does(
    memory: AsyncHitherto,
    model: ScriptedAssistant,
    agent: Callable[..., agent_framework.Agent[Any]],
) -> None:
    """With a tool call; each run of ours has an agent and a session of its own."""
    theirs, kept_by_them = session("s1"), agent_framework.InMemoryHistoryProvider()
    for question in ("Log me in 🏖️", "Thanks."):
        for opened, provider in (
            (session("s1"), ours_of_the_framework.HithertoHistoryProvider(memory, user=user_of)),
            (theirs, kept_by_them),
        ):
            if question != "Thanks.":
                model.queue(LOGS_IN, Answer("You are in."))
            await agent(provider).run(question, session=opened)
    ours, own = model.requests[-2:]
    assert ours.body["messages"] == own.body["messages"]
    assert len(ours.body["messages"]) == 6
    assert await kept(memory, "ana", "s1") == [
        ("user", "Log me in 🏖️"),
        ("system", "assistant"),
        ("system", "tool"),
        ("assistant", "You are in."),
        ("user", "Thanks."),
        ("assistant", "You said: Thanks."),
    ]
    history = ours_of_the_framework.HithertoHistoryProvider(memory, user="ana")
    state: dict[str, Any] = theirs.state[kept_by_them.source_id]
    expected = [m.to_dict() for m in await kept_by_them.get_messages("s1", state=state)]
    read = await history.get_messages("s1")
    assert [(m.role, m.text) for m in read] == [
        (m["role"], agent_framework.Message.from_dict(m).text) for m in expected
    ]
    await memory.add("ana", [{"role": "user", "content": "Said elsewhere."}], conversation="s1")
    assert (await history.get_messages("s1"))[-1].text == "Said elsewhere."
    assert await history.get_messages("s2") == []
    with pytest.raises(ValueError, match="session"):
        await history.get_messages(None)
