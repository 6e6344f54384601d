"""Runs long work on texts in a thread, off the event loop, and short work directly.

A thread shares the interpreter with the event loop, which still runs every few milliseconds. A
switch to a thread costs a tenth of a millisecond, too much for short work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SHORT = 16 * 1024
"""Characters, or bytes, up to which work runs on the loop; about a millisecond."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def beside_loop(
    size: int, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Run `work`, in a thread if it is long.

    Args:
        size: Characters or bytes that it reads.
        work: The work, which uses nothing that the loop may change meanwhile.
        *args: For `work`.
        **kwargs: For `work`.
    """
    if size <= SHORT:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
