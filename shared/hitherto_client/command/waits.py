"""What keeps work waiting, said where somebody waits for it."""

from __future__ import annotations

from collections.abc import Iterable

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.jobs import waiting_for

QUIET_SECONDS = 5.0
"""After which a job that says nothing may wait for another one."""
_MOST_USERS = 5


class Waits:
    """Says once of each reason that jobs wait for it."""

    def __init__(self, client: Hitherto, output: Output) -> None:
        self._client = client
        self._output = output
        self._told: set[str] = set()

    def hear(self, job: job_pb2.Job) -> None:
        """Look at a job that has changed."""
        if job.state != job_pb2.JOB_STATE_FAILED or not job.error:
            return
        why = waiting_for(job.error)
        if why not in self._told:
            self._told.add(why)
            self._output.note(f"waiting: {why}")

    def look(self, jobs: Iterable[job_pb2.Job]) -> None:
        """Look at the jobs that queued ones wait for: earlier ones of the same users."""
        users = dict.fromkeys(
            job.user_id for job in jobs if job.state == job_pb2.JOB_STATE_QUEUED and job.user_id
        )
        for user in list(users)[:_MOST_USERS]:
            request = pb.ListJobsRequest(
                user_id=user, states=[job_pb2.JOB_STATE_FAILED], page_size=1
            )
            try:
                earlier = self._client.connection.extraction.ListJobs(request).jobs
            except HithertoCallError:
                # Whoever follows the jobs hears of it, and knows how long to be patient.
                return
            for job in earlier:
                self.hear(job)


def tell_if_away(client: Hitherto, output: Output) -> None:
    """Say that the extraction service is awaited, if it does not serve."""
    health = client.health()["extraction"]
    if not health.serving:
        output.note(
            f"waiting: the extraction service at {health.address} does not serve "
            f"({health.status}); start it with `hitherto up`"
        )
