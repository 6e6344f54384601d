"""Runs long work on texts in a thread, off the event loop, and short work directly.

A thread shares the interpreter with the loop, which has its turn every few milliseconds all the
same. A hop to it costs a tenth of a millisecond, too much for what is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SHORT = 16 * 1024
"""Characters, or bytes, up to which work is done on the loop; about a millisecond of it."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def beside_loop(
    size: int, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Do `work`, in a thread if it is long.

    Args:
        size: Characters or bytes that it looks at.
        work: What to do; it touches nothing that the loop changes meanwhile.
        *args: For `work`.
        **kwargs: For `work`.
    """
    if size <= SHORT:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
