"""Every RPC of the contract has a typed method that fills its request: requirement G3."""

from __future__ import annotations

import hashlib
import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.json_format import MessageToDict

from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    privacy_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
)
from hitherto_client import Hitherto, RetryPolicy
from hitherto_client.calls import changes_nothing
from hitherto_client.results import ContextItem
from tests.unit.client.fake_services import PATIENT_SECONDS, Failure, Fakes, connected

Call = Callable[[Hitherto], Any]

SAID: Any = [{"role": "user", "content": "hi"}]
TRANSCRIPT: Any = {"user_id": "ana", "conversation_id": "c1", "messages": SAID}
SENT = {
    "user_id": "ana",
    "conversation_id": "c1",
    "messages": [{"role": "ROLE_USER", "content": "hi"}],
}
EMPTY_EXPORT = privacy_service_pb2.ExportUserResponse(
    manifest=privacy_pb2.ExportManifest(sha256=hashlib.sha256().hexdigest())
)
JOB = "0198c0de-7a11-7000-8000-000000000001"
"""The first job of the fake service."""

CALLS: dict[str, tuple[Call, dict[str, Any]]] = {
    "MemoryService/SaveMemory": (
        lambda m: m.save_memory("ana", "Sống ở Huế.", tags=["home"], importance=0.0),
        {"user_id": "ana", "content": "Sống ở Huế.", "tags": ["home"], "importance": 0.0},
    ),
    "MemoryService/UpdateMemory": (
        lambda m: m.update_memory("ana", "m1", content="x", clear=["tags"], version=3),
        {
            "user_id": "ana",
            "memory_id": "m1",
            "memory": {"content": "x"},
            "update_mask": "content,tags",
            "version": 3,
        },
    ),
    "MemoryService/ForgetMemory": (
        lambda m: m.forget_memory("ana", "m1", reason="wrong"),
        {"user_id": "ana", "memory_id": "m1", "reason": "wrong"},
    ),
    "MemoryService/RestoreMemory": (
        lambda m: m.restore_memory("ana", "m1", reason="right"),
        {"user_id": "ana", "memory_id": "m1", "reason": "right"},
    ),
    "MemoryService/ReviewMemory": (
        lambda m: m.review_memory("ana", "m1", approve=False),
        {"user_id": "ana", "memory_id": "m1", "decision": "REVIEW_DECISION_REJECT"},
    ),
    "MemoryService/UpdateProfile": (
        lambda m: m.update_profile("ana", summary="A baker."),
        {"user_id": "ana", "profile": {"summary": "A baker."}, "update_mask": "summary"},
    ),
    "MemoryService/RecordFeedback": (
        lambda m: m.record_feedback("ana", "c1", "a1", rating=5),
        {"user_id": "ana", "conversation_id": "c1", "message_id": "a1", "rating": 5},
    ),
    "ExtractionService/SubmitTranscripts": (
        lambda m: m.submit_transcripts([TRANSCRIPT]),
        {"transcripts": [SENT]},
    ),
    "ExtractionService/AppendMessages": (lambda m: m.add("ana", SAID, conversation="c1"), SENT),
    "ExtractionService/EndConversation": (
        lambda m: m.end_conversation("ana", "c1"),
        {"user_id": "ana", "conversation_id": "c1"},
    ),
    "ExtractionService/PreviewExtraction": (
        lambda m: m.preview_extraction(TRANSCRIPT),
        {"transcript": SENT},
    ),
    "ExtractionService/IngestDocuments": (
        lambda m: m.ingest_documents("ana", [{"source_type": "gmail", "source_id": "d1"}]),
        {"user_id": "ana", "documents": [{"source_type": "gmail", "source_id": "d1"}]},
    ),
    "ExtractionService/DeleteDocument": (
        lambda m: m.delete_document("ana", "d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
    "ExtractionService/GetJob": (lambda m: m.get_job(JOB), {"job_id": JOB}),
    "ExtractionService/ListJobs": (
        lambda m: m.jobs("ana", states=["dead"], kinds=["decay"], page_size=7).page("t"),
        {
            "user_id": "ana",
            "states": ["JOB_STATE_DEAD"],
            "kinds": ["decay"],
            "page_size": 7,
            "page_token": "t",
        },
    ),
    "ExtractionService/RetryJob": (lambda m: m.retry_job(JOB), {"job_id": JOB}),
    "ExtractionService/CancelJob": (lambda m: m.cancel_job(JOB), {"job_id": JOB}),
    "PrivacyService/ReinstateUser": (lambda m: m.reinstate_user("ana"), {"user_id": "ana"}),
    "PrivacyService/EraseUser": (lambda m: m.erase_user("ana"), {"user_id": "ana"}),
    "PrivacyService/ClearMemories": (
        lambda m: m.clear_memories("ana", include_profile=True),
        {"user_id": "ana", "include_profile": True},
    ),
    "PrivacyService/DeleteConversation": (
        lambda m: m.delete_conversation("ana", "c1"),
        {"user_id": "ana", "conversation_id": "c1"},
    ),
    "PrivacyService/GetUserSettings": (lambda m: m.get_user_settings("ana"), {"user_id": "ana"}),
    "PrivacyService/UpdateUserSettings": (
        lambda m: m.update_user_settings("ana", retention_days=0, clear=("time_zone",)),
        {
            "user_id": "ana",
            "user_settings": {"retention_days": 0},
            "update_mask": "retentionDays,timeZone",
        },
    ),
    "PrivacyService/ListAuditEvents": (
        lambda m: m.audit_events("ana", actor="key", methods=["decay"], page_size=7).page("t"),
        {"user_id": "ana", "actor": "key", "methods": ["decay"], "page_size": 7, "page_token": "t"},
    ),
    "RetrievalService/GetContext": (
        lambda m: m.get_context("ana", "where", scopes=["documents"], max_relevant=0),
        {
            "user_id": "ana",
            "query": "where",
            "scopes": ["SEARCH_SCOPE_DOCUMENTS"],
            "max_relevant": 0,
        },
    ),
    "RetrievalService/SearchMemories": (
        lambda m: m.search("ana", "tea", weights={"recency": 1.0}, metadata_filter={"a": 1}),
        {
            "user_id": "ana",
            "query": "tea",
            "weights": {"recency": 1.0},
            "metadata_filter": {"a": 1},
        },
    ),
    "RetrievalService/GetMemory": (
        lambda m: m.get_memory("ana", "m1"),
        {"user_id": "ana", "memory_id": "m1"},
    ),
    "RetrievalService/ListMemories": (
        lambda m: m.memories("ana", statuses=["quarantined"], page_size=7).page(),
        {"user_id": "ana", "statuses": ["MEMORY_STATUS_QUARANTINED"], "page_size": 7},
    ),
    "RetrievalService/GetMemoryHistory": (
        lambda m: m.memory_history("ana", "m1", page_size=7).page(),
        {"user_id": "ana", "memory_id": "m1", "page_size": 7},
    ),
    "RetrievalService/GetProfile": (lambda m: m.get_profile("ana"), {"user_id": "ana"}),
    "RetrievalService/ListProfiles": (
        lambda m: m.profiles(department="sales", page_size=3).page(),
        {"department": "sales", "page_size": 3},
    ),
    "RetrievalService/GetProfileHistory": (
        lambda m: m.profile_history("ana", page_size=7).page("t"),
        {"user_id": "ana", "page_size": 7, "page_token": "t"},
    ),
    "RetrievalService/GetConversation": (
        lambda m: m.get_conversation("ana", "c1", message_limit=3),
        {"user_id": "ana", "conversation_id": "c1", "message_limit": 3},
    ),
    "RetrievalService/ListConversations": (
        lambda m: m.conversations("ana", outcomes=["resolved"], page_size=3).page(),
        {"user_id": "ana", "outcomes": ["OUTCOME_RESOLVED"], "page_size": 3},
    ),
    "RetrievalService/GetRecentConversations": (
        lambda m: m.recent_conversations("ana", limit=2, include_messages=True),
        {"user_id": "ana", "limit": 2, "include_messages": True},
    ),
    "RetrievalService/ListDocuments": (
        lambda m: m.documents("ana", source_types=["gmail"], page_size=3).page(),
        {"user_id": "ana", "source_types": ["gmail"], "page_size": 3},
    ),
    "RetrievalService/GetDocument": (
        lambda m: m.get_document("ana", "d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
    "RetrievalService/FindEntities": (
        lambda m: m.find_entities("ana", "Li", type="person", limit=3),
        {"user_id": "ana", "name": "Li", "type": "ENTITY_TYPE_PERSON", "limit": 3},
    ),
    "RetrievalService/GetSuggestions": (
        lambda m: m.get_suggestions("ana", limit=2),
        {"user_id": "ana", "limit": 2},
    ),
    "RetrievalService/GetSession": (
        lambda m: m.get_session("ana", "s1"),
        {"user_id": "ana", "session_id": "s1"},
    ),
    "SessionService/UpdateSession": (
        lambda m: m.update_session(
            "ana",
            "s1",
            context={"last_message": "Chào 🍵", "steps": [1, None]},
            recent_items=[ContextItem(id="m1", relevance=0.5)],
        ),
        {
            "user_id": "ana",
            "session_id": "s1",
            "context": {"last_message": "Chào 🍵", "steps": [1, None]},
            "recent_items": [{"id": "m1", "relevance": 0.5}],
        },
    ),
    "SessionService/AddPendingAction": (
        lambda m: m.add_pending_action("ana", "call", session_id="s1", params={"to": "Linh"}),
        {"user_id": "ana", "session_id": "s1", "type": "call", "params": {"to": "Linh"}},
    ),
    "SessionService/ResolvePendingAction": (
        lambda m: m.resolve_pending_action("ana", "act_1f2e3d4c", "completed", result={}),
        {
            "user_id": "ana",
            "pending_action_id": "act_1f2e3d4c",
            "status": "PENDING_ACTION_STATE_COMPLETED",
            "result": {},
        },
    ),
    "MaintenanceService/Consolidate": (
        lambda m: m.consolidate(tag="home", dry_run=True),
        {"tag": "home", "dry_run": True},
    ),
    "MaintenanceService/UndoConsolidation": (
        lambda m: m.undo_consolidation("ana", "m1"),
        {"user_id": "ana", "memory_id": "m1"},
    ),
    "MaintenanceService/RunDecay": (lambda m: m.run_decay("ana"), {"user_id": "ana"}),
    "MaintenanceService/RunRetention": (lambda m: m.run_retention(dry_run=True), {"dry_run": True}),
    "MaintenanceService/Reembed": (
        lambda m: m.reembed("start", model="large", dimensions=96),
        {"phase": "REEMBED_PHASE_START", "model": "large", "dimensions": 96},
    ),
    "MaintenanceService/ListSchedules": (
        lambda m: m.schedules(page_size=3).page(),
        {"page_size": 3},
    ),
    "MaintenanceService/GetUsage": (
        lambda m: m.get_usage(group_by=["day"], page_size=3, page_token="t"),
        {"group_by": ["USAGE_DIMENSION_DAY"], "page_size": 3, "page_token": "t"},
    ),
    "MaintenanceService/CreateWebhook": (
        lambda m: m.create_webhook("https://a.example/", user="ana", kinds=["forgotten"]),
        {"url": "https://a.example/", "user_id": "ana", "kinds": ["HISTORY_EVENT_KIND_FORGOTTEN"]},
    ),
    "MaintenanceService/ListWebhooks": (
        lambda m: m.webhooks(page_size=7).page("t"),
        {"page_size": 7, "page_token": "t"},
    ),
    "MaintenanceService/DeleteWebhook": (lambda m: m.delete_webhook("w1"), {"webhook_id": "w1"}),
    "MaintenanceService/ListWebhookDeliveries": (
        lambda m: m.webhook_deliveries(webhook_id="w1", state="dead", page_size=7).page("t"),
        {
            "webhook_id": "w1",
            "state": "WEBHOOK_DELIVERY_STATE_DEAD",
            "page_size": 7,
            "page_token": "t",
        },
    ),
    "MaintenanceService/RetryWebhookDelivery": (
        lambda m: m.retry_webhook_delivery(webhook_id="w1"),
        {"webhook_id": "w1"},
    ),
    "MaintenanceService/RollbackSource": (
        lambda m: m.rollback_source("ana", document_id="d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
}

STREAMS: dict[str, Call] = {
    "ExtractionService/StreamTranscripts": lambda m: m.import_transcripts([TRANSCRIPT]),
    "ExtractionService/WatchJob": lambda m: list(m.watch_job(JOB)),
    "MemoryService/StreamMemories": lambda m: m.import_memories(
        [{"user_id": "ana", "content": "x"}]
    ),
    "RetrievalService/WatchMemories": lambda m: next(m.watch_memories("ana")),
    "PrivacyService/ExportUser": lambda m: m.export_user("ana", io.BytesIO()),
    "PrivacyService/ImportUser": lambda m: m.import_user("ana", io.BytesIO(b"{}")),
}


@pytest.fixture
def client(fakes: Fakes) -> Iterator[Hitherto]:
    fakes.extraction.add_job(user_id="ana")
    fakes.others.replies["ExportUser"] = EMPTY_EXPORT
    fakes.others.replies["WatchMemories"] = retrieval_service_pb2.WatchMemoriesResponse(token="t")
    fakes.answer("ListMemories", {"totalSize": 3})
    retry = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.01)
    with Hitherto(api_key="mk_0123456789ab_secret", retry=retry, timeout=PATIENT_SECONDS) as client:
        yield connected(client)


def rpcs_of_the_contract() -> set[str]:
    pool: Any = descriptor_pool.Default()
    files = (
        "extraction_service",
        "maintenance_service",
        "memory_service",
        "privacy_service",
        "retrieval_service",
        "session_service",
    )
    return {
        f"{service.name}/{rpc.name}"
        for file in files
        for service in pool.FindFileByName(f"hitherto/v1/{file}.proto").services_by_name.values()
        for rpc in service.methods
    }


DECLARED: dict[str, Any] = {
    name: inspect.getclosurevars(method).nonlocals["method"]
    for name, method in inspect.getmembers(Hitherto, inspect.isfunction)
    if hasattr(method, "__wrapped__")
}
"""What the methods that have no body were made of."""


@pytest.mark.parametrize("name", DECLARED)
def test_every_parameter_of_a_declaration_is_a_field_of_its_request(name: str) -> None:
    """And what is left out by default means the same as an unset field."""
    method = DECLARED[name]
    fields = dict(method._request.DESCRIPTOR.fields_by_name)
    if method._changed:
        fields = dict(fields[method._changed].message_type.fields_by_name) | fields
    alike = {"user": "user_id", "conversation": "conversation_id", "job": "job_id"}
    for parameter in inspect.signature(getattr(Hitherto, name)).parameters.values():
        if parameter.name in {"self", "timeout", "clear"}:
            continue
        field = fields[alike.get(parameter.name, parameter.name)]
        unset = parameter.default is None or parameter.default is parameter.empty
        # Of a choice, what is empty is not chosen.
        chosen = any(field.name in choice for choice in method._choices)
        assert unset or parameter.default or field.is_repeated or chosen or not field.has_presence
    assert method.answered


def test_every_rpc_has_a_typed_method() -> None:
    """A new RPC of the contract fails here until it has one."""
    assert {*CALLS, *STREAMS} == rpcs_of_the_contract()


@pytest.mark.parametrize("name", CALLS)
def test_g3_the_request_is_what_was_asked_for(client: Hitherto, fakes: Fakes, name: str) -> None:
    """Also after a break: reads and writes with a key are repeated, with the same key."""
    call, expected = CALLS[name]
    method = name.rpartition("/")[2]
    fakes.fail(method, Failure(grpc.StatusCode.UNAVAILABLE))
    call(client)
    first, second = fakes.calls(method)
    assert first.request == second.request
    assert first.metadata["authorization"] == "Bearer mk_0123456789ab_secret"
    sent = MessageToDict(first.request, preserving_proto_field_name=True)
    reads = changes_nothing(f"/hitherto.v1.{name}")
    assert bool(sent.pop("idempotency_key", "")) is not reads
    assert sent == expected


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_called(client: Hitherto, fakes: Fakes, name: str) -> None:
    STREAMS[name](client)
    (asked,) = fakes.calls(name.rpartition("/")[2])
    assert asked.metadata["authorization"] == "Bearer mk_0123456789ab_secret"


def test_a_list_says_how_much_there_is(client: Hitherto, fakes: Fakes) -> None:
    """A page does not move the iteration, which begins with the first item."""
    for _ in range(2):
        fakes.extraction.add_job(user_id="rui")
    jobs = client.jobs()
    totals = [jobs.total_size]
    page = jobs.page()
    totals += [page.total_size, jobs.total_size]
    assert totals == [None, 3, 3]
    assert [job.id for job in page.items] == [job.id for job in jobs]
    assert client.memories("ana").page().total_size == 3
    assert client.schedules().page().total_size is None


def test_matching_jobs_are_all_queued_again(client: Hitherto, fakes: Fakes) -> None:
    """Call after call, and no more than there were: a job may fail again at once."""
    for _ in range(4):
        fakes.extraction.add_job(state=job_pb2.JOB_STATE_DEAD)
    assert client.retry_jobs(states=["dead"], reasons=["MODEL_UNUSABLE"]) == 2
    (asked,) = fakes.calls("RetryJob")
    assert list(asked.request.filter.states) == [job_pb2.JOB_STATE_DEAD]
    assert list(asked.request.filter.reasons) == ["MODEL_UNUSABLE"]
    fakes.extraction.retried = extraction_service_pb2.RetryJobResponse(retried=4, more=True)
    assert client.retry_jobs() == 8
    assert len(fakes.calls("RetryJob")) == 3


def test_a_preview_may_take_as_long_as_a_model(client: Hitherto, fakes: Fakes) -> None:
    client.preview_extraction(TRANSCRIPT)
    seconds = fakes.calls("PreviewExtraction")[0].seconds
    assert seconds is not None
    assert seconds > 60


def test_a_rollback_names_one_source(client: Hitherto, fakes: Fakes) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        client.rollback_source("ana")
    with pytest.raises(ValueError, match="exactly one"):
        client.rollback_source("ana", job="j", document_id="d")
    assert not fakes.calls("RollbackSource")
    client.rollback_source("ana", conversation="", job="j")
    (call,) = fakes.calls("RollbackSource")
    assert call.request.WhichOneof("source") == "job_id"


def test_health_of_both(client: Hitherto, fakes: Fakes) -> None:
    fakes.writes.server.stop(None).wait(10)
    found = client.health()
    assert found["retrieval"].serving
    assert not found["extraction"].serving
    assert found["extraction"].status == "UNAVAILABLE"


def test_health_tells_a_draining_service(client: Hitherto, fakes: Fakes) -> None:
    fakes.reads.health.enter_graceful_shutdown()
    assert client.health()["retrieval"].status == "NOT_SERVING"


def test_health_names_what_a_service_lacks(client: Hitherto, fakes: Fakes) -> None:
    fakes.writes.health.set("language-model", 2)
    for service in (fakes.writes, fakes.reads):
        service.health.set("storage", 2)
    assert client.health()["extraction"].without == ("language-model", "storage")
    assert client.health()["retrieval"].without == ("storage",)
