"""Handlers that echo, for testing a client without the services behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from hitherto.v1 import (
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    job_pb2,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from hitherto_shared.rpc.call import Context


class Echo(
    extraction_service_pb2_grpc.ExtractionServiceServicer,
    retrieval_service_pb2_grpc.RetrievalServiceServicer,
):
    """Keeps what it receives; a watched job is queued, running and, if `final`, succeeded."""

    def __init__(self, *, final: bool) -> None:
        self.address = ""
        self.submitted: list[extraction_service_pb2.SubmitTranscriptsRequest] = []
        self.context_requests: list[retrieval_service_pb2.GetContextRequest] = []
        self._final = final

    async def SubmitTranscripts(
        self, request: extraction_service_pb2.SubmitTranscriptsRequest, context: Context
    ) -> extraction_service_pb2.SubmitTranscriptsResponse:
        self.submitted.append(request)
        return extraction_service_pb2.SubmitTranscriptsResponse(jobs=[job_pb2.Job(id="job-1")])

    async def WatchJob(
        self, request: extraction_service_pb2.WatchJobRequest, context: Context
    ) -> AsyncIterator[extraction_service_pb2.WatchJobResponse]:
        states = [job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING]
        if self._final:
            states.append(job_pb2.JOB_STATE_SUCCEEDED)
        for state in states:
            job = job_pb2.Job(id=request.job_id, state=state, consistency_token="after-the-job")
            yield extraction_service_pb2.WatchJobResponse(job=job)

    async def GetContext(
        self, request: retrieval_service_pb2.GetContextRequest, context: Context
    ) -> retrieval_service_pb2.GetContextResponse:
        self.context_requests.append(request)
        return retrieval_service_pb2.GetContextResponse(
            prompt_block=f"{request.user_id}: {request.query}"
        )


@asynccontextmanager
async def running(*, final: bool = True) -> AsyncIterator[Echo]:
    """The handlers on a free port of 127.0.0.1."""
    echo = Echo(final=final)  # type: ignore[abstract]
    server = grpc.aio.server()
    extraction_service_pb2_grpc.add_ExtractionServiceServicer_to_server(echo, server)
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(echo, server)
    echo.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield echo
    finally:
        await server.stop(None)
