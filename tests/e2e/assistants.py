"""What the tests of integrations look at: what a conversation keeps, and blocking calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
