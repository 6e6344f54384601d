"""Who may make which call, written by hand: a rule that changes in the protos changes here too."""

from __future__ import annotations

import contextlib

import pytest

from hitherto_shared.auth.access import AccessRule, rules_of
from hitherto_shared.auth.principal import DEFAULT_TENANT, Principal
from hitherto_shared.errors import NotPermitted
from tests.e2e.methods import SERVICES

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
SCOPES = ("read", "write", "maintenance", "admin")


def test_every_call_has_the_rule_that_is_written_here() -> None:
    declared = rules_of(SERVICES)
    assert {path.removeprefix("/hitherto.v1."): rule for path, rule in declared.items()} == TABLE


@pytest.mark.parametrize("scope", SCOPES)
def test_no_scope_includes_another(scope: str) -> None:
    """A service's credential with one scope makes the calls of this scope and no other."""
    caller = Principal(DEFAULT_TENANT, "key", frozenset({scope}))
    let_in = set()
    for name, rule in TABLE.items():
        with contextlib.suppress(NotPermitted):
            rule.check(caller, name)
            let_in.add(name)
    assert let_in == {name for name, rule in TABLE.items() if rule.scope == scope}
