"""A valid request for every offered RPC, to be spoiled one field at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from hitherto.v1 import (
    conversation_pb2,
    session_pb2,
)
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from tests.e2e.methods import Method

NOBODY = "01890000-0000-7000-8000-000000000000"
"""An id that nothing has."""


def message(content: str = "Hello", **fields: object) -> conversation_pb2.Message:
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
    return extraction.SubmitTranscriptsRequest(transcripts=transcripts)


_TEA: dict[str, Any] = {"user_id": "ana", "content": "Likes tea."}
_OF_ANA: dict[str, dict[str, Any]] = {
    "RetrievalService/GetContext": {},
    "RetrievalService/SearchMemories": {},
    "RetrievalService/GetMemory": {"memory_id": NOBODY},
    "RetrievalService/ListMemories": {},
    "RetrievalService/GetMemoryHistory": {"memory_id": NOBODY},
    "RetrievalService/GetProfileHistory": {},
    "RetrievalService/GetConversation": {"conversation_id": "c1"},
    "RetrievalService/GetRecentConversations": {},
    "RetrievalService/FindEntities": {},
    "RetrievalService/GetSuggestions": {},
    "RetrievalService/GetProfile": {},
    "RetrievalService/ListConversations": {},
    "RetrievalService/WatchMemories": {},
    "RetrievalService/GetSession": {"session_id": "c1"},
    "RetrievalService/ListDocuments": {},
    "RetrievalService/GetDocument": {"document_id": NOBODY},
    "SessionService/UpdateSession": {
        "session_id": "c1",
        "recent_items": [{"id": "m1", "relevance": 0.5}],
    },
    "SessionService/AddPendingAction": {"session_id": "c1", "type": "send_email"},
    "SessionService/ResolvePendingAction": {
        "pending_action_id": "act_00000000",
        "status": session_pb2.PENDING_ACTION_STATE_CONFIRMED,
    },
    "MemoryService/SaveMemory": _TEA,
    "MemoryService/UpdateMemory": {
        "memory_id": NOBODY,
        "memory": {"content": "Likes tea."},
        "update_mask": {"paths": ["content"]},
    },
    "MemoryService/ForgetMemory": {"memory_id": NOBODY},
    "MemoryService/RestoreMemory": {"memory_id": NOBODY},
    "MemoryService/ReviewMemory": {
        "memory_id": NOBODY,
        "decision": memory.REVIEW_DECISION_APPROVE,
    },
    "MemoryService/UpdateProfile": {
        "profile": {"summary": "A person."},
        "update_mask": {"paths": ["summary"]},
    },
    "MemoryService/RecordFeedback": {"conversation_id": "c1", "message_id": "m1", "rating": 5},
    "PrivacyService/DeleteConversation": {"conversation_id": "c1"},
    "PrivacyService/ClearMemories": {},
    "PrivacyService/ExportUser": {},
    # What is never imported, so that it is valid whatever is known of the user.
    "PrivacyService/ImportUser": {"data": b'{"table": "jobs", "row": {}}\n'},
    "PrivacyService/EraseUser": {},
    "PrivacyService/ReinstateUser": {},
    "PrivacyService/GetUserSettings": {},
    "PrivacyService/UpdateUserSettings": {"user_settings": {"learning_enabled": True}},
    "MaintenanceService/RollbackSource": {"conversation_id": "c1"},
    "MaintenanceService/UndoConsolidation": {"memory_id": NOBODY},
    "ExtractionService/IngestDocuments": {
        "documents": [{"source_type": "gdrive", "source_id": "d1", "title": "A title"}]
    },
    "ExtractionService/DeleteDocument": {"document_id": NOBODY},
    "ExtractionService/AppendMessages": {"conversation_id": "c1", "messages": [message()]},
    "ExtractionService/EndConversation": {"conversation_id": "c1"},
}
_OF_NOBODY: dict[str, dict[str, Any]] = {
    "RetrievalService/ListProfiles": {},
    "MemoryService/StreamMemories": {"item": _TEA},
    "PrivacyService/ListAuditEvents": {},
    "ExtractionService/SubmitTranscripts": {"transcripts": [transcript()]},
    "ExtractionService/StreamTranscripts": {"transcript": transcript()},
    "ExtractionService/PreviewExtraction": {"transcript": transcript()},
    "ExtractionService/ListJobs": {},
    **{
        f"ExtractionService/{name}Job": {"job_id": NOBODY}
        for name in ("Get", "Watch", "Retry", "Cancel")
    },
    "MaintenanceService/Consolidate": {},
    "MaintenanceService/RunDecay": {},
    "MaintenanceService/RunRetention": {},
    "MaintenanceService/Reembed": {"phase": maintenance.REEMBED_PHASE_STATUS},
    "MaintenanceService/ListSchedules": {},
    "MaintenanceService/GetUsage": {},
    "MaintenanceService/CreateWebhook": {"url": "https://receiver.invalid/changes"},
    "MaintenanceService/ListWebhooks": {},
    "MaintenanceService/DeleteWebhook": {"webhook_id": NOBODY},
    "MaintenanceService/ListWebhookDeliveries": {},
    "MaintenanceService/RetryWebhookDelivery": {"delivery_id": NOBODY},
}


def valid(method: Method) -> Message:
    """A request that `method` accepts, though it may find nothing; new RPCs must be listed here."""
    of_ana = {name: {"user_id": "ana", **fields} for name, fields in _OF_ANA.items()}
    return method.request(**{**of_ana, **_OF_NOBODY}[method.name])


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
