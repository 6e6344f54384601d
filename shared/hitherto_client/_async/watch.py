"""Watches a job to its end, across broken connections and restarts of the service."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator

import grpc

from hitherto.v1 import job_pb2
from hitherto.v1.extraction_service_pb2 import WatchJobRequest
from hitherto_client._async.connection import AsyncConnection
from hitherto_client.calls import Endpoint
from hitherto_client.errors import HithertoCallError, read_error

FINAL = frozenset(
    {
        job_pb2.JOB_STATE_SUCCEEDED,
        job_pb2.JOB_STATE_DEAD,
        job_pb2.JOB_STATE_CANCELLED,
    }
)
"""The states in which a job ends."""

_SLICE_SECONDS = 30.0
"""A stream is opened anew after this time, so that a connection that died silently is noticed."""

_PATIENCE_SECONDS = 60.0
"""How long a service that has answered before may stay away, as during a restart."""


async def watch_job(
    connection: AsyncConnection, job_id: str, *, timeout: float | None
) -> AsyncIterator[job_pb2.Job]:
    """The job at once and after every change, the final one last.

    Args:
        connection: To the services.
        job_id: The job.
        timeout: Seconds until it must be final. None: no limit.

    Raises:
        HithertoCallError: The job is unknown, the service stays unreachable, or time is up.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    endpoint, retry = connection.target.extraction, connection.target.retry
    last: job_pb2.Job | None = None
    failures = 0
    heard = time.monotonic()
    while True:
        seconds = min(_SLICE_SECONDS, max(deadline - time.monotonic(), 0.001))
        stream = connection.extraction.WatchJob(WatchJobRequest(job_id=job_id), timeout=seconds)
        try:
            async for reply in stream:
                failures, heard = 0, time.monotonic()
                if reply.job != last:
                    last = reply.job
                    yield reply.job
                if reply.job.state in FINAL:
                    return
            error = _ended_early(endpoint)
        except grpc.RpcError as raised:
            error = read_error(raised, service=endpoint.service, address=endpoint.address)
        finally:
            stream.cancel()
        now = time.monotonic()
        if error.code is grpc.StatusCode.DEADLINE_EXCEEDED and now < deadline:
            if now - heard <= _SLICE_SECONDS + _PATIENCE_SECONDS:
                continue
            raise error
        failures += 1
        wait = retry.wait_before_retry(error, failures, repeatable=True)
        if wait is None and last is not None and _may_pass(error, now - heard):
            wait = retry.longest_wait
        if wait is None or now + wait >= deadline:
            raise error
        await asyncio.sleep(wait)


def _may_pass(error: HithertoCallError, silent_seconds: float) -> bool:
    return error.code is grpc.StatusCode.UNAVAILABLE and silent_seconds < _PATIENCE_SECONDS


def _ended_early(endpoint: Endpoint) -> HithertoCallError:
    return HithertoCallError(
        grpc.StatusCode.UNAVAILABLE,
        "the service ended the stream before the job was final",
        service=endpoint.service,
        address=endpoint.address,
    )
