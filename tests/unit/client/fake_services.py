"""Servicers that answer what a test tells them to and write down what they were asked."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
from google.protobuf import any_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc, job_pb2
from hitherto_client import Hitherto

PATIENT_SECONDS = 120.0
"""The deadline of what is not tested for its time."""


@dataclass(frozen=True)
class Failure:
    """How a call is to fail: a code, and the details that the real services would send."""

    code: grpc.StatusCode
    reason: str = ""
    message: str = "it did not work"
    metadata: Mapping[str, str] | None = None
    violations: tuple[tuple[str, str], ...] = ()
    retry_after: float | None = None

    def abort(self, context: Any) -> None:
        details: list[Message] = []
        if self.reason:
            details.append(
                error_details_pb2.ErrorInfo(
                    reason=self.reason, domain="hitherto", metadata=dict(self.metadata or {})
                )
            )
        if self.violations:
            bad = error_details_pb2.BadRequest()
            for field, description in self.violations:
                bad.field_violations.add(field=field, description=description)
            details.append(bad)
        if self.retry_after is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(round(self.retry_after * 1000))
            details.append(retry)
        if not details:
            context.abort(self.code, self.message)
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        context.abort_with_status(rpc_status.to_status(status))


@dataclass(frozen=True)
class Asked:
    """One call as it arrived."""

    request: Any
    metadata: Mapping[str, str]
    seconds: float | None


class Recorder:
    """What was asked, and how the next calls of each method are to fail."""

    def __init__(self) -> None:
        self.calls: defaultdict[str, list[Asked]] = defaultdict(list)
        self.failures: defaultdict[str, deque[Failure]] = defaultdict(deque)
        self._lock = threading.Lock()

    def fail(self, method: str, *failures: Failure) -> None:
        self.failures[method].extend(failures)

    def take(self, method: str, request: Any, context: Any) -> None:
        """Write the call down and fail if that is planned."""
        metadata = dict(context.invocation_metadata())
        with self._lock:
            self.calls[method].append(Asked(request, metadata, context.time_remaining()))
            failure = self.failures[method].popleft() if self.failures[method] else None
        if failure is not None:
            failure.abort(context)


class FakeExtraction(extraction_service_pb2_grpc.ExtractionServiceServicer):
    """Makes one job per transcript, which WatchJob then brings to its end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.jobs: dict[str, job_pb2.Job] = {}
        self.outcomes: dict[str, job_pb2.JobState.ValueType] = {}
        """By conversation: the state in which its job ends; SUCCEEDED unless named."""
        self.retried = extraction_service_pb2.RetryJobResponse(retried=2)
        """The answer to a retry of many jobs."""
        self.release = threading.Event()
        """Running jobs end once this is set."""
        self.release.set()
        self.running = threading.Event()
        """Set when a watcher was told that a job runs."""
        self._lock = threading.Lock()

    def add_job(self, **fields: Any) -> job_pb2.Job:
        with self._lock:
            number = len(self.jobs) + 1
            job = job_pb2.Job(
                id=f"0198c0de-7a11-7000-8000-{number:012d}",
                **{"kind": "memory-extraction", "state": job_pb2.JOB_STATE_QUEUED, **fields},
            )
            self.jobs[job.id] = job
        return job

    def SubmitTranscripts(self, request: Any, context: Any) -> Any:
        self._recorder.take("SubmitTranscripts", request, context)
        jobs = []
        for transcript in request.transcripts:
            total = len(transcript.messages)
            jobs.append(
                self.add_job(
                    user_id=transcript.user_id,
                    conversation_id=transcript.conversation_id,
                    progress=job_pb2.JobProgress(messages_total=total),
                )
            )
        return extraction_service_pb2.SubmitTranscriptsResponse(jobs=jobs, consistency_token="t-1")

    def GetJob(self, request: Any, context: Any) -> Any:
        self._recorder.take("GetJob", request, context)
        return extraction_service_pb2.GetJobResponse(job=self._find(request.job_id, context))

    def ListJobs(self, request: Any, context: Any) -> Any:
        self._recorder.take("ListJobs", request, context)
        jobs = list(self.jobs.values())
        return extraction_service_pb2.ListJobsResponse(jobs=jobs, total_size=len(jobs))

    def RetryJob(self, request: Any, context: Any) -> Any:
        self._recorder.take("RetryJob", request, context)
        if request.HasField("filter"):
            return self.retried
        return extraction_service_pb2.RetryJobResponse(job=self._find(request.job_id, context))

    def CancelJob(self, request: Any, context: Any) -> Any:
        self._recorder.take("CancelJob", request, context)
        return extraction_service_pb2.CancelJobResponse(job=self._find(request.job_id, context))

    def WatchJob(
        self, request: Any, context: Any
    ) -> Iterator[extraction_service_pb2.WatchJobResponse]:
        self._recorder.take("WatchJob", request, context)
        job = self._find(request.job_id, context)
        job.state = job_pb2.JOB_STATE_RUNNING
        job.progress.messages_done = job.progress.messages_total // 2
        yield extraction_service_pb2.WatchJobResponse(job=job)
        self.running.set()
        while not self.release.wait(0.05):
            if not context.is_active():
                return
        # A failure planned under this name breaks the stream in its middle.
        if self._recorder.failures["WatchJob later"]:
            self._recorder.failures["WatchJob later"].popleft().abort(context)
        job.state = self.outcomes.get(job.conversation_id, job_pb2.JOB_STATE_SUCCEEDED)
        job.progress.messages_done = job.progress.messages_total
        if job.state == job_pb2.JOB_STATE_SUCCEEDED:
            job.consistency_token = "t-2"
            job.result.memories_created = 2
            job.result.usage.input_tokens = 100
            job.result.usage.cost_usd = 0.0125
        else:
            job.error = "MODEL_UNUSABLE: the model answered nothing usable"
        yield extraction_service_pb2.WatchJobResponse(job=job)

    def _find(self, job_id: str, context: Any) -> job_pb2.Job:
        if job_id not in self.jobs:
            Failure(
                grpc.StatusCode.NOT_FOUND,
                "JOB_NOT_FOUND",
                "there is no such job",
                {"job_id": job_id},
            ).abort(context)
        return self.jobs[job_id]


