"""Agents of Pydantic AI with our memory, on the package's own scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_client import AsyncHitherto, Hitherto
from tests.e2e.assistants import ANSWER, FENCE, WHERE, check_absence, check_agent, kept
from tests.lazily import Lazily

if TYPE_CHECKING:
    import pydantic_ai
    from pydantic_ai import messages as parts
    from pydantic_ai.models import function

    from hitherto_client.integrations import pydantic_ai as ours_of_pydantic_ai

    Step = parts.ModelResponse | str
else:
    pydantic_ai = Lazily("pydantic_ai")
    parts = Lazily("pydantic_ai.messages")
    function = Lazily("pydantic_ai.models.function")
    ours_of_pydantic_ai = Lazily("hitherto_client.integrations.pydantic_ai")


class Script:
    """A model that answers step by step and notes what it is asked."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[tuple[list[parts.ModelMessage], str]] = []

    def model(self) -> function.FunctionModel:
        return function.FunctionModel(self._answer, stream_function=self._stream)

    def _next(self, messages: list[parts.ModelMessage], info: function.AgentInfo) -> Step:
        self.asked.append((list(messages), info.instructions or ""))
        return self.steps.pop(0) if self.steps else "Noted."

    def _answer(
        self, messages: list[parts.ModelMessage], info: function.AgentInfo
    ) -> parts.ModelResponse:
        step = self._next(messages, info)
        return parts.ModelResponse([parts.TextPart(step)]) if isinstance(step, str) else step

    async def _stream(
        self, messages: list[parts.ModelMessage], info: function.AgentInfo
    ) -> AsyncIterator[str]:
        step = self._next(messages, info)
        assert isinstance(step, str)
        for word in step.split(" "):
            yield f"{word} "


def called(name: str, **arguments: Any) -> parts.ModelResponse:
    return parts.ModelResponse([parts.ToolCallPart(name, arguments)])


@dataclass
class Deps:
    user: str


def log_in(account: str) -> str:
    return f"token 4711 of {account}"


async def test_each_run_is_told_and_learnt_from(blocking: Hitherto, memory: AsyncHitherto) -> None:
    """Also with a picture, and with words that stream."""
    script = Script()
    agent = pydantic_ai.Agent(
        script.model(),
        deps_type=Deps,
        instructions="Be brief.",
        tools=[log_in],
        capabilities=[
            ours_of_pydantic_ai.HithertoMemory[Deps](
                blocking, user=lambda run: run.deps.user, timeout=60
            )
        ],
    )
    picture = parts.BinaryContent(b"\x89PNG", media_type="image/png")
    said: dict[tuple[str, str], list[parts.ModelMessage]] = {}

    async def say(text: str, conversation: str, user: str) -> list[str]:
        script.asked.clear()
        script.steps = [called("log_in", account="hunter2"), ANSWER] if text == WHERE else []
        how: dict[str, Any] = {"deps": Deps(user), "conversation_id": conversation}
        if user == "bea":
            async with agent.run_stream(text, **how) as stream:
                await stream.get_output()
        else:
            before = said.get((user, conversation), [])
            done = await agent.run([text, picture], message_history=before, **how)
            said[user, conversation] = done.all_messages()
        return [instructions for _, instructions in script.asked]

    await check_agent(memory, say, lambda _: "Noted.")


async def test_a_run_goes_on_without_memory(caplog: pytest.LogCaptureFixture) -> None:
    """On a port of 127.0.0.1 on which nobody listens; tools that fail say so to the model."""
    script = Script(called("search_memory", query="Porto"), "I cannot look.")
    with Hitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        agent = pydantic_ai.Agent(
            script.model(),
            capabilities=[ours_of_pydantic_ai.HithertoMemory(nowhere, user="ana", timeout=1)],
            toolsets=[ours_of_pydantic_ai.HithertoToolset(nowhere, user="ana")],
        )
        assert (await agent.run("Hello!")).output == "I cannot look."
    check_absence(caplog.text)
    assert "UNAVAILABLE" in str(script.asked[-1][0][-1].parts)


async def test_the_model_searches_saves_and_forgets(
    blocking: Hitherto, memory: AsyncHitherto
) -> None:
    script = Script(
        called("save_memory", content="Ana is allergic to peanuts."),
        called("search_memory", query="peanuts"),
        called("search_memory", question="peanuts"),
        "Noted.",
    )
    toolset = ours_of_pydantic_ai.HithertoToolset[Any](blocking, user="ana", allow_unbound=True)
    agent = pydantic_ai.Agent(script.model(), toolsets=[toolset])
    result = await agent.run("I am allergic to peanuts.")
    returned: list[Any] = [
        part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, parts.ToolReturnPart)
    ]
    saved, found, refused = returned
    [item] = found["items"]
    assert (item["id"], item["content"]) == (saved["saved"]["id"], "Ana is allergic to peanuts.")
    assert "query" in refused["error"]
    script.steps = [called("forget_memory", memory_id=item["id"]), "Gone."]
    assert (await agent.run("Forget it.")).output == "Gone."
    assert [one.status async for one in memory.memories("ana", statuses=["forgotten"])]
    with pytest.raises(ValueError, match="no such tools: sing"):
        ours_of_pydantic_ai.HithertoToolset(blocking, user="ana", offered=["sing"])


async def test_a_history_is_kept_exactly(blocking: Hitherto, memory: AsyncHitherto) -> None:
    """Except for what was known at the time; another process goes on."""
    await memory.add("ana", [{"role": "user", "content": "I live in Porto."}], conversation="c0")
    script = Script(called("log_in", account="hunter2"), "You are in.")
    agent = pydantic_ai.Agent(
        script.model(),
        instructions="Be brief.",
        tools=[log_in],
        capabilities=[
            ours_of_pydantic_ai.HithertoMemory(blocking, user="ana", keep=False, timeout=60)
        ],
    )

    first = await agent.run("Log me in. I live in Porto 🏖️", conversation_id="c1")
    await ours_of_pydantic_ai.HithertoHistory("c1", memory=blocking, user="ana").add(
        first.new_messages()
    )
    assert FENCE in script.asked[0][1]
    history = ours_of_pydantic_ai.HithertoHistory("c1", memory=blocking, user="ana")
    read = await history.messages()
    assert [message.parts for message in read] == [m.parts for m in first.all_messages()]
    assert {m.instructions for m in read if isinstance(m, parts.ModelRequest)} == {"Be brief.\n\n"}
    assert await kept(memory, "ana", "c1") == [
        ("user", "Log me in. I live in Porto 🏖️"),
        ("system", "response"),
        ("system", "request"),
        ("assistant", "You are in."),
    ]
    second = await agent.run("Thanks.", message_history=read)
    await history.add(second.new_messages())
    assert len(await history.messages()) == 6
    # A window never begins with the result of a tool, whose call it would lack.
    assert [len(await history.messages(limit=n)) for n in range(7)] == [0, 0, 2, 2, 2, 2, 6]
    await memory.add("ana", [{"role": "user", "content": "Said elsewhere."}], conversation="c1")
    [part] = (await history.messages())[-1].parts
    assert isinstance(part, parts.UserPromptPart)
    assert part.content == "Said elsewhere."
