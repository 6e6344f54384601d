"""Agents of Strands with our memory, in an environment with nothing but both packages.

tests/e2e/test_frameworks.py runs it, with a scripted model and real services, and looks at what
the model was told and what is kept.
"""

from __future__ import annotations

import asyncio
import logging

from strands import Agent, tool
from strands.memory import MemoryManager, MemoryMessageFilter
from strands.models.openai import OpenAIModel

from hitherto_client import Hitherto
from hitherto_client.integrations.strands import HithertoMemoryStore

logging.basicConfig(level=logging.WARNING)


@tool
def log_in(account: str) -> str:
    """Log in.

    Args:
        account: Whose.
    """
    return f"token 4711 of {account}"


def agent(store: HithertoMemoryStore) -> Agent:
    """An agent whose memory is in this store."""
    return Agent(
        OpenAIModel(model_id="scripted"),
        system_prompt="Be brief.",
        tools=[log_in],
        callback_handler=None,
        memory_manager=MemoryManager(stores=[store]),
    )


def the_words_are_kept_and_told(memory: Hitherto) -> None:
    """Two conversations, with a call of a tool; "Yes." twice is said twice."""
    monday = agent(HithertoMemoryStore(memory, user="ana", conversation="monday", timeout=60))
    for said in ("Tôi sống ở Đà Nẵng 🏖️", "Yes.", "Yes."):
        monday(said)
    tuesday = agent(HithertoMemoryStore(memory, user="ana", conversation="tuesday", timeout=60))
    tuesday("Tôi sống ở đâu?")


def agents_share_a_store(memory: Hitherto) -> None:
    """A new agent for each request, which says the same words again."""
    store = HithertoMemoryStore(memory, user="dan", conversation="requests", timeout=60)
    for _ in range(2):
        agent(store)("Yes.")


async def the_model_saves_and_finds(memory: Hitherto) -> None:
    """With the tools of the manager; whoever drives the loop flushes."""
    store = HithertoMemoryStore(memory, user="bea", conversation="tools", timeout=60)
    manager = MemoryManager(stores=[store], add_tool_config=True)
    ours = Agent(OpenAIModel(model_id="scripted"), callback_handler=None, memory_manager=manager)
    await ours.invoke_async("I am allergic to peanuts.")
    await manager.flush()
    found = await manager.search("Any peanuts?")
    assert any("allergic to peanuts. (20" in entry.content for entry in found), found
    long = "Any peanuts? \x00\ud800" * 10_000
    assert len(await store.search(long, {"max_search_results": 1})) == 1
    assert await HithertoMemoryStore(memory, user="nobody").search("Any peanuts?") == []


def calls_of_tools_are_kept_if_they_pass_the_filter(memory: Hitherto) -> None:
    everything = MemoryMessageFilter(exclude=[])
    store = HithertoMemoryStore(
        memory, user="cem", conversation="c1", timeout=60, extraction={"filter": everything}
    )
    asked = agent(store)
    asked("Log me in.")


def a_run_goes_on_without_memory() -> None:
    """On a port of 127.0.0.1 on which nobody listens."""
    with Hitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        ours = agent(HithertoMemoryStore(nowhere, user="ana", timeout=1))
        assert str(ours("Hello!")).strip() == "You said: Hello!"


def main() -> None:
    with Hitherto(timeout=120) as memory:
        the_words_are_kept_and_told(memory)
        agents_share_a_store(memory)
        asyncio.run(the_model_saves_and_finds(memory))
        calls_of_tools_are_kept_if_they_pass_the_filter(memory)
    a_run_goes_on_without_memory()


main()
