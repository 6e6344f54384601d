"""Runs long work on texts in a thread, off the event loop, and short work directly.

A thread shares the interpreter with the event loop, which still runs every few milliseconds. A
switch to a thread costs a tenth of a millisecond, too much for short work.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar

SHORT = 16 * 1024
"""Characters, or bytes, up to which work runs on the loop; about a millisecond."""

Given = ParamSpec("Given")
Result = TypeVar("Result")

_given_up: ContextVar[threading.Event | None] = ContextVar("hitherto_given_up", default=None)


class GivenUp(Exception):
    """Nobody waits for the result of this work any more."""


def end_if_given_up() -> None:
    """End work in a thread whose caller was cancelled. Long work calls this in its loops.

    A thread cannot be stopped from outside, and the process waits for it at its end.

    Raises:
        GivenUp: The caller of `beside_loop` was cancelled.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUp


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
    given_up = threading.Event()
    context = copy_context()
    context.run(_given_up.set, given_up)
    running = partial(context.run, work, *args, **kwargs)
    try:
        return await asyncio.get_running_loop().run_in_executor(None, running)
    except asyncio.CancelledError:
        given_up.set()
        raise
