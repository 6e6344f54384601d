"""Ends tasks that run in the background."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until they have ended. None stands for a task that never started.

    Nothing of theirs is raised here. The failure of one goes to the handler of the event loop: as
    long as somebody holds the task, the loop itself does not tell of it.
    """
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    if begun:
        await asyncio.wait(begun)
    for task in begun:
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a background task failed", "exception": error, "task": task}
            )
