"""Agents and memories of LlamaIndex with our block, on the package's own scripted model."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from hitherto_client import AsyncHitherto, Hitherto
from tests.e2e.assistants import ANSWER, WHERE, check_absence, check_agent, kept
from tests.lazily import Lazily

if TYPE_CHECKING:
    from llama_index.core import llms
    from llama_index.core import memory as memories
    from llama_index.core.agent import workflow
    from llama_index.core.base.llms import types
    from llama_index.core.llms import mock

    from hitherto_client.integrations import llama_index as our_llama_index
else:
    llms = Lazily("llama_index.core.llms")
    memories = Lazily("llama_index.core.memory")
    types = Lazily("llama_index.core.base.llms.types")
    workflow = Lazily("llama_index.core.agent.workflow")
    mock = Lazily("llama_index.core.llms.mock")
    our_llama_index = Lazily("hitherto_client.integrations.llama_index")


# Its agents ask pydantic for what pydantic has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Import the package before the services run, whose event loop that would hold up."""
    importlib.import_module("llama_index.core.agent.workflow")


def remembering(client: Hitherto, user: str, session: str, **options: Any) -> memories.Memory:
    block = our_llama_index.HithertoMemoryBlock(client, user=user, timeout=60)
    return memories.Memory.from_defaults(session_id=session, memory_blocks=[block], **options)


class Script:
    """A model that answers step by step and notes what it is asked."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[list[llms.ChatMessage]] = []

    def __call__(self, messages: Sequence[llms.ChatMessage], **_: Any) -> llms.ChatMessage:
        self.asked.append(list(messages))
        step = self.steps.pop(0) if self.steps else "Noted."
        blocks = [llms.TextBlock(text=step) if isinstance(step, str) else step]
        return llms.ChatMessage(role="assistant", blocks=blocks)

    def told(self, place: int) -> str:
        """What the model was told before the conversation."""
        system = [m for m in self.asked[place] if m.role == "system"]
        return "\n".join(message.content or "" for message in system)


def log_in(account: str) -> str:
    """Log in."""
    return f"token 4711 of {account}"


async def test_an_agent_is_told_and_learnt_from(blocking: Hitherto, memory: AsyncHitherto) -> None:
    script = Script()
    agent = workflow.FunctionAgent(
        llm=mock.MockFunctionCallingLLM(response_generator=script),
        tools=[log_in],
        system_prompt="Be brief.",
    )
    call = {"tool_name": "log_in", "tool_kwargs": {"account": "hunter2"}, "tool_call_id": "call_1"}
    opened: dict[tuple[str, str], memories.Memory] = {}

    async def say(text: str, conversation: str, user: str) -> list[str]:
        script.asked.clear()
        script.steps = [types.ToolCallBlock(**call), ANSWER] if text == WHERE else []
        if (user, conversation) not in opened:
            opened[user, conversation] = remembering(blocking, user, conversation)
        await agent.run(text, memory=opened[user, conversation])
        return [script.told(place) for place in range(len(script.asked))]

    await check_agent(memory, say, lambda _: "Noted.")


async def test_what_leaves_the_short_term_memory_is_kept_once(
    blocking: Hitherto, memory: AsyncHitherto
) -> None:
    """Read in threads without an event loop, and by a second process."""
    leaving = remembering(blocking, "ana", "monday", token_limit=100, token_flush_size=20)
    said = []
    for number in range(12):
        pair = [("user", f"The {number}. question?"), ("assistant", f"The {number}. answer.")]
        said += pair
        for role, text in pair:
            await asyncio.to_thread(leaving.put, llms.ChatMessage(role=role, content=text))
            await asyncio.to_thread(leaving.get)
    history = [message for message in await leaving.aget() if message.role != "system"]
    assert len(history) < len(said)
    again = remembering(blocking, "ana", "monday", chat_history=history)
    await again.aput(llms.ChatMessage("The last question?"))
    for _ in range(2):
        await again.aget(input="The last question?")
    assert await kept(memory, "ana", "monday") == [*said, ("user", "The last question?")]


async def test_a_reading_goes_on_without_memory(
    blocking: Hitherto, memory: AsyncHitherto, caplog: pytest.LogCaptureFixture
) -> None:
    """On a port of 127.0.0.1 on which nobody listens."""
    with Hitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        block = our_llama_index.HithertoMemoryBlock(nowhere, user="ana", timeout=1)
        leaving = memories.Memory.from_defaults(session_id="s1", memory_blocks=[block])
        await leaving.aput(llms.ChatMessage("Hello!"))
        assert [message.content for message in await leaving.aget()] == ["Hello!"]
    check_absence(caplog.text)
    # Messages that are put into the block itself are kept, each time.
    block = our_llama_index.HithertoMemoryBlock(blocking, user="ana", timeout=60)
    for _ in range(2):
        await block.aput([llms.ChatMessage("I live in Porto.")], session_id="s2")
    assert await kept(memory, "ana", "s2") == [("user", "I live in Porto.")] * 2
