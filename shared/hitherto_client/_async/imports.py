"""Bulk imports, window by window; `hitherto_client.streams` cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hitherto_client._async.connection import AsyncConnection, repeated
from hitherto_client.errors import HithertoCallError
from hitherto_client.streams import Progress, settle, windows

Total = TypeVar("Total")


async def stream(
    connection: AsyncConnection,
    call: Any,
    requests: Iterator[Any],
    total: Total,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
    away: Callable[[HithertoCallError], None] | None = None,
) -> Total:
    """Import items, and return the sum of the replies.

    Args:
        connection: To the services.
        call: The stub's method, of a stream of requests and one reply.
        requests: An item each, with its idempotency key.
        total: An empty reply, in which the replies are added up.
        progress: Called with the progress after every window.
        timeout: Seconds for each window, its retries included.
        away: Told how an attempt failed while a service that took a window is waited for.

    Raises:
        HithertoCallError: A window was not taken whole, within the time; the first one, within the
            attempts of the client too.
    """
    target = connection.target
    retry = target.retry
    hear: Callable[[HithertoCallError], None] | None = None
    for window in windows(requests):

        def attempt(left: float, sent: list[Any] = window.requests) -> Any:
            return call(iter(sent), timeout=left)

        reply = await repeated(attempt, target.extraction, retry, timeout, failed=hear)
        if retry.attempts > 1:
            # A service that took a window comes back, if it goes: only the time bounds the wait.
            retry, hear = retry.without_end(), away
        made = settle(total, reply, window)
        if progress is not None:
            progress(made)
    return total
