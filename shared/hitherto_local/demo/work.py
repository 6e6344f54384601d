"""Handing conversations over and waiting until they are learnt from, with a progress bar."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from hitherto.v1 import conversation_pb2
from hitherto.v1.extraction_service_pb2 import SubmitTranscriptsRequest
from hitherto_client import Hitherto
from hitherto_client.batches import batches
from hitherto_client.results import Job
from hitherto_client.transcripts import FileTranscript

_JOB_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class DemoRun:
    """Keeps this run's people apart from those of earlier runs in the same database.

    A service that is never told to forget keeps what it was told, and a message that it knows it
    does not read again. So each run brings people of its own, called like those of the file with
    the run's mark behind the name.
    """

    mark: str = field(default_factory=lambda: secrets.token_hex(3))

    def user(self, name: str) -> str:
        """The id under which a person of the file is known in this run."""
        return f"{name}~{self.mark}"

    def own(self, item: FileTranscript) -> FileTranscript:
        """A transcript of the file as one of this run's."""
        transcript = conversation_pb2.Transcript()
        transcript.CopyFrom(item.transcript)
        transcript.user_id = self.user(transcript.user_id)
        return FileTranscript(transcript, item.source, item.line)


@dataclass(frozen=True, slots=True)
class ProcessedTranscript:
    """One transcript and the job that read it, at its end."""

    transcript: conversation_pb2.Transcript
    job: Job

    @property
    def seconds(self) -> float:
        """How long its last attempt took, without the wait for its turn."""
        began, ended = self.job.started_at, self.job.finished_at
        return (ended - began).total_seconds() if began and ended else 0.0


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """What was handed over and what came of it."""

    learnt: Sequence[ProcessedTranscript]
    accept_seconds: Sequence[float]
    """For each request, how long it took until everything in it was stored."""
    seconds: float
    """From the first request until the last job had ended."""

    @property
    def messages(self) -> int:
        """How many messages all transcripts have together."""
        return sum(len(item.transcript.messages) for item in self.learnt)

    @property
    def cost(self) -> float:
        """US dollars by the price table."""
        return sum(item.job.result.usage.cost_usd for item in self.learnt)


def learn(
    client: Hitherto, transcripts: Sequence[FileTranscript], console: Console
) -> SubmissionResult:
    """Submit the transcripts and wait for their jobs."""
    began = time.monotonic()
    accept: list[float] = []
    learnt: list[ProcessedTranscript] = []
    waiting: list[tuple[conversation_pb2.Transcript, str]] = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        # A bar that is drawn over and over would fill a pipe.
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        bar = progress.add_task("submitting", total=len(transcripts))
        for batch in batches(transcripts):
            asked = time.monotonic()
            request = SubmitTranscriptsRequest(transcripts=[item.transcript for item in batch])
            reply = client.connection.extraction.SubmitTranscripts(request)
            accept.append(time.monotonic() - asked)
            waiting += [
                (item.transcript, job.id) for item, job in zip(batch, reply.jobs, strict=True)
            ]
            progress.advance(bar, len(batch))
        progress.reset(bar, description="learning", total=len(waiting))
        for transcript, job_id in waiting:
            job = client.wait_for_job(job_id, timeout=_JOB_SECONDS)
            learnt.append(ProcessedTranscript(transcript, job))
            progress.advance(bar)
    return SubmissionResult(learnt, accept, time.monotonic() - began)
