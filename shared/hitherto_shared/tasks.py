"""Ends tasks that run in the background."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until they have ended. None stands for a task that never started.

    Nothing of theirs is raised here. The event loop logs the failure of a task that had failed.
    """
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    if begun:
        await asyncio.wait(begun)
