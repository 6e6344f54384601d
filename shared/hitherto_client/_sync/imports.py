# Generated from ../_async/imports.py by tools/unasync.py. Do not edit.
"""Bulk imports, window by window; `hitherto_client.streams` cuts them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from hitherto_client._sync.connection import Connection, repeated
from hitherto_client.streams import Progress, settle, windows

Total = TypeVar("Total")


def stream(
    connection: Connection,
    call: Any,
    requests: Iterator[Any],
    total: Total,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> Total:
    """Import items, and return the sum of the replies.

    Args:
        connection: To the services.
        call: The stub's method, of a stream of requests and one reply.
        requests: An item each, with its idempotency key.
        total: An empty reply, in which the replies are added up.
        progress: Called with the progress after every window.
        timeout: Seconds for each window, its retries included.

    Raises:
        HithertoCallError: A window was not taken whole, within the time; the first one, within the
            attempts of the client too.
    """
    target = connection.target
    retry = target.retry
    for window in windows(requests):

        def attempt(left: float, sent: list[Any] = window.requests) -> Any:
            return call(iter(sent), timeout=left)

        reply = repeated(attempt, target.extraction, retry, timeout)
        if retry.attempts > 1:
            # A service that took a window comes back, if it goes: only the time bounds the wait.
            retry = replace(retry, attempts=sys.maxsize)
        made = settle(total, reply, window)
        if progress is not None:
            progress(made)
    return total
