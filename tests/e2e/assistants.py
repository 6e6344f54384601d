"""What the tests of integrations share: what a conversation keeps, what every agent remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from hitherto_client import AsyncHitherto, HithertoCallError

FENCE = "<<<hitherto:memory "
"""How a block of the prompt begins."""


async def in_thread(blocking: Callable[[], Any]) -> Any:
    """Run in a thread of our own: the services need those of their loop, which is ours."""
    thread = ThreadPoolExecutor(1)
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, blocking)
    finally:
        thread.shutdown(wait=False)


async def kept(
    memory: AsyncHitherto, user: str = "ana", conversation: str = "c1"
) -> list[tuple[str, str]]:
    """Everything that a conversation holds, in order: who said it, and what."""
    while True:
        try:
            listed = [each async for each in memory.messages(user, conversation)]
            return [(each.role, each.content) for each in reversed(listed)]
        except HithertoCallError as error:
            # A busy machine may answer that time ran out.
            if error.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise


HOME, WHERE = "Tôi sống ở Đà Nẵng 🏖️", "Tôi sống ở đâu?"
ANSWER = "Đà Nẵng."
"""What the model answers to `WHERE`, after a call of a tool."""
Say = Callable[[str, str, str], Awaitable[list[str]]]
"""Says a text to an agent that is brief, in a conversation of a user's. It returns what the model
was told before the conversation, each time that it was asked."""


async def check_agent(memory: AsyncHitherto, say: Say, reply: Callable[[str], str]) -> None:
    """One agent for two people, with a call of a tool; "Yes." twice is said twice."""
    for text in (HOME, "Yes.", "Yes."):
        await say(text, "monday", "ana")
    yes = [("user", "Yes."), ("assistant", reply("Yes."))]
    assert await kept(memory, "ana", "monday") == [
        *(("user", HOME), ("assistant", reply(HOME))),
        *(*yes, *yes),
    ]
    told = await say(WHERE, "tuesday", "ana")
    assert len(told) == 2
    for each in told:
        assert each.startswith("Be brief.")
        assert each.count(FENCE) == 1
        assert HOME.removeprefix("Tôi sống ở ") in each
    assert await kept(memory, "ana", "tuesday") == [("user", WHERE), ("assistant", ANSWER)]
    assert FENCE not in (await say("Hello!", "monday", "bea"))[-1]
    said = [("user", "Hello!"), ("assistant", reply("Hello!"))]
    assert [(role, text.strip()) for role, text in await kept(memory, "bea", "monday")] == said


def check_absence(log: str) -> None:
    """What is logged while nobody listens where memory should be."""
    assert "the model answers without memory" in log
    assert "are added with the next call" in log
