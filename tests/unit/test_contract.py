"""The public contract keeps its own rules, checked on the descriptors that clients get."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
    MethodDescriptor,
)

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos" / "hitherto" / "v1"
NO_SIDE_EFFECTS = descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS

# The RPCs that were promised, by service and in their order.
SERVICES = {
    "RetrievalService": "GetContext SearchMemories GetMemory ListMemories GetMemoryHistory "
    "GetProfile ListProfiles GetProfileHistory GetConversation ListDocuments GetDocument "
    "ListConversations GetRecentConversations FindEntities GetSuggestions GetSession "
    "WatchMemories",
    "ExtractionService": "SubmitTranscripts StreamTranscripts AppendMessages EndConversation "
    "PreviewExtraction IngestDocuments DeleteDocument GetJob ListJobs WatchJob RetryJob CancelJob",
    "MemoryService": "StreamMemories SaveMemory UpdateMemory ForgetMemory RestoreMemory "
    "ReviewMemory UpdateProfile RecordFeedback",
    "SessionService": "UpdateSession AddPendingAction ResolvePendingAction",
    "MaintenanceService": "Consolidate UndoConsolidation RunDecay RunRetention Reembed "
    "ListSchedules GetUsage RollbackSource CreateWebhook ListWebhooks DeleteWebhook "
    "ListWebhookDeliveries RetryWebhookDelivery",
    "PrivacyService": "ReinstateUser ExportUser ImportUser EraseUser ClearMemories "
    "DeleteConversation GetUserSettings UpdateUserSettings ListAuditEvents",
}

# Field names that clients are written against: added to, never renamed.
FIELDS = {
    "Memory": "id user_id type content detail importance confidence source origin status tags "
    "keywords entities conversation_id source_message_ids sources context metadata superseded_by "
    "supersedes access_count last_accessed_at created_at updated_at valid_from valid_to expires_at "
    "version job_id sensitive",
    "MemorySourceRef": "conversation_id message_id",
    "Message": "id role name content created_at context_item_ids context_items pending_action_ids "
    "metadata",
    "ContextItem": "id relevance",
    "Transcript": "user_id conversation_id messages ended time_zone",
    "Profile": "user_id department summary current_projects preferences frequent_intents "
    "access_level facts metadata version last_extracted_at updated_at",
    "ConversationSummary": "conversation_id user_id title summary key_topics technical_topics "
    "outcome followup_suggestions message_count created_at updated_at",
    "Entity": "id name type aliases mention_count metadata",
    "Preference": "type key value confidence observations updated_at",
    "PendingAction": "id type params description status result created_at expires_at",
    "Document": "source_type source_id content_type title summary content author created_at "
    "metadata",
    "Job": "id kind state user_id conversation_id attempt max_attempts created_at started_at "
    "finished_at error result consistency_token",
    "JobResult": "counts memories_created memories_updated memories_contradicted goals_achieved "
    "profile_version dropped_items usage model extractor prompt_version",
    "Usage": "llm_calls input_tokens output_tokens embedding_calls embedding_tokens cost_usd",
    "SearchResult": "memory message summary document_chunk score breakdown matched_legs",
    "LegReport": "name state duration candidates reason",
    "UserSettings": "memory_enabled learning_enabled retention_days message_retention_days "
    "encrypt_sensitive time_zone redact_secrets",
    "GetContextRequest": "user_id query conversation_id scopes max_memories max_relevant "
    "max_conversations max_entities max_tokens memory_order template custom_template as_of "
    "known_at consistency_token reference_time",
    "GetContextResponse": "profile memories relevant previous_items conversations entities "
    "preferences prompt_block prompt_tokens legs degraded",
    "SearchMemoriesRequest": "user_id query query_embedding limit types tags statuses sources "
    "source_types scopes entity conversation_id confidence_min created_after created_before "
    "min_score metadata_filter ranking weights as_of known_at explain consistency_token "
    "reference_time",
    "SearchMemoriesResponse": "results entities candidates_total legs degraded",
    "GetMemoryRequest": "user_id memory_id",
    "GetMemoryResponse": "memory",
    "ListMemoriesRequest": "user_id order_by page_size page_token",
    "ListMemoriesResponse": "memories next_page_token total_size",
    "GetMemoryHistoryRequest": "user_id memory_id",
    "ListProfilesRequest": "department page_size page_token",
    "GetProfileHistoryRequest": "user_id page_size page_token",
    "GetConversationRequest": "user_id conversation_id message_limit",
    "GetDocumentRequest": "user_id document_id",
    "GetRecentConversationsRequest": "user_id limit include_messages message_limit",
    "FindEntitiesRequest": "user_id name type limit",
    "FindEntitiesResponse": "entities",
    "GetSuggestionsRequest": "user_id limit",
    "GetSuggestionsResponse": "suggestions recent_topics recent_conversations",
    "GetSessionRequest": "user_id session_id",
    "GetSessionResponse": "context preferences recent_items pending_actions",
    "SubmitTranscriptsRequest": "transcripts idempotency_key",
    "SubmitTranscriptsResponse": "jobs consistency_token",
    "AppendMessagesRequest": "user_id conversation_id messages",
    "AppendMessagesResponse": "pending_messages job",
    "EndConversationRequest": "user_id conversation_id",
    "EndConversationResponse": "job",
    "PreviewExtractionRequest": "transcript",
    "IngestDocumentsRequest": "user_id documents",
    "IngestDocumentsResponse": "job",
    "DeleteDocumentRequest": "user_id document_id",
    "GetJobRequest": "job_id",
    "GetJobResponse": "job",
    "WatchJobRequest": "job_id",
    "RetryJobRequest": "job_id",
    "CancelJobRequest": "job_id",
    "SaveMemoryRequest": "user_id content detail type importance confidence tags keywords source "
    "origin conversation_id context metadata valid_from expires_at",
    "SaveMemoryResponse": "memory deduplicated consistency_token",
    "UpdateMemoryRequest": "user_id memory_id memory update_mask version",
    "ForgetMemoryRequest": "user_id memory_id",
    "RestoreMemoryRequest": "user_id memory_id",
    "ReviewMemoryRequest": "user_id memory_id decision",
    "UpdateProfileRequest": "user_id update_mask version",
    "RecordFeedbackRequest": "user_id conversation_id message_id rating edit",
    "ResponseEdit": "original edited",
    "UpdateSessionRequest": "user_id session_id context recent_items",
    "ConsolidateRequest": "user_id tag",
    "ConsolidateResponse": "job",
    "UndoConsolidationRequest": "user_id memory_id",
    "RunDecayRequest": "user_id dry_run",
    "RunDecayResponse": "job counts",
    "RunRetentionResponse": "job counts",
    "ReembedRequest": "model dimensions phase",
    "ClearMemoriesRequest": "user_id include_profile include_conversations",
    "DeleteConversationRequest": "user_id conversation_id",
}

ENUM_VALUES = {
    "MemoryType": "PREFERENCE GOAL FACT DECISION CONTEXT FEEDBACK PERSONAL QUESTION PROBLEM "
    "LEARNING",
    "Confidence": "LOW MEDIUM HIGH",
    "MemorySource": "CONVERSATION EXPLICIT INFERENCE ACTION SYSTEM CONSOLIDATION",
    "Origin": "USER ASSISTANT TOOL DOCUMENT OPERATOR",
    "MemoryStatus": "ACTIVE SUPERSEDED CONTRADICTED ARCHIVED ACHIEVED QUARANTINED FORGOTTEN",
    "Role": "USER ASSISTANT SYSTEM TOOL",
    "Outcome": "RESOLVED ONGOING NEEDS_FOLLOWUP",
    "EntityType": "PERSON PROJECT TOPIC COMPANY PLACE OTHER",
    "PendingActionState": "PENDING_CONFIRMATION CONFIRMED COMPLETED REJECTED EXPIRED",
    "JobState": "QUEUED RUNNING SUCCEEDED FAILED DEAD CANCELLED",
    "SearchScope": "MEMORIES MESSAGES SUMMARIES DOCUMENTS",
    "LegState": "RAN SKIPPED TIMED_OUT FAILED",
    "PromptTemplate": "ABOUT_THE_USER WHAT_YOU_KNOW MARKDOWN RELEVANT_CONTEXT CUSTOM",
    "ReviewDecision": "APPROVE REJECT",
    "ReembedPhase": "START STATUS SWITCH ROLLBACK",
}


def files() -> dict[str, FileDescriptor]:
    """Descriptors of all proto files by name, from the generated modules."""
    return {
        path.stem: importlib.import_module(f"hitherto.v1.{path.stem}_pb2").DESCRIPTOR
        for path in sorted(PROTOS.glob("*.proto"))
    }


FILES = files()
MESSAGES: dict[str, Descriptor] = {
    name: message for file in FILES.values() for name, message in file.message_types_by_name.items()
}
ENUMS: dict[str, EnumDescriptor] = {
    name: enum for file in FILES.values() for name, enum in file.enum_types_by_name.items()
}
METHODS: list[MethodDescriptor] = [
    method
    for file in FILES.values()
    for service in file.services_by_name.values()
    for method in service.methods
]


def changes_nothing(method: MethodDescriptor) -> bool:
    return method.GetOptions().idempotency_level == NO_SIDE_EFFECTS


def field_at(message: Descriptor, path: str) -> FieldDescriptor:
    """The field at a dotted path; KeyError if there is none."""
    head, _, rest = path.partition(".")
    field = message.fields_by_name[head]
    if not rest:
        return field
    if field.message_type is None:
        raise KeyError(path)
    return field_at(field.message_type, rest)


def test_services_offer_exactly_the_rpcs_of_the_contract() -> None:
    offered = {
        service.name: " ".join(method.name for method in service.methods)
        for file in FILES.values()
        for service in file.services_by_name.values()
    }
    assert offered == SERVICES


def test_fields_and_enum_values_of_the_contract_exist() -> None:
    for name, fields in FIELDS.items():
        assert set(fields.split()) <= set(MESSAGES[name].fields_by_name), name
    for name, values in ENUM_VALUES.items():
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
        expected = [f"{prefix}_{value}" for value in ("UNSPECIFIED", *values.split())]
        assert [value.name for value in ENUMS[name].values] == expected


def test_enums_are_top_level() -> None:
    assert [name for name, message in MESSAGES.items() if message.enum_types] == []


def test_the_user_is_the_first_field() -> None:
    for method in METHODS:
        own = method.input_type.fields_by_name.get("user_id")
        assert own is None or own.number == 1, method.full_name


def test_a_write_takes_an_idempotency_key_and_returns_a_consistency_token() -> None:
    for method in METHODS:
        if changes_nothing(method):
            assert "idempotency_key" not in method.input_type.fields_by_name, method.full_name
            token = field_at(method.input_type, "consistency_token")
        else:
            # A stream of memories carries the key in each item.
            path = "item.idempotency_key" if method.name == "StreamMemories" else "idempotency_key"
            key = field_at(method.input_type, path)
            assert key.type == FieldDescriptor.TYPE_STRING, method.full_name
            token = field_at(method.output_type, "consistency_token")
        assert token.type == FieldDescriptor.TYPE_STRING, method.full_name


def test_a_list_has_pages() -> None:
    for method in METHODS:
        paged = "next_page_token" in method.output_type.fields_by_name
        assert paged or not method.name.startswith("List"), method.full_name
        asks = {"page_size", "page_token"} & set(method.input_type.fields_by_name)
        assert asks == ({"page_size", "page_token"} if paged else set()), method.full_name
        if paged:
            assert method.input_type.fields_by_name["page_size"].type == FieldDescriptor.TYPE_INT32
            assert method.output_type.fields_by_number[1].is_repeated, method.full_name


def test_a_field_whose_zero_means_something_can_be_unset() -> None:
    for path in [
        "SaveMemoryRequest.importance",
        "Memory.importance",
        "SearchMemoriesRequest.min_score",
        "RecordFeedbackRequest.rating",
        *(
            f"GetContextRequest.{name}"
            for name in MESSAGES["GetContextRequest"].fields_by_name
            if name.startswith("max_")
        ),
        *(
            f"UserSettings.{name}"
            for name in MESSAGES["UserSettings"].fields_by_name
            if name != "erased"
        ),
    ]:
        message, _, field = path.partition(".")
        assert MESSAGES[message].fields_by_name[field].has_presence, path


def test_protos_import_nothing_that_a_client_would_have_to_find() -> None:
    imports = {name.name for file in FILES.values() for name in file.dependencies}
    assert {name.rpartition("/")[0] for name in imports} == {"google/protobuf", "hitherto/v1"}
