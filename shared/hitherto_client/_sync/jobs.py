# Generated from ../_async/jobs.py by tools/unasync.py. Do not edit.
"""Jobs: the work in the background, followed to its end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import grpc

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from hitherto_client._sync.calling import Calling, Pages, pages, rpc
from hitherto_client._sync.connection import Connection
from hitherto_client.calls import countable
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.jobs import Job
from hitherto_client.wire import build, read
from hitherto_client.words import JobState

logger = logging.getLogger("hitherto_client")

FINAL = frozenset(
    (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_DEAD, job_pb2.JOB_STATE_CANCELLED)
)
"""The states in which a job ends."""
_SLICE_SECONDS = 30.0
"""A stream is opened anew after this time, so that a connection that died silently is noticed."""
_PATIENCE_SECONDS = 60.0
"""How long a service that has answered before may stay away, as during a restart."""


class Jobs(Calling):
    """Jobs may be named by their id or by the Job that a call returned."""

    @rpc("GetJob", "job")
    def get_job(self, job: Job | str, *, timeout: float | None = None) -> Job:
        """The job as it is now.

        Raises:
            HithertoCallError: It does not exist (`JOB_NOT_FOUND`), or the call failed.
        """

    def watch_job(self, job: Job | str, *, timeout: float | None = None) -> Iterator[Job]:
        """The job now and after every change, the final one last.

        An interrupted stream is opened again, for example after a restart of the service.

        Args:
            job: The job.
            timeout: Seconds until it must be final. Unset: no limit.

        Raises:
            HithertoCallError: The job is unknown, the service stays unreachable, or time is up.
        """
        job_id = job.id if isinstance(job, Job) else job
        for state in watch_job(self.connection, job_id, timeout=timeout):
            self._hear_of(state)
            yield read(Job, state)

    def wait_for_job(
        self,
        job: Job | str,
        *,
        progress: Callable[[Job], None] | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Wait until a job is final, and return it; reads then include what it learnt.

        A job that did not succeed is returned as well: see `succeeded`, and `error` for the reason.
        What a job waits for, such as a model that refuses the key, is logged once as a warning.

        Args:
            job: The job.
            progress: Called with the job at once and after every change; `waits_for` of a job that
                waits says for what. Nothing is logged then.
            timeout: Seconds until it must be final. Unset: no limit.

        Raises:
            HithertoCallError: The job is unknown, the service stays unreachable, or time is up.
        """
        last: Job | None = None
        told = ""
        for state in self.watch_job(job, timeout=timeout):
            last = state
            if progress is not None:
                progress(state)
            elif state.waits_for not in ("", told):
                told = state.waits_for
                logger.warning("job %s is waiting: %s", state.id, told)
        assert last is not None  # Watching ends with a final state or an error.
        return last

    @pages("ListJobs")
    def jobs(
        self,
        user: str = "",
        *,
        conversation: str = "",
        states: Iterable[JobState] = (),
        kinds: Iterable[str] = (),
        page_size: int = 200,
        timeout: float | None = None,
    ) -> Pages[Job]:
        """Jobs, newest first, fetched page by page; without a user, all that you may see."""

    @rpc("RetryJob", "job")
    def retry_job(
        self, job: Job | str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> Job:
        """Queue a dead or cancelled job again."""

    def retry_jobs(
        self,
        user: str = "",
        *,
        states: Iterable[JobState] = (),
        reasons: Iterable[str] = (),
        kinds: Iterable[str] = (),
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        timeout: float | None = None,
    ) -> int:
        """Queue every matching job again, and return how many there were.

        Args:
            user: Only jobs about this user. Empty: all of the tenant's.
            states: Of `dead`, `failed` and `cancelled`. Empty: dead and failed jobs.
            reasons: Only jobs whose `error` begins with one of these, such as `MODEL_UNUSABLE`.
            kinds: Only jobs of one of these kinds.
            created_after: Only jobs created then or later.
            created_before: Only jobs created before then.
            timeout: Seconds for each 1,000 jobs. Unset: 30.
        """
        filter = {
            "user_id": user,
            "states": tuple(states),
            "reasons": tuple(reasons),
            "kinds": tuple(kinds),
            "created_after": created_after,
            "created_before": created_before,
        }
        # A job that fails again at once matches again: no more are retried than there are.
        counted = build(
            pb.ListJobsRequest, user_id=user, states=filter["states"], kinds=filter["kinds"]
        )
        counted.page_size = 1
        reply = self._read(self.connection.extraction.ListJobs, counted, user, timeout)
        left, retried, more = reply.total_size, 0, True
        while more and retried <= left:
            request = build(pb.RetryJobRequest, filter=filter)
            answer = self._write(self.connection.extraction.RetryJob, request, user, timeout)
            retried, more = retried + answer.retried, answer.more
        return retried

    @rpc("CancelJob", "job")
    def cancel_job(
        self, job: Job | str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> Job:
        """Cancel a job that is not final; what it has learnt so far stays."""


def watch_job(
    connection: Connection, job_id: str, *, timeout: float | None
) -> Iterator[job_pb2.Job]:
    """The job at once and after every change, the final one last; see `Jobs.watch_job`."""
    limit = countable(timeout)
    request = build(pb.WatchJobRequest, job_id=job_id)
    deadline = math.inf if limit is None else time.monotonic() + limit
    endpoint, retry = connection.target.extraction, connection.target.retry
    last: job_pb2.Job | None = None
    failures = 0
    heard = time.monotonic()
    while True:
        seconds = min(_SLICE_SECONDS, max(deadline - time.monotonic(), 0.001))
        stream = connection.extraction.WatchJob(request, timeout=seconds)
        try:
            with endpoint.ended():
                for reply in stream:
                    failures, heard = 0, time.monotonic()
                    if reply.job != last:
                        last = reply.job
                        yield reply.job
                    if reply.job.state in FINAL:
                        return
            # Without the service, as that was reached.
            error = HithertoCallError(
                grpc.StatusCode.UNAVAILABLE,
                "the service ended the stream before the job was final",
            )
        except grpc.RpcError as raised:
            error = endpoint.error(raised)
        finally:
            stream.cancel()
        now = time.monotonic()
        if error.code is grpc.StatusCode.DEADLINE_EXCEEDED and now < deadline:
            if now - heard <= _SLICE_SECONDS + _PATIENCE_SECONDS:
                continue
            raise error
        failures += 1
        wait = retry.wait_before_retry(error, failures, repeatable=True)
        away = error.code is grpc.StatusCode.UNAVAILABLE and now - heard < _PATIENCE_SECONDS
        if wait is None and last is not None and away:
            wait = retry.longest_wait
        if wait is None or now + wait >= deadline:
            raise error
        time.sleep(wait)
