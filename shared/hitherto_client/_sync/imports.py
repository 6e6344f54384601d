# Generated from ../_async/imports.py by tools/unasync.py. Do not edit.
"""Bulk imports, window by window; `hitherto_client.streams` cuts them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import grpc

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import memory_service_pb2 as memory_pb2
from hitherto_client.calls import Endpoint, RetryPolicy, with_idempotency_key
from hitherto_client.errors import read_error
from hitherto_client.streams import MAX_IDS, Progress, done, settle, windows


def stream_transcripts(
    call: Any,
    transcripts: Iterable[conversation_pb2.Transcript],
    endpoint: Endpoint,
    retry: RetryPolicy,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> extraction_pb2.StreamTranscriptsResponse:
    """Import transcripts; window by window.

    Args:
        call: The stub's StreamTranscripts.
        transcripts: What to import.
        endpoint: Where the service is, for errors.
        retry: How windows that broke off are repeated.
        progress: Called with the progress after every window.
        timeout: Seconds for each window.
    """
    total = extraction_pb2.StreamTranscriptsResponse()
    requests = (
        extraction_pb2.StreamTranscriptsRequest(
            transcript=transcript, idempotency_key=uuid.uuid4().hex
        )
        for transcript in transcripts
    )
    for window in windows(requests):
        reply = _send(call, window.requests, endpoint, retry, timeout)
        total.accepted_count += reply.accepted_count
        total.job_ids.extend(reply.job_ids[: MAX_IDS - len(total.job_ids)])
        settle(total, reply, window)
        if progress is not None:
            progress(done(total.accepted_count, total.rejected_count))
    return total


def stream_memories(
    call: Any,
    items: Iterable[memory_pb2.SaveMemoryRequest],
    endpoint: Endpoint,
    retry: RetryPolicy,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> memory_pb2.StreamMemoriesResponse:
    """Import memories; as `stream_transcripts` does."""
    total = memory_pb2.StreamMemoriesResponse()
    requests = (memory_pb2.StreamMemoriesRequest(item=with_idempotency_key(item)) for item in items)
    for window in windows(requests):
        reply = _send(call, window.requests, endpoint, retry, timeout)
        total.saved_count += reply.saved_count
        total.deduplicated_count += reply.deduplicated_count
        total.memory_ids.extend(reply.memory_ids[: MAX_IDS - len(total.memory_ids)])
        settle(total, reply, window)
        if progress is not None:
            progress(done(total.saved_count, total.rejected_count))
    return total


def _send(
    call: Any, requests: list[Any], endpoint: Endpoint, retry: RetryPolicy, timeout: float
) -> Any:
    """Send one window until it is taken whole.

    Raises:
        HithertoCallError: It was not, within the time or the attempts.
    """
    deadline = time.monotonic() + timeout
    failures = 0
    while True:
        remaining = max(deadline - time.monotonic(), 0.001)
        try:
            return call(iter(requests), timeout=remaining)
        except grpc.RpcError as raised:
            error = read_error(raised, service=endpoint.service, address=endpoint.address)
            failures += 1
            wait = retry.wait_before_retry(error, failures, repeatable=True)
            if wait is None or time.monotonic() + wait >= deadline:
                raise error from raised
        time.sleep(wait)
