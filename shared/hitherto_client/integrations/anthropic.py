"""Memory for the official `anthropic` package (extra `anthropic`): its client, and its memory tool.

Example:
    client = remembering(Anthropic(), memory=Hitherto(), user="ana", conversation="monday")
    client.messages.create(model="claude-sonnet-5-5", max_tokens=1_000, messages=[...])

    tool = HithertoMemoryTool(Hitherto(), user="ana")
    Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-5-5",
        max_tokens=1_000,
        messages=[{"role": "user", "content": "Remember that I live in Porto."}],
        tools=[tool],
        betas=["context-management-2025-06-27"],
    ).until_done()
"""

from __future__ import annotations

import asyncio
from typing import Any

from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations import missing_package
from hitherto_client.memory_files import MemoryFileError, MemoryFiles
from hitherto_client.words import Origin

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )

    from hitherto_client.integrations.anthropic_client import remembering
except ImportError as error:
    raise missing_package("anthropic", error) from error

__all__ = ["AsyncHithertoMemoryTool", "HithertoMemoryTool", "remembering"]


class HithertoMemoryTool(BetaAbstractMemoryTool):
    """The tool `memory_20250818` over a person's memory, for `tool_runner`.

    The files are those of `MemoryFiles`.
    """

    def __init__(
        self, memory: Hitherto, *, user: str, origin: Origin = "assistant", **options: Any
    ) -> None:
        """Offer a person's memory to a model.

        Args:
            memory: The client.
            user: Whose memory.
            origin: On whose word new lines stand (`MemoryFiles`).
            options: What the base class takes, such as `cache_control`.
        """
        super().__init__(**options)
        self._files = MemoryFiles(memory, user=user, origin=origin)

    def execute(self, command: Any) -> str:
        """Run one of the six commands."""
        return _run(self._files, command)

    view = create = str_replace = insert = delete = rename = execute


class AsyncHithertoMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`; the commands run in threads."""

    def __init__(
        self, memory: Hitherto, *, user: str, origin: Origin = "assistant", **options: Any
    ) -> None:
        """Offer a person's memory to a model; the arguments are those of `HithertoMemoryTool`."""
        super().__init__(**options)
        self._files = MemoryFiles(memory, user=user, origin=origin)

    async def execute(self, command: Any) -> str:
        """Run one of the six commands."""
        return await asyncio.to_thread(_run, self._files, command)

    view = create = str_replace = insert = delete = rename = execute


def _run(files: MemoryFiles, command: Any) -> str:
    try:
        return files.run(command.to_dict())
    except MemoryFileError as error:
        # The runner tells the model.
        raise ToolError(str(error)) from error
