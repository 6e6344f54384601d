"""How far long work is, what keeps it waiting, and what a stop leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

import grpc
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.jobs import waiting_for

_NOTE_EVERY = 10_000
"""Without a known end, elsewhere than on a terminal: items between two lines."""


class Bar:
    """Progress on standard error while it is used as a context."""

    def __init__(self, output: Output, *, end_known: bool = True) -> None:
        """Prepare it.

        With `end_known`, progress comes as a share, with `show`; else as a number, with `count`.
        """
        self._output = output
        self._tenth = -1
        self._noted = 0
        self._bar: Progress | None = None
        if output.stderr.is_terminal:
            share = [TextColumn("{task.percentage:>3.0f} %", markup=False)] if end_known else []
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                *share,
                TimeElapsedColumn(),
                console=output.stderr,
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0 if end_known else None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, share: float, text: str) -> None:
        """Bring the display up to date."""
        if self._bar is not None:
            self._bar.update(self._task, completed=share, description=text)
        elif (tenth := int(share * 10 + 1e-9)) > self._tenth:
            self._tenth = tenth
            self._output.note(f"{tenth * 10:3d} %  {text}")

    def count(self, done: int, text: str) -> None:
        """The same for work whose end is not known."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        elif done >= self._noted + _NOTE_EVERY:
            self._noted = done
            self._output.note(text)


@contextmanager
def if_stopped(output: Output, left: Callable[[], str]) -> Iterator[None]:
    """Say what stays if the person or a failed call stops the work."""
    try:
        yield
    except (KeyboardInterrupt, HithertoCallError):
        if text := left():
            output.note(text)
        raise


QUIET_SECONDS = 5.0
"""After which a job that says nothing may wait for another one."""
_MOST_USERS = 5


class Waits:
    """Says once of each reason that work waits for it."""

    def __init__(self, client: Hitherto, output: Output) -> None:
        self._client = client
        self._output = output
        self._told: set[str] = set()

    def hear(self, job: job_pb2.Job) -> None:
        """Look at a job that has changed."""
        if job.state != job_pb2.JOB_STATE_FAILED or not job.error:
            return
        self._tell(waiting_for(job.error))

    def look(self, jobs: Iterable[job_pb2.Job]) -> None:
        """Look at the jobs that queued ones wait for: earlier ones of the same users."""
        users = dict.fromkeys(
            job.user_id for job in jobs if job.state == job_pb2.JOB_STATE_QUEUED and job.user_id
        )
        for user in list(users)[:_MOST_USERS]:
            try:
                self._look_at(user)
            except HithertoCallError:
                # Whoever follows the jobs hears of it, and knows how long to be patient.
                return

    def fail(self, error: HithertoCallError) -> None:
        """Hear that a call failed; it is made again if the service is only away."""
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            return
        if not error.reason:
            self._tell(f"the {error.service} service at {error.address} went away")
        elif error.retry_after is not None:
            self._tell(error.message)

    def look_at(self, user: str) -> None:
        """Look at the jobs of a user of whom something was read, which needs no extraction."""
        if self._client.health()["extraction"].serving:
            with suppress(HithertoCallError):
                self._look_at(user)

    def _look_at(self, user: str) -> None:
        request = pb.ListJobsRequest(user_id=user, states=[job_pb2.JOB_STATE_FAILED], page_size=1)
        for job in self._client.connection.extraction.ListJobs(request).jobs:
            self.hear(job)

    def _tell(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._output.note(f"waiting: {why}")


def tell_if_away(client: Hitherto, output: Output) -> None:
    """Say that the extraction service is awaited, if it does not serve."""
    health = client.health()["extraction"]
    if not health.serving:
        output.note(
            f"waiting: the extraction service at {health.address} does not serve "
            f"({health.status}); start it with `hitherto up`"
        )
