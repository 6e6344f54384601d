"""A valid request for every offered RPC, to be spoiled one field at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    memory_pb2,
    privacy_pb2,
    profile_pb2,
    session_pb2,
)
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto.v1 import session_service_pb2 as session
from tests.e2e.masks import masked
from tests.e2e.methods import Method

NOBODY = "01890000-0000-7000-8000-000000000000"
"""An id that nothing has."""


def message(content: str = "Hello", **fields: object) -> conversation_pb2.Message:
    """A message by the user."""
    return conversation_pb2.Message(
        role=conversation_pb2.ROLE_USER,
        content=content,
        **fields,  # type: ignore[arg-type]
    )


def transcript(
    *messages: conversation_pb2.Message, user: str = "ana", conversation: str = "c1"
) -> conversation_pb2.Transcript:
    """A transcript of these messages, or of one."""
    return conversation_pb2.Transcript(
        user_id=user, conversation_id=conversation, messages=messages or [message()]
    )


def submit(*transcripts: conversation_pb2.Transcript) -> extraction.SubmitTranscriptsRequest:
    """A batch."""
    return extraction.SubmitTranscriptsRequest(transcripts=transcripts)


_VALID: dict[str, Callable[[], Message]] = {
    "RetrievalService/GetContext": lambda: retrieval.GetContextRequest(user_id="ana"),
    "RetrievalService/SearchMemories": lambda: retrieval.SearchMemoriesRequest(user_id="ana"),
    "RetrievalService/GetMemory": lambda: retrieval.GetMemoryRequest(
        user_id="ana", memory_id=NOBODY
    ),
    "RetrievalService/ListMemories": lambda: retrieval.ListMemoriesRequest(user_id="ana"),
    "RetrievalService/GetMemoryHistory": lambda: retrieval.GetMemoryHistoryRequest(
        user_id="ana", memory_id=NOBODY
    ),
    "RetrievalService/GetProfileHistory": lambda: retrieval.GetProfileHistoryRequest(user_id="ana"),
    "RetrievalService/ListProfiles": retrieval.ListProfilesRequest,
    "RetrievalService/GetConversation": lambda: retrieval.GetConversationRequest(
        user_id="ana", conversation_id="c1"
    ),
    "RetrievalService/GetRecentConversations": lambda: retrieval.GetRecentConversationsRequest(
        user_id="ana"
    ),
    "RetrievalService/FindEntities": lambda: retrieval.FindEntitiesRequest(user_id="ana"),
    "RetrievalService/GetSuggestions": lambda: retrieval.GetSuggestionsRequest(user_id="ana"),
    "RetrievalService/GetProfile": lambda: retrieval.GetProfileRequest(user_id="ana"),
    "RetrievalService/ListConversations": lambda: retrieval.ListConversationsRequest(user_id="ana"),
    "RetrievalService/WatchMemories": lambda: retrieval.WatchMemoriesRequest(user_id="ana"),
    "RetrievalService/GetSession": lambda: retrieval.GetSessionRequest(
        user_id="ana", session_id="c1"
    ),
    "SessionService/UpdateSession": lambda: session.UpdateSessionRequest(
        user_id="ana",
        session_id="c1",
        recent_items=[conversation_pb2.ContextItem(id="m1", relevance=0.5)],
    ),
    "SessionService/AddPendingAction": lambda: session.AddPendingActionRequest(
        user_id="ana", session_id="c1", type="send_email"
    ),
    "SessionService/ResolvePendingAction": lambda: session.ResolvePendingActionRequest(
        user_id="ana",
        pending_action_id="act_00000000",
        status=session_pb2.PENDING_ACTION_STATE_CONFIRMED,
    ),
    "MemoryService/SaveMemory": lambda: memory.SaveMemoryRequest(
        user_id="ana", content="Likes tea."
    ),
    "MemoryService/StreamMemories": lambda: memory.StreamMemoriesRequest(
        item=memory.SaveMemoryRequest(user_id="ana", content="Likes tea.")
    ),
    "MemoryService/UpdateMemory": lambda: masked(
        memory.UpdateMemoryRequest(
            user_id="ana", memory_id=NOBODY, memory=memory_pb2.Memory(content="Likes tea.")
        )
    ),
    "MemoryService/ForgetMemory": lambda: memory.ForgetMemoryRequest(
        user_id="ana", memory_id=NOBODY
    ),
    "MemoryService/RestoreMemory": lambda: memory.RestoreMemoryRequest(
        user_id="ana", memory_id=NOBODY
    ),
    "MemoryService/ReviewMemory": lambda: memory.ReviewMemoryRequest(
        user_id="ana", memory_id=NOBODY, decision=memory.REVIEW_DECISION_APPROVE
    ),
    "MemoryService/UpdateProfile": lambda: masked(
        memory.UpdateProfileRequest(user_id="ana", profile=profile_pb2.Profile(summary="A person."))
    ),
    "MemoryService/RecordFeedback": lambda: memory.RecordFeedbackRequest(
        user_id="ana", conversation_id="c1", message_id="m1", rating=5
    ),
    "PrivacyService/DeleteConversation": lambda: privacy.DeleteConversationRequest(
        user_id="ana", conversation_id="c1"
    ),
    "PrivacyService/ClearMemories": lambda: privacy.ClearMemoriesRequest(user_id="ana"),
    "PrivacyService/ExportUser": lambda: privacy.ExportUserRequest(user_id="ana"),
    # What is never imported, so that it is valid whatever is known of the user.
    "PrivacyService/ImportUser": lambda: privacy.ImportUserRequest(
        user_id="ana", data=b'{"table": "jobs", "row": {}}\n'
    ),
    "PrivacyService/EraseUser": lambda: privacy.EraseUserRequest(user_id="ana"),
    "PrivacyService/ReinstateUser": lambda: privacy.ReinstateUserRequest(user_id="ana"),
    "PrivacyService/ListAuditEvents": privacy.ListAuditEventsRequest,
    "PrivacyService/GetUserSettings": lambda: privacy.GetUserSettingsRequest(user_id="ana"),
    "PrivacyService/UpdateUserSettings": lambda: privacy.UpdateUserSettingsRequest(
        user_id="ana", user_settings=privacy_pb2.UserSettings(learning_enabled=True)
    ),
    "MaintenanceService/RollbackSource": lambda: maintenance.RollbackSourceRequest(
        user_id="ana", conversation_id="c1"
    ),
    "MaintenanceService/Reembed": lambda: maintenance.ReembedRequest(
        phase=maintenance.REEMBED_PHASE_STATUS
    ),
    "RetrievalService/ListDocuments": lambda: retrieval.ListDocumentsRequest(user_id="ana"),
    "RetrievalService/GetDocument": lambda: retrieval.GetDocumentRequest(
        user_id="ana", document_id=NOBODY
    ),
    "ExtractionService/IngestDocuments": lambda: extraction.IngestDocumentsRequest(
        user_id="ana",
        documents=[document_pb2.Document(source_type="gdrive", source_id="d1", title="A title")],
    ),
    "ExtractionService/DeleteDocument": lambda: extraction.DeleteDocumentRequest(
        user_id="ana", document_id=NOBODY
    ),
    "ExtractionService/SubmitTranscripts": lambda: submit(transcript()),
    "ExtractionService/StreamTranscripts": lambda: extraction.StreamTranscriptsRequest(
        transcript=transcript()
    ),
    "ExtractionService/PreviewExtraction": lambda: extraction.PreviewExtractionRequest(
        transcript=transcript()
    ),
    "ExtractionService/AppendMessages": lambda: extraction.AppendMessagesRequest(
        user_id="ana", conversation_id="c1", messages=[message()]
    ),
    "ExtractionService/EndConversation": lambda: extraction.EndConversationRequest(
        user_id="ana", conversation_id="c1"
    ),
    "ExtractionService/GetJob": lambda: extraction.GetJobRequest(job_id=NOBODY),
    "ExtractionService/ListJobs": extraction.ListJobsRequest,
    "ExtractionService/WatchJob": lambda: extraction.WatchJobRequest(job_id=NOBODY),
    "ExtractionService/RetryJob": lambda: extraction.RetryJobRequest(job_id=NOBODY),
    "ExtractionService/CancelJob": lambda: extraction.CancelJobRequest(job_id=NOBODY),
    "MaintenanceService/Consolidate": maintenance.ConsolidateRequest,
    "MaintenanceService/UndoConsolidation": lambda: maintenance.UndoConsolidationRequest(
        user_id="ana", memory_id=NOBODY
    ),
    "MaintenanceService/RunDecay": maintenance.RunDecayRequest,
    "MaintenanceService/RunRetention": maintenance.RunRetentionRequest,
    "MaintenanceService/ListSchedules": maintenance.ListSchedulesRequest,
    "MaintenanceService/GetUsage": maintenance.GetUsageRequest,
    "MaintenanceService/CreateWebhook": lambda: maintenance.CreateWebhookRequest(
        url="https://receiver.invalid/changes"
    ),
    "MaintenanceService/ListWebhooks": maintenance.ListWebhooksRequest,
    "MaintenanceService/DeleteWebhook": lambda: maintenance.DeleteWebhookRequest(webhook_id=NOBODY),
    "MaintenanceService/ListWebhookDeliveries": maintenance.ListWebhookDeliveriesRequest,
    "MaintenanceService/RetryWebhookDelivery": lambda: maintenance.RetryWebhookDeliveryRequest(
        delivery_id=NOBODY
    ),
}


def valid(method: Method) -> Message:
    """A request that `method` accepts, though it may find nothing; new RPCs must be listed here."""
    return _VALID[method.name]()


Set = Callable[[Message, object], None]
Kind = Callable[[Any], bool]
_ENTERED = ("Transcript", "SaveMemoryRequest")


def places(method: Method, kind: Kind) -> Iterator[tuple[str, Set]]:
    """Every field of a valid request that `kind` accepts: its path as told to callers, and a way
    to set it (a repeated one gets one element). Lists of messages, transcripts and statements in
    the request are entered."""
    yield from _places(valid(method), kind, "", lambda request: request)


def _places(
    here: Message,
    kind: Kind,
    path: str,
    reach: Callable[[Message], Message],
) -> Iterator[tuple[str, Set]]:
    for field in here.DESCRIPTOR.fields:
        name = f"{path}{field.name}"
        if kind(field):
            yield (f"{name}[0]" if field.is_repeated else name), _setter(field, reach)
        inner = field.message_type
        if inner is None or inner.file.package != "hitherto.v1" or inner.GetOptions().map_entry:
            continue
        if field.is_repeated and len(getattr(here, field.name)):
            yield from _places(
                getattr(here, field.name)[0],
                kind,
                f"{name}[0].",
                lambda request, of=field.name: getattr(reach(request), of)[0],  # type: ignore[misc]
            )
        elif inner.name in _ENTERED and here.HasField(field.name):
            yield from _places(
                getattr(here, field.name),
                kind,
                f"{name}.",
                lambda request, of=field.name: getattr(reach(request), of),  # type: ignore[misc]
            )


def _setter(field: Any, reach: Callable[[Message], Message]) -> Set:
    def put(request: Message, value: object) -> None:
        owner = reach(request)
        if field.is_repeated:
            getattr(owner, field.name).append(value)
        elif isinstance(value, Message):
            getattr(owner, field.name).CopyFrom(value)
        else:
            setattr(owner, field.name, value)

    return put
