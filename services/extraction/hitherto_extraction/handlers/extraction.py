"""ExtractionService: transcripts in, jobs out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from hitherto.v1 import entity_pb2, extraction_service_pb2_grpc, job_pb2, memory_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering, checks_of
from hitherto_extraction.handlers.documents import DocumentIngestionCalls
from hitherto_extraction.handlers.importing import MAX_IDS, take_all
from hitherto_extraction.handlers.incoming import (
    read_messages,
    read_one_transcript,
    read_transcripts,
)
from hitherto_extraction.handlers.retrying import check_kind, retry_matching
from hitherto_extraction.intake import Intake
from hitherto_extraction.job_calls import Accepted, cancel_job
from hitherto_extraction.pipeline.preview import SECONDS as PREVIEW_SECONDS
from hitherto_extraction.pipeline.preview import ExtractionPreview, PreviewResult
from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import JobFilter, JobSignals
from hitherto_extraction.storage import users
from hitherto_shared.auth.departments import departments_of
from hitherto_shared.auth.principal import Principal
from hitherto_shared.consistency import current_position
from hitherto_shared.convert import (
    JOB_STATE,
    entity_message,
    job_message,
    memory_message,
    profile_message,
    result_message,
    summary_message,
)
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import Unavailable
from hitherto_shared.models import Entity, Job, Memory, Scope
from hitherto_shared.offloading import in_thread, in_thread_if_long
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

KINDS = (
    "memory-extraction",
    "document-ingestion",
    "consolidation",
    "reconciliation",
    "decay",
    "retention",
    "reembedding",
)
_PAGE_SIZE = 50

_WORK_OF_A_MESSAGE = 256
"""The minimum work of checking a message, in bytes read."""


@dataclass(eq=False)
class ExtractionHandlers(
    DocumentIngestionCalls, extraction_service_pb2_grpc.ExtractionServiceServicer
):
    """Implements ExtractionService."""

    answering: Answering
    intake: Intake
    signals: JobSignals
    preview: ExtractionPreview
    queue: JobQueue
    memory_enabled: bool

    async def SubmitTranscripts(
        self, request: pb.SubmitTranscriptsRequest, context: Context
    ) -> pb.SubmitTranscriptsResponse:
        """Accept a batch durably; one job per transcript, in order."""
        checks = Checks()
        sent, request = request, await self.answering.screened(request, context)
        # Checking a full batch takes seconds, which would block the event loop.
        messages = sum(len(transcript.messages) for transcript in request.transcripts)
        transcripts = await in_thread_if_long(
            request.ByteSize() + _WORK_OF_A_MESSAGE * messages,
            read_transcripts,
            checks,
            request.transcripts,
            sent.transcripts,
        )
        accepted = await self.intake.submit(
            current_call().principal.tenant_id,
            transcripts,
            self.answering.identity(checks, sent),
            timeout=seconds_left(context),
        )
        self.signals.wake()
        return pb.SubmitTranscriptsResponse(
            jobs=[job_message(job) for job in accepted.jobs],
            consistency_token=self._token(accepted),
        )

    async def StreamTranscripts(
        self, request_iterator: AsyncIterator[pb.StreamTranscriptsRequest], context: Context
    ) -> pb.StreamTranscriptsResponse:
        """Accept any number of transcripts, independently."""
        reply = pb.StreamTranscriptsResponse()

        async def accept(sent: pb.StreamTranscriptsRequest) -> None:
            checks = Checks()
            request = await self.answering.screened(sent, context)
            transcript = await in_thread(read_one_transcript, checks, request, sent)
            accepted = await self.intake.submit(
                current_call().principal.tenant_id,
                [transcript],
                self.answering.identity(checks, sent),
                timeout=seconds_left(context),
            )
            self.signals.wake()
            reply.consistency_token = self._token(accepted)
            reply.known_count += accepted.known
            if len(reply.job_ids) < MAX_IDS:
                reply.job_ids.extend(str(job.job_id) for job in accepted.jobs)

        taken = await take_all(aiter(request_iterator), accept)
        reply.accepted_count, reply.rejected_count = taken.accepted, taken.rejected
        reply.errors.extend(taken.errors)
        return reply

    async def PreviewExtraction(
        self, request: pb.PreviewExtractionRequest, context: Context
    ) -> pb.PreviewExtractionResponse:
        """Show what a transcript would teach."""
        checks = Checks()
        request = await self.answering.screened(request, context)
        transcript = await in_thread(read_one_transcript, checks, request, request)
        self.answering.admit_read(checks, request)
        lesson = await self.preview.show(
            current_call().principal.scope(transcript.user_id),
            transcript,
            seconds=seconds_left(context, PREVIEW_SECONDS),
        )
        return lesson_message(lesson)

    async def AppendMessages(
        self, request: pb.AppendMessagesRequest, context: Context
    ) -> pb.AppendMessagesResponse:
        """Accept messages of an ongoing conversation."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        conversation_id = checks.identifier("conversation_id", request.conversation_id)
        messages = await in_thread(
            read_messages, checks, "messages", request.messages, conversation_id, sent.messages
        )
        call = self.answering.admit(checks, user_id, sent)
        accepted = await self.intake.append(
            call.scope,
            conversation_id,
            messages,
            call.identity,
            timeout=seconds_left(context),
        )
        self.signals.wake()
        return pb.AppendMessagesResponse(
            pending_messages=accepted.pending_messages,
            job=job_message(accepted.jobs[0]) if accepted.jobs else None,
            consistency_token=self._token(accepted),
            message_ids=[message.message_id for message in messages],
        )

    async def EndConversation(
        self, request: pb.EndConversationRequest, context: Context
    ) -> pb.EndConversationResponse:
        """Extract the rest of a conversation now."""
        checks, user_id = checks_of(request)
        conversation_id = checks.identifier("conversation_id", request.conversation_id)
        call = self.answering.admit(checks, user_id, request)
        accepted = await self.intake.end(
            call.scope, conversation_id, call.identity, timeout=seconds_left(context)
        )
        self.signals.wake()
        return pb.EndConversationResponse(
            job=job_message(accepted.jobs[0]) if accepted.jobs else None,
            consistency_token=self._token(accepted),
        )

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        """The present state of one job."""
        checks = Checks()
        job_id = checks.uuid("job_id", request.job_id)
        self.answering.admit_read(checks, request)
        principal = current_call().principal

        async def work(connection: Connection) -> pb.GetJobResponse:
            job = await _visible_job(connection, principal, job_id)
            return pb.GetJobResponse(job=await self._job_message(connection, job))

        return await self.answering.read(work, context)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        """Jobs, newest first."""
        checks = Checks()
        principal = current_call().principal
        wanted = JobFilter(
            user_id=checks.identifier("user_id", request.user_id, required=False)
            or principal.user_id,
            conversation_id=checks.identifier(
                "conversation_id", request.conversation_id, required=False
            )
            or None,
            states=checks.all_of("states", request.states, JOB_STATE) or None,
            kinds=checks.all_known("kinds", request.kinds, KINDS) or None,
        )
        page = self.answering.pages.open(checks, principal.tenant_id, request, default=_PAGE_SIZE)
        self.answering.admit_read(checks, request)

        async def work(connection: Connection) -> pb.ListJobsResponse:
            found, next_before = await jobs.list_jobs(
                connection, principal.tenant_id, wanted, before=page.after, limit=page.size
            )
            total = await jobs.count_jobs(connection, principal.tenant_id, wanted)
            await _await_nodes(connection, found)
            position = await current_position(connection)
            token = self.answering.token(position)
            return pb.ListJobsResponse(
                jobs=[job_message(job, token if job.final else "") for job in found],
                next_page_token=page.seal(next_before),
                total_size=total,
            )

        return await self.answering.read(work, context)

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobResponse]:
        """The state of a job each time it changes, until it has ended."""
        checks = Checks()
        job_id = checks.uuid("job_id", request.job_id)
        self.answering.admit_read(checks, request)
        principal = current_call().principal

        async def look(connection: Connection) -> tuple[Job, pb.WatchJobResponse]:
            job = await _visible_job(connection, principal, job_id)
            return job, pb.WatchJobResponse(job=await self._job_message(connection, job))

        last: Job | None = None
        with self.signals.watching(str(job_id)) as news:
            while True:
                job, response = await self.answering.database.run(
                    look, timeout=seconds_left(context), repeatable=True
                )
                if job != last:
                    yield response
                    last = job
                if job.final:
                    return
                if self.signals.ending:
                    raise Unavailable(
                        "the service is shutting down; watch the job at another instance",
                        reason="SHUTTING_DOWN",
                        retry_after=1.0,
                    )
                await news.change()

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        """Queue a DEAD, CANCELLED or waiting job again, or all that match a filter."""
        if request.HasField("filter"):
            response = await retry_matching(self.answering, self.intake, KINDS, request, context)
            self.signals.wake()
            return response
        job, token = await self._change(request, context, self.intake.retry)
        return pb.RetryJobResponse(job=job_message(job), consistency_token=token, retried=1)

    async def CancelJob(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """Cancel a job that has not ended."""
        job, token = await self._change(request, context, cancel_job)
        return pb.CancelJobResponse(job=job_message(job, token), consistency_token=token)

    async def _change(
        self,
        request: pb.RetryJobRequest | pb.CancelJobRequest,
        context: Context,
        change: Callable[..., Awaitable[Job]],
    ) -> tuple[Job, str]:
        checks = Checks()
        job_id = checks.uuid("job_id", request.job_id)
        identity = self.answering.identity(checks, request)
        principal = current_call().principal
        if not principal.unbound or "maintenance" not in principal.scopes:
            # Before the idempotency key, too: a replayed reply was made for its first caller.
            job = await self.answering.read(
                lambda connection: _visible_job(connection, principal, job_id), context
            )
            check_kind(job.kind)

        async def work(connection: Connection) -> list[Job]:
            return [
                await change(connection, principal.tenant_id, job_id, only_user=principal.user_id)
            ]

        accepted = await self.intake.once(
            principal.tenant_id, identity, [], work, timeout=seconds_left(context)
        )
        if not accepted.jobs:
            raise jobs.job_not_found(str(job_id))
        self.signals.wake()
        return accepted.jobs[0], self._token(accepted)

    async def _job_message(self, connection: Connection, job: Job) -> job_pb2.Job:
        if not job.final:
            return job_message(job)
        await _await_nodes(connection, [job])
        position = await current_position(connection)
        return job_message(job, self.answering.token(position))

    def _token(self, accepted: Accepted) -> str:
        return self.answering.token(accepted.position)


async def _await_nodes(connection: Connection, found: Iterable[Job]) -> None:
    """Let reads see what the jobs that have ended did."""
    ended = [
        (Scope(job.tenant_id, job.user_id), job.finished_at)
        for job in found
        if job.user_id and job.finished_at
    ]
    await users.await_nodes(connection, ended)


async def _visible_job(connection: Connection, principal: Principal, job_id: UUID) -> Job:
    """The job; not found, too, if it is about a user whom the caller may not access."""
    job = await jobs.get_job(connection, principal.tenant_id, job_id, only_user=principal.user_id)
    # A user without a department is accessible only by own credential or by a list of users.
    if principal.unbound or (job.user_id is not None and principal.reaches(job.user_id, "")):
        return job
    found = await departments_of(connection, principal.tenant_id, [job.user_id or ""])
    if job.user_id is None or not principal.reaches(job.user_id, found.get(job.user_id, "")):
        raise jobs.job_not_found(str(job_id))
    return job


def lesson_message(lesson: PreviewResult) -> pb.PreviewExtractionResponse:
    """The reply of PreviewExtraction."""
    unstored = {str(memory.memory_id) for memory in lesson.created}
    return pb.PreviewExtractionResponse(
        memories_created=_memories(lesson.created, unstored),
        memories_updated=_memories(lesson.updated, unstored),
        memories_contradicted=_memories(lesson.contradicted, unstored),
        goals_achieved=_memories(lesson.achieved, unstored),
        profile=profile_message(lesson.profile) if lesson.profile else None,
        summary=summary_message(lesson.summary) if lesson.summary else None,
        entities=[_entity(entity, new=new) for entity, new in lesson.entities],
        result=result_message(lesson.result.stored()),
    )


def _memories(memories: Iterable[Memory], unstored: Collection[str]) -> list[memory_pb2.Memory]:
    found = []
    for memory in memories:
        message = memory_message(memory)
        message.job_id = ""
        if message.id in unstored:
            message.id = ""
        if message.superseded_by in unstored:
            message.superseded_by = ""
        kept = [other for other in message.supersedes if other not in unstored]
        del message.supersedes[:]
        message.supersedes.extend(kept)
        found.append(message)
    return found


def _entity(entity: Entity, *, new: bool) -> entity_pb2.Entity:
    message = entity_message(entity)
    if new:
        message.id = ""
    return message
