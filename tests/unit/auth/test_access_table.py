"""Who may make which call, written by hand: a rule that changes in the protos changes here too."""

from __future__ import annotations

import contextlib

import pytest

from hitherto_shared.auth.access import Rule, rules_of
from hitherto_shared.auth.principal import DEFAULT_TENANT, Principal
from hitherto_shared.errors import NotPermitted
from tests.e2e.methods import SERVICES

OF_A_USER = ("user_id",)
TABLE = {
    "RetrievalService/GetContext": Rule("read", OF_A_USER),
    "RetrievalService/SearchMemories": Rule("read", OF_A_USER),
    "RetrievalService/GetMemory": Rule("read", OF_A_USER),
    "RetrievalService/ListMemories": Rule("read", OF_A_USER),
    "RetrievalService/GetMemoryHistory": Rule("read", OF_A_USER),
    "RetrievalService/GetProfile": Rule("read", OF_A_USER, department_members=True),
    "RetrievalService/ListProfiles": Rule("read", (), department_path=("department",)),
    "RetrievalService/GetProfileHistory": Rule("read", OF_A_USER, department_members=True),
    "RetrievalService/GetConversation": Rule("read", OF_A_USER),
    "RetrievalService/ListDocuments": Rule("read", OF_A_USER),
    "RetrievalService/GetDocument": Rule("read", OF_A_USER),
    "RetrievalService/ListConversations": Rule("read", OF_A_USER),
    "RetrievalService/GetRecentConversations": Rule("read", OF_A_USER),
    "RetrievalService/FindEntities": Rule("read", OF_A_USER),
    "RetrievalService/GetSuggestions": Rule("read", OF_A_USER),
    "RetrievalService/GetSession": Rule("read", OF_A_USER),
    "ExtractionService/SubmitTranscripts": Rule("write", ("transcripts", "user_id")),
    "ExtractionService/StreamTranscripts": Rule("write", ("transcript", "user_id")),
    "ExtractionService/AppendMessages": Rule("write", OF_A_USER),
    "ExtractionService/EndConversation": Rule("write", OF_A_USER),
    "ExtractionService/PreviewExtraction": Rule("write", ("transcript", "user_id")),
    "ExtractionService/IngestDocuments": Rule("write", OF_A_USER),
    "ExtractionService/DeleteDocument": Rule("write", OF_A_USER),
    "ExtractionService/GetJob": Rule("read", ()),
    "ExtractionService/ListJobs": Rule("read", OF_A_USER, user_optional=True),
    "ExtractionService/WatchJob": Rule("read", ()),
    "ExtractionService/RetryJob": Rule("write", ()),
    "ExtractionService/CancelJob": Rule("write", ()),
    "MemoryService/StreamMemories": Rule("write", ("item", "user_id")),
    "MemoryService/SaveMemory": Rule("write", OF_A_USER),
    "MemoryService/UpdateMemory": Rule("write", OF_A_USER),
    "MemoryService/ForgetMemory": Rule("write", OF_A_USER),
    "MemoryService/RestoreMemory": Rule("write", OF_A_USER),
    "MemoryService/ReviewMemory": Rule("write", OF_A_USER),
    "MemoryService/UpdateProfile": Rule(
        "write", OF_A_USER, capability="profiles.manage", department_members=True
    ),
    "MemoryService/RecordFeedback": Rule("write", OF_A_USER),
    "SessionService/UpdateSession": Rule("write", OF_A_USER),
    "SessionService/AddPendingAction": Rule("write", OF_A_USER),
    "SessionService/ResolvePendingAction": Rule("write", OF_A_USER),
    "MaintenanceService/Consolidate": Rule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/UndoConsolidation": Rule("maintenance", OF_A_USER),
    "MaintenanceService/RunDecay": Rule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/RunRetention": Rule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/Reembed": Rule("maintenance", (), installation=True),
    "MaintenanceService/ListSchedules": Rule("maintenance", ()),
    "MaintenanceService/GetUsage": Rule("maintenance", OF_A_USER, user_optional=True),
    "MaintenanceService/RollbackSource": Rule("maintenance", OF_A_USER),
    "PrivacyService/ReinstateUser": Rule("admin", OF_A_USER),
    "PrivacyService/ExportUser": Rule("read", OF_A_USER),
    "PrivacyService/EraseUser": Rule("admin", OF_A_USER, own_scope="write"),
    "PrivacyService/ClearMemories": Rule("write", OF_A_USER),
    "PrivacyService/DeleteConversation": Rule("write", OF_A_USER),
    "PrivacyService/GetUserSettings": Rule("read", OF_A_USER),
    "PrivacyService/UpdateUserSettings": Rule("write", OF_A_USER),
    "PrivacyService/ListAuditEvents": Rule("admin", OF_A_USER, user_optional=True),
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
