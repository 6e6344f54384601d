"""The calls of the command line and the demo, which print replies as the services send them.

Applications use `Hitherto`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import conversation_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval_pb2
from hitherto_client._sync.watch import watch_job
from hitherto_client.calls import Endpoint, RetryPolicy
from hitherto_client.errors import read_error
from hitherto_client.methods.audit import AuditLog
from hitherto_client.methods.conversations import Conversations
from hitherto_client.methods.curation import Curation
from hitherto_client.methods.documents import Documents
from hitherto_client.methods.history import Histories
from hitherto_client.methods.leaving import Leaving
from hitherto_client.methods.sessions import Sessions
from hitherto_client.methods.upkeep import Upkeep
from hitherto_client.methods.user_control import UserControl
from hitherto_client.results.upkeep import Health
from hitherto_client.target import find_target

_NEEDED = {"extraction": ("language-model", "embedder")}
"""What a service tells the health of beside its own."""


class HithertoClient(
    AuditLog,
    Conversations,
    Curation,
    Documents,
    Histories,
    Leaving,
    Sessions,
    Upkeep,
    UserControl,
):
    """Sends requests and returns replies of the contract; thread-safe.

    Arguments, environment, deadlines, retries and errors are those of `Hitherto`. The methods are
    the stubs of the connection with fewer words; their `options` are the further fields of the
    request.
    """

    def __init__(
        self,
        retrieval: str | None = None,
        extraction: str | None = None,
        *,
        api_key: str | None = None,
        token: str | Callable[[], str] | None = None,
        tls_ca_file: str | os.PathLike[str] | None = None,
        tls_certificate_file: str | os.PathLike[str] | None = None,
        tls_key_file: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Prepare the channels; they connect with the first call.

        Args:
            retrieval: `host:port` of the retrieval service.
            extraction: `host:port` of the extraction service.
            api_key: The key that `hitherto keys create` printed.
            token: A JWT if the services accept tokens, or a function that returns one. It is called
                for every call, from any thread, so it can return a new one before the old one ends.
            tls_ca_file: PEM file with the authority that signed the services' certificates.
            tls_certificate_file: PEM file with a client certificate, if the services ask
                callers for one.
            tls_key_file: PEM file with its private key.
            timeout: Seconds for every call, retries included. Unset: 10 for reads, 30 for writes.
            retry: When failed calls are retried.

        Raises:
            ValueError: The key, the token or a file for TLS is unusable, or there are both key and
                token.
        """
        super().__init__(
            find_target(
                retrieval,
                extraction,
                api_key=api_key,
                token=token,
                tls_ca_file=tls_ca_file,
                tls_certificate_file=tls_certificate_file,
                tls_key_file=tls_key_file,
                timeout=timeout,
                retry=retry,
            )
        )

    @property
    def has_credential(self) -> bool:
        """Whether calls carry a credential."""
        return self.target.credential is not None

    def submit_transcripts(
        self,
        transcripts: Iterable[conversation_pb2.Transcript],
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> extraction_pb2.SubmitTranscriptsResponse:
        """Submit 1 to 100 transcripts; the reply names one job for each, in order."""
        request = extraction_pb2.SubmitTranscriptsRequest(
            transcripts=transcripts, idempotency_key=idempotency_key
        )
        return self.extraction.SubmitTranscripts(request, timeout=timeout)

    def append_messages(
        self,
        user_id: str,
        conversation_id: str,
        messages: Iterable[conversation_pb2.Message],
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> extraction_pb2.AppendMessagesResponse:
        """Add messages to a running chat."""
        request = extraction_pb2.AppendMessagesRequest(
            user_id=user_id,
            conversation_id=conversation_id,
            messages=messages,
            idempotency_key=idempotency_key,
        )
        return self.extraction.AppendMessages(request, timeout=timeout)

    def get_job(self, job_id: str, *, timeout: float | None = None) -> job_pb2.Job:
        """The job in its current state."""
        request = extraction_pb2.GetJobRequest(job_id=job_id)
        return self.extraction.GetJob(request, timeout=timeout).job

    def list_jobs(
        self, *, timeout: float | None = None, **options: Any
    ) -> extraction_pb2.ListJobsResponse:
        """One page of jobs, newest first; `options` are fields of ListJobsRequest."""
        return self.extraction.ListJobs(extraction_pb2.ListJobsRequest(**options), timeout=timeout)

    def watch_job(self, job_id: str, *, timeout: float | None = None) -> Iterator[job_pb2.Job]:
        """The job now and after every change, the final one last.

        An interrupted stream is reopened, for example after a restart of the service.

        Args:
            job_id: The job.
            timeout: Seconds until it must be final. Unset: no limit.

        Raises:
            HithertoCallError: The job is unknown, the service stays unreachable, or time is up.
        """
        return watch_job(
            self.extraction.WatchJob, self._writes_at(), self._retry, job_id, timeout=timeout
        )

    def retry_job(self, job_id: str, *, timeout: float | None = None) -> job_pb2.Job:
        """Queue a DEAD or CANCELLED job again."""
        request = extraction_pb2.RetryJobRequest(job_id=job_id)
        return self.extraction.RetryJob(request, timeout=timeout).job

    def retry_jobs(
        self, *, timeout: float | None = None, **options: Any
    ) -> extraction_pb2.RetryJobResponse:
        """Queue up to 1,000 matching jobs again; the reply has their number and `more`.

        `options` are fields of RetryFilter: `states`, `reasons`, `user_id`, `kinds`,
        `created_after`, `created_before`.
        """
        request = extraction_pb2.RetryJobRequest(filter=extraction_pb2.RetryFilter(**options))
        return self.extraction.RetryJob(request, timeout=timeout)

    def cancel_job(self, job_id: str, *, timeout: float | None = None) -> job_pb2.Job:
        """Cancel a job that is not final."""
        request = extraction_pb2.CancelJobRequest(job_id=job_id)
        return self.extraction.CancelJob(request, timeout=timeout).job

    def get_context(
        self, user_id: str, query: str = "", *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.GetContextResponse:
        """What an assistant should know before it answers `query`.

        `options` are fields of GetContextRequest: `scopes`, `max_relevant`, `conversation_id`,
        `as_of` and so on. Times may be given as datetime (a naive one is UTC).
        """
        request = retrieval_pb2.GetContextRequest(user_id=user_id, query=query, **options)
        return self.retrieval.GetContext(request, timeout=timeout)

    def search_memories(
        self, user_id: str, query: str = "", *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.SearchMemoriesResponse:
        """The results for `query`, best first; without a query, the most important memories.

        `options` are fields of SearchMemoriesRequest: `scopes`, `ranking`, `weights` and
        `metadata_filter` as dicts, `explain`, `excerpt_messages`, `as_of` and so on. Times may be
        given as datetime (a naive one is UTC).
        """
        request = retrieval_pb2.SearchMemoriesRequest(user_id=user_id, query=query, **options)
        return self.retrieval.SearchMemories(request, timeout=timeout)

    def get_memory(
        self,
        user_id: str,
        memory_id: str,
        *,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> retrieval_pb2.GetMemoryResponse:
        """One memory, whatever its status."""
        request = retrieval_pb2.GetMemoryRequest(
            user_id=user_id, memory_id=memory_id, consistency_token=consistency_token
        )
        return self.retrieval.GetMemory(request, timeout=timeout)

    def list_memories(
        self, user_id: str, *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.ListMemoriesResponse:
        """One page of a user's memories; `options` are fields of ListMemoriesRequest."""
        request = retrieval_pb2.ListMemoriesRequest(user_id=user_id, **options)
        return self.retrieval.ListMemories(request, timeout=timeout)

    def get_profile(
        self, user_id: str, *, consistency_token: str = "", timeout: float | None = None
    ) -> retrieval_pb2.GetProfileResponse:
        """The user's profile."""
        request = retrieval_pb2.GetProfileRequest(
            user_id=user_id, consistency_token=consistency_token
        )
        return self.retrieval.GetProfile(request, timeout=timeout)

    def list_profiles(
        self, *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.ListProfilesResponse:
        """One page of the profiles that the credential may see; `options` as in the request."""
        request = retrieval_pb2.ListProfilesRequest(**options)
        return self.retrieval.ListProfiles(request, timeout=timeout)

    def list_conversations(
        self, user_id: str, *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.ListConversationsResponse:
        """One page of summaries; `options` are fields of ListConversationsRequest."""
        request = retrieval_pb2.ListConversationsRequest(user_id=user_id, **options)
        return self.retrieval.ListConversations(request, timeout=timeout)

    def health(self, *, timeout: float | None = None) -> Mapping[str, Health]:
        """The answer of each service to the standard health check; an outage is an answer too."""
        seconds = timeout if timeout is not None else (self.target.timeout or 5.0)
        endpoints = (self.target.retrieval, self.target.extraction)
        # Straight on the channel: a check that is repeated would hide what it is to show.
        return {at.service: _check(self.channels[at.service], at, seconds) for at in endpoints}


def _check(channel: grpc.Channel, at: Endpoint, seconds: float) -> Health:
    stub = health_pb2_grpc.HealthStub(channel)
    started = time.monotonic()
    status = _status(stub, "", seconds)
    took = time.monotonic() - started
    serving = status == "SERVING"
    needed = _NEEDED.get(at.service, ()) if serving else ()
    without = tuple(name for name in needed if _status(stub, name, seconds) == "NOT_SERVING")
    return Health(at.service, at.address, serving, status, took, without)


def _status(stub: Any, name: str, seconds: float) -> str:
    try:
        reply = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=seconds)
    except grpc.RpcError as error:
        return read_error(error).code.name
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))
