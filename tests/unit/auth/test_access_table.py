"""Who may make which call, written by hand: a rule that changes in the protos changes here too."""

from __future__ import annotations

import contextlib

from hitherto.v1 import (
    access_pb2,
    extraction_service_pb2,
    maintenance_service_pb2,
    memory_service_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
    session_service_pb2,
)
from hitherto_shared.auth.access import AccessRule, rules_of
from hitherto_shared.auth.principal import CAPABILITIES, DEFAULT_TENANT, SCOPES, Principal
from hitherto_shared.errors import NotPermitted

OF_A_USER = ("user_id",)
TABLE = {
    "RetrievalService/GetContext": AccessRule("read", OF_A_USER),
    "RetrievalService/SearchMemories": AccessRule("read", OF_A_USER),
    "RetrievalService/GetMemory": AccessRule("read", OF_A_USER),
    "RetrievalService/ListMemories": AccessRule("read", OF_A_USER),
    "RetrievalService/GetMemoryHistory": AccessRule("read", OF_A_USER),
    "RetrievalService/GetProfile": AccessRule("read", OF_A_USER, department_members=True),
    "RetrievalService/ListProfiles": AccessRule("read", (), department_path=("department",)),
    "RetrievalService/GetProfileHistory": AccessRule("read", OF_A_USER, department_members=True),
    "RetrievalService/GetConversation": AccessRule("read", OF_A_USER),
    "RetrievalService/ListDocuments": AccessRule("read", OF_A_USER),
    "RetrievalService/GetDocument": AccessRule("read", OF_A_USER),
    "RetrievalService/ListConversations": AccessRule("read", OF_A_USER),
    "RetrievalService/GetRecentConversations": AccessRule("read", OF_A_USER),
    "RetrievalService/FindEntities": AccessRule("read", OF_A_USER),
    "RetrievalService/GetSuggestions": AccessRule("read", OF_A_USER),
    "RetrievalService/GetSession": AccessRule("read", OF_A_USER),
    "RetrievalService/WatchMemories": AccessRule("read", OF_A_USER, user_optional=True),
    "ExtractionService/SubmitTranscripts": AccessRule("write", ("transcripts", "user_id")),
    "ExtractionService/StreamTranscripts": AccessRule("write", ("transcript", "user_id")),
    "ExtractionService/AppendMessages": AccessRule("write", OF_A_USER),
    "ExtractionService/EndConversation": AccessRule("write", OF_A_USER),
    "ExtractionService/PreviewExtraction": AccessRule("write", ("transcript", "user_id")),
    "ExtractionService/IngestDocuments": AccessRule("write", OF_A_USER),
    "ExtractionService/DeleteDocument": AccessRule("write", OF_A_USER),
    "ExtractionService/GetJob": AccessRule("read", ()),
    "ExtractionService/ListJobs": AccessRule("read", OF_A_USER, user_optional=True),
    "ExtractionService/WatchJob": AccessRule("read", ()),
    "ExtractionService/RetryJob": AccessRule("write", ()),
    "ExtractionService/CancelJob": AccessRule("write", ()),
    "MemoryService/StreamMemories": AccessRule("write", ("item", "user_id")),
    "MemoryService/SaveMemory": AccessRule("write", OF_A_USER),
    "MemoryService/UpdateMemory": AccessRule("write", OF_A_USER),
    "MemoryService/ForgetMemory": AccessRule("write", OF_A_USER),
    "MemoryService/RestoreMemory": AccessRule("write", OF_A_USER),
    "MemoryService/ReviewMemory": AccessRule("write", OF_A_USER),
    "MemoryService/UpdateProfile": AccessRule(
        "write", OF_A_USER, capability="profiles.manage", department_members=True
    ),
    "MemoryService/RecordFeedback": AccessRule("write", OF_A_USER),
    "SessionService/UpdateSession": AccessRule("write", OF_A_USER),
    "SessionService/AddPendingAction": AccessRule("write", OF_A_USER),
    "SessionService/ResolvePendingAction": AccessRule("write", OF_A_USER),
    "MaintenanceService/Consolidate": AccessRule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/UndoConsolidation": AccessRule("maintenance", OF_A_USER),
    "MaintenanceService/RunDecay": AccessRule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/RunRetention": AccessRule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/Reembed": AccessRule("maintenance", (), installation=True),
    "MaintenanceService/ListSchedules": AccessRule("maintenance", ()),
    "MaintenanceService/GetUsage": AccessRule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/RollbackSource": AccessRule("maintenance", OF_A_USER),
    "MaintenanceService/CreateWebhook": AccessRule("admin", OF_A_USER, user_optional=True),
    "MaintenanceService/ListWebhooks": AccessRule("admin", ()),
    "MaintenanceService/DeleteWebhook": AccessRule("admin", ()),
    "MaintenanceService/ListWebhookDeliveries": AccessRule("admin", ()),
    "MaintenanceService/RetryWebhookDelivery": AccessRule("admin", ()),
    "PrivacyService/ReinstateUser": AccessRule("admin", OF_A_USER),
    "PrivacyService/ExportUser": AccessRule("read", OF_A_USER),
    "PrivacyService/ImportUser": AccessRule("write", OF_A_USER),
    "PrivacyService/EraseUser": AccessRule("admin", OF_A_USER, own_scope="write"),
    "PrivacyService/ClearMemories": AccessRule("write", OF_A_USER),
    "PrivacyService/DeleteConversation": AccessRule("write", OF_A_USER),
    "PrivacyService/GetUserSettings": AccessRule("read", OF_A_USER),
    "PrivacyService/UpdateUserSettings": AccessRule("write", OF_A_USER),
    "PrivacyService/ListAuditEvents": AccessRule("admin", OF_A_USER, user_optional=True),
}
DECLARING = (
    extraction_service_pb2,
    maintenance_service_pb2,
    memory_service_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
    session_service_pb2,
)


def test_every_call_has_the_rule_that_is_written_here() -> None:
    services = [each for of in DECLARING for each in of.DESCRIPTOR.services_by_name.values()]
    declared = rules_of(services)
    assert {path.removeprefix("/hitherto.v1."): rule for path, rule in declared.items()} == TABLE


def test_every_need_is_one_that_is_known_and_enforced() -> None:
    """A scope or capability that nobody can hold would close its call for good."""
    assert {rule.scope for rule in TABLE.values()} <= SCOPES
    assert {rule.capability for rule in TABLE.values()} - {""} == CAPABILITIES
    # Filling in the caller's own user knows fields of the request itself only.
    assert all(len(rule.user_path) == 1 for rule in TABLE.values() if rule.user_optional)
    declarable = {
        name.replace("_field", "_path") for name in access_pb2.AccessRule.DESCRIPTOR.fields_by_name
    }
    assert declarable == set(AccessRule.__annotations__)


def test_no_scope_includes_another() -> None:
    """A service's credential with one scope makes the calls of this scope and no other."""
    for scope in sorted(SCOPES):
        caller = Principal(DEFAULT_TENANT, "key", frozenset({scope}))
        let_in = set()
        for name, rule in TABLE.items():
            with contextlib.suppress(NotPermitted):
                rule.check(caller, name)
                let_in.add(name)
        assert let_in == {name for name, rule in TABLE.items() if rule.scope == scope}, scope