class Others(grpc.GenericRpcHandler):
    """Every RPC of the contract that the fakes above leave out: answers with what a test set.

    A method without a reply answers with an empty one. Client streams are read to their end, and
    what they held is recorded as a list.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.replies: dict[str, Any] = {}
        """By method: the reply, its fields, or what makes it from the request."""

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method.lstrip("/")
        if not path.startswith("hitherto."):
            return None
        found: Any = descriptor_pool.Default().FindMethodByName(path.replace("/", "."))
        request, reply = (
            message_factory.GetMessageClass(kind) for kind in (found.input_type, found.output_type)
        )
        handler = (
            grpc.stream_unary_rpc_method_handler
            if found.client_streaming
            else grpc.unary_stream_rpc_method_handler
            if found.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return handler(self._answering(found), request.FromString, reply.SerializeToString)

    def complete(self, servicer: Any, service: str) -> None:
        """Give a fake the methods that it lacks; its generated base would refuse them."""
        methods: Any = descriptor_pool.Default().FindServiceByName(f"hitherto.v1.{service}")
        for found in methods.methods:
            if found.name not in vars(type(servicer)):
                setattr(servicer, found.name, self._answering(found))

    def _answering(self, found: Any) -> Callable[[Any, Any], Any]:
        reply = message_factory.GetMessageClass(found.output_type)

        def answer(given: Any, context: Any) -> Any:
            given = list(given) if found.client_streaming else given
            self._recorder.take(found.name, given, context)
            made = self.replies.get(found.name, {})
            made = made(given) if callable(made) else made
            return json_format.ParseDict(made, reply()) if isinstance(made, dict) else made

        def stream(given: Any, context: Any) -> Any:
            yield answer(given, context)

        return stream if found.server_streaming else answer


@dataclass(frozen=True)
class Running:
    """A server on a free port with the standard health service."""

    server: grpc.Server
    address: str
    health: Any


def start() -> Running:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=24))
    # The type stubs leave the servicer's methods untyped.
    status: Any = health.HealthServicer
    status = status()
    status.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    port = server.add_insecure_port("127.0.0.1:0")
    return Running(server, f"127.0.0.1:{port}", status)


def connected(client: Hitherto) -> Hitherto:
    """The client once its channels stand: connecting must not use up attempts or deadlines."""
    for channel in client.connection.channels.values():
        grpc.channel_ready_future(channel).result(PATIENT_SECONDS)
    return client


class Printed(NamedTuple):
    """What was printed since somebody looked last."""

    out: str
    err: str


RunCommand = Callable[[int, Sequence[str]], Printed]


@dataclass(frozen=True)
class Fakes:
    """Both fake services and where they are; `run` runs `hitherto` as `run_command` does."""

    extraction: FakeExtraction
    recorder: Recorder
    reads: Running
    writes: Running
    others: Others
    run: RunCommand

    def calls(self, method: str) -> list[Asked]:
        return self.recorder.calls[method]

    def fail(self, method: str, *failures: Failure) -> None:
        self.recorder.fail(method, *failures)

    def answer(self, method: str, reply: Any) -> None:
        """What a method answers from now on: a message, or its fields as JSON."""
        self.others.replies[method] = reply

    def pages(self, method: str, *replies: Mapping[str, Any]) -> None:
        """The pages of a list; their tokens are their numbers."""

        def page(request: Any) -> dict[str, Any]:
            number = int(request.page_token or 0)
            more = str(number + 1) if number + 1 < len(replies) else ""
            return {**replies[number], "nextPageToken": more}

        self.answer(method, page)
