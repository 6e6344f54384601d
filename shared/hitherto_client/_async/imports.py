"""Bulk imports, window by window; `hitherto_client.streams` cuts them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import memory_service_pb2 as memory_pb2
from hitherto_client._async.connection import AsyncConnection, repeated
from hitherto_client.calls import with_idempotency_key
from hitherto_client.streams import Progress, settle, windows


async def stream_transcripts(
    connection: AsyncConnection,
    transcripts: Iterable[conversation_pb2.Transcript],
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> extraction_pb2.StreamTranscriptsResponse:
    """Import transcripts; window by window.

    Args:
        connection: To the services.
        transcripts: What to import.
        progress: Called with the progress after every window.
        timeout: Seconds for each window, its retries included.

    Raises:
        HithertoCallError: A window was not taken whole, within the time or the attempts.
    """
    requests = (
        extraction_pb2.StreamTranscriptsRequest(
            transcript=transcript, idempotency_key=uuid.uuid4().hex
        )
        for transcript in transcripts
    )
    total = extraction_pb2.StreamTranscriptsResponse()
    call = connection.extraction.StreamTranscripts
    await _send(connection, call, requests, total, progress, timeout)
    return total


async def stream_memories(
    connection: AsyncConnection,
    items: Iterable[memory_pb2.SaveMemoryRequest],
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> memory_pb2.StreamMemoriesResponse:
    """Import memories; as `stream_transcripts` does."""
    requests = (memory_pb2.StreamMemoriesRequest(item=with_idempotency_key(item)) for item in items)
    total = memory_pb2.StreamMemoriesResponse()
    call = connection.memories.StreamMemories
    await _send(connection, call, requests, total, progress, timeout)
    return total


async def _send(
    connection: AsyncConnection,
    call: Any,
    requests: Iterator[Any],
    total: Any,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> None:
    """Send the requests, and add up the replies in `total`."""
    target = connection.target
    for window in windows(requests):

        def attempt(left: float, sent: list[Any] = window.requests) -> Any:
            return call(iter(sent), timeout=left)

        reply = await repeated(attempt, target.extraction, target.retry, timeout)
        made = settle(total, reply, window)
        if progress is not None:
            progress(made)
