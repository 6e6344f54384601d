"""Bulk imports, window by window; `hitherto_client.streams` cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hitherto_client._async.connection import AsyncConnection, repeated
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
        HithertoCallError: A window was not taken whole, within the time or the attempts.
    """
    target = connection.target
    for window in windows(requests):

        def attempt(left: float, sent: list[Any] = window.requests) -> Any:
            return call(iter(sent), timeout=left)

        reply = await repeated(attempt, target.extraction, target.retry, timeout)
        made = settle(total, reply, window)
        if progress is not None:
            progress(made)
    return total
