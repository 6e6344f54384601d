"""Runs long work on texts in a thread, off the event loop, and short work directly.

A thread shares the interpreter with the event loop, which still runs every few milliseconds. A
switch to a thread costs a tenth of a millisecond, too much for short work. There are a few threads,
of which a tenant, and a person in it, has a share: the texts of one make nobody else wait.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from hitherto_shared.shares import Shares, Turns, owner_at_work

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
        GivenUp: The caller of `in_thread_if_long` was cancelled.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUp


async def in_thread_if_long(
    size: int, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Run `work`, in a thread if it is long.

    `size` is the number of characters or bytes that `work` reads. It uses nothing that the loop may
    change meanwhile.
    """
    if size <= SHORT:
        return work(*args, **kwargs)
    return await in_thread(work, *args, **kwargs)


class Threads:
    """Some threads, of which a tenant has a share, and a person a share of that one."""

    def __init__(self, name: str, count: int, of_tenant: float) -> None:
        """So many threads of this name; `of_tenant` is a part of them."""
        self._pool = ThreadPoolExecutor(count, name)
        self._shares = partial(Shares, count, of_tenant, 0.5)
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()

    async def run(
        self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        """Run `work` in one of them, once it is the turn of the tenant and person of this task.

        A thread is busy until its work ends, also if nobody waits for it any more.
        """
        loop, owner = asyncio.get_running_loop(), owner_at_work()
        if loop not in self._turns:
            self._turns[loop] = Turns(self._shares())
        turns = self._turns[loop]
        await turns.take(owner)
        given_up = threading.Event()
        context = copy_context()
        context.run(_given_up.set, given_up)

        def ended(_: Future[Result]) -> None:
            # The loop may be closed by then, and nobody waits for a turn there.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(turns.give_back, owner)

        running = self._pool.submit(partial(context.run, work, *args, **kwargs))
        running.add_done_callback(ended)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            given_up.set()
            raise


_THREADS = min(32, (os.cpu_count() or 1) + 4)
# One of them is always left for others than a busy tenant.
_texts = Threads("hitherto-text", _THREADS, (_THREADS - 1) / _THREADS)
in_thread = _texts.run
"""Runs work on texts in a thread; see `Threads.run`."""
