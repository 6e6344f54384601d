"""Every call of the contract has a method of the client that fills its request: requirement G3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.json_format import MessageToDict

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    memory_pb2,
    privacy_pb2,
    profile_pb2,
    session_pb2,
)
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from hitherto_client import HithertoCallError, RetryPolicy
from hitherto_client.calls import changes_nothing
from hitherto_client.client import HithertoClient
from tests.unit.client.fake_services import Failure, Fakes

Call = Callable[[HithertoClient], Any]

CALLS: dict[str, tuple[Call, dict[str, Any]]] = {
    "MemoryService/SaveMemory": (
        lambda c: c.save_memory("ana", "Sống ở Huế.", tags=["home"], importance=0.0),
        {"user_id": "ana", "content": "Sống ở Huế.", "tags": ["home"], "importance": 0.0},
    ),
    "MemoryService/UpdateMemory": (
        lambda c: c.update_memory(
            "ana", "m1", memory_pb2.Memory(content="x"), paths=["content", "tags"], version=3
        ),
        {
            "user_id": "ana",
            "memory_id": "m1",
            "memory": {"content": "x"},
            "update_mask": "content,tags",
            "version": 3,
        },
    ),
    "MemoryService/ForgetMemory": (
        lambda c: c.forget_memory("ana", "m1", reason="wrong"),
        {"user_id": "ana", "memory_id": "m1", "reason": "wrong"},
    ),
    "MemoryService/RestoreMemory": (
        lambda c: c.restore_memory("ana", "m1", reason="right"),
        {"user_id": "ana", "memory_id": "m1", "reason": "right"},
    ),
    "MemoryService/ReviewMemory": (
        lambda c: c.review_memory("ana", "m1", approve=False),
        {"user_id": "ana", "memory_id": "m1", "decision": "REVIEW_DECISION_REJECT"},
    ),
    "MemoryService/UpdateProfile": (
        lambda c: c.update_profile("ana", profile_pb2.Profile(summary="A baker.")),
        {"user_id": "ana", "profile": {"summary": "A baker."}},
    ),
    "MemoryService/RecordFeedback": (
        lambda c: c.record_feedback("ana", "c1", "a1", memory.ResponseEdit(original="x" * 9)),
        {
            "user_id": "ana",
            "conversation_id": "c1",
            "message_id": "a1",
            "edit": {"original": "x" * 9},
        },
    ),
    "ExtractionService/PreviewExtraction": (
        lambda c: c.preview_extraction(conversation_pb2.Transcript(user_id="ana")),
        {"transcript": {"user_id": "ana"}},
    ),
    "ExtractionService/IngestDocuments": (
        lambda c: c.ingest_documents("ana", [document_pb2.Document(source_id="d1")]),
        {"user_id": "ana", "documents": [{"source_id": "d1"}]},
    ),
    "ExtractionService/DeleteDocument": (
        lambda c: c.delete_document("ana", "d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
    "PrivacyService/DeleteConversation": (
        lambda c: c.delete_conversation("ana", "c1"),
        {"user_id": "ana", "conversation_id": "c1"},
    ),
    "PrivacyService/GetUserSettings": (
        lambda c: c.get_user_settings("ana", consistency_token="t"),
        {"user_id": "ana", "consistency_token": "t"},
    ),
    "PrivacyService/UpdateUserSettings": (
        lambda c: c.update_user_settings(
            "ana", privacy_pb2.UserSettings(retention_days=0), paths=["retention_days", "time_zone"]
        ),
        {
            "user_id": "ana",
            "user_settings": {"retention_days": 0},
            "update_mask": "retentionDays,timeZone",
        },
    ),
    "PrivacyService/ClearMemories": (
        lambda c: c.clear_memories("ana", include_profile=True),
        {"user_id": "ana", "include_profile": True},
    ),
    "RetrievalService/GetConversation": (
        lambda c: c.get_conversation("ana", "c1", message_limit=3),
        {"user_id": "ana", "conversation_id": "c1", "message_limit": 3},
    ),
    "RetrievalService/GetMemoryHistory": (
        lambda c: c.get_memory_history("ana", "m1", page_size=7),
        {"user_id": "ana", "memory_id": "m1", "page_size": 7},
    ),
    "RetrievalService/GetProfileHistory": (
        lambda c: c.get_profile_history("ana", page_token="t"),
        {"user_id": "ana", "page_token": "t"},
    ),
    "RetrievalService/ListProfiles": (
        lambda c: c.list_profiles(department="sales", page_size=3),
        {"department": "sales", "page_size": 3},
    ),
    "RetrievalService/ListDocuments": (
        lambda c: c.list_documents("ana", source_types=["gmail"]),
        {"user_id": "ana", "source_types": ["gmail"]},
    ),
    "RetrievalService/GetDocument": (
        lambda c: c.get_document("ana", "d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
    "RetrievalService/GetSession": (
        lambda c: c.get_session("ana", "s1", consistency_token="t"),
        {"user_id": "ana", "session_id": "s1", "consistency_token": "t"},
    ),
    "SessionService/UpdateSession": (
        lambda c: c.update_session(
            "ana",
            "s1",
            context={"last_message": "Chào 🍵", "steps": [1, None]},
            recent_items=[conversation_pb2.ContextItem(id="m1", relevance=0.5)],
        ),
        {
            "user_id": "ana",
            "session_id": "s1",
            "context": {"last_message": "Chào 🍵", "steps": [1, None]},
            "recent_items": [{"id": "m1", "relevance": 0.5}],
        },
    ),
    "SessionService/AddPendingAction": (
        lambda c: c.add_pending_action("ana", "call", session_id="s1", params={"to": "Linh"}),
        {"user_id": "ana", "session_id": "s1", "type": "call", "params": {"to": "Linh"}},
    ),
    "SessionService/ResolvePendingAction": (
        lambda c: c.resolve_pending_action(
            "ana", "act_1f2e3d4c", session_pb2.PENDING_ACTION_STATE_COMPLETED, result={}
        ),
        {
            "user_id": "ana",
            "pending_action_id": "act_1f2e3d4c",
            "status": "PENDING_ACTION_STATE_COMPLETED",
            "result": {},
        },
    ),
    "MaintenanceService/Consolidate": (
        lambda c: c.consolidate(tag="home", dry_run=True),
        {"tag": "home", "dry_run": True},
    ),
    "MaintenanceService/UndoConsolidation": (
        lambda c: c.undo_consolidation("ana", "m1"),
        {"user_id": "ana", "memory_id": "m1"},
    ),
    "MaintenanceService/RunDecay": (lambda c: c.run_decay(user_id="ana"), {"user_id": "ana"}),
    "MaintenanceService/RunRetention": (
        lambda c: c.run_retention(dry_run=True),
        {"dry_run": True},
    ),
    "MaintenanceService/Reembed": (
        lambda c: c.reembed(maintenance.REEMBED_PHASE_START, model="large", dimensions=96),
        {"phase": "REEMBED_PHASE_START", "model": "large", "dimensions": 96},
    ),
    "MaintenanceService/ListSchedules": (lambda c: c.list_schedules(page_size=3), {"page_size": 3}),
    "MaintenanceService/GetUsage": (
        lambda c: c.get_usage(group_by=[maintenance.USAGE_DIMENSION_DAY]),
        {"group_by": ["USAGE_DIMENSION_DAY"]},
    ),
    "MaintenanceService/RollbackSource": (
        lambda c: c.rollback_source("ana", document_id="d1"),
        {"user_id": "ana", "document_id": "d1"},
    ),
}


@pytest.fixture
def client(fakes: Fakes) -> Iterator[HithertoClient]:
    retry = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.01)
    with HithertoClient(api_key="mk_0123456789ab_secret", retry=retry) as client:
        yield client


@pytest.mark.parametrize("name", CALLS)
def test_g3_the_request_is_what_was_asked_for(
    client: HithertoClient, fakes: Fakes, name: str
) -> None:
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


@pytest.mark.parametrize(
    "name", [name for name in CALLS if not changes_nothing(f"/hitherto.v1.{name}")]
)
def test_every_change_has_a_key(name: str) -> None:
    """Otherwise a repetition could do it twice."""
    pool: Any = descriptor_pool.Default()
    found = pool.FindMethodByName(f"hitherto.v1.{name.replace('/', '.')}")
    assert "idempotency_key" in found.input_type.fields_by_name


def test_a_rating_is_a_rating(client: HithertoClient, fakes: Fakes) -> None:
    client.record_feedback("ana", "c1", "a1", 5)
    assert fakes.calls("RecordFeedback")[0].request.rating == 5


def test_an_empty_list_of_paths_is_not_every_field(client: HithertoClient, fakes: Fakes) -> None:
    client.update_memory("ana", "m1", memory_pb2.Memory(content="x"), paths=[])
    client.update_memory("ana", "m1", memory_pb2.Memory(content="x"))
    none, every = fakes.calls("UpdateMemory")
    assert none.request.HasField("update_mask")
    assert not every.request.HasField("update_mask")


def test_a_preview_may_take_as_long_as_a_model(client: HithertoClient, fakes: Fakes) -> None:
    client.preview_extraction(conversation_pb2.Transcript())
    seconds = fakes.calls("PreviewExtraction")[0].seconds
    assert seconds is not None
    assert seconds > 60


def test_a_rollback_names_one_source(client: HithertoClient, fakes: Fakes) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        client.rollback_source("ana")
    with pytest.raises(ValueError, match="exactly one"):
        client.rollback_source("ana", job_id="j", document_id="d")
    assert not fakes.calls("RollbackSource")


def test_a_refusal_is_final(client: HithertoClient, fakes: Fakes) -> None:
    fakes.fail(
        "UpdateMemory",
        Failure(grpc.StatusCode.ABORTED, "VERSION_MISMATCH", metadata={"version": "4"}),
    )
    with pytest.raises(HithertoCallError) as refused:
        client.update_memory("ana", "m1", memory_pb2.Memory(content="x"), version=3)
    assert refused.value.reason == "VERSION_MISMATCH"
    assert len(fakes.calls("UpdateMemory")) == 1


def test_health_of_both(client: HithertoClient, fakes: Fakes) -> None:
    fakes.writes.server.stop(None).wait(10)
    found = client.health()
    assert found["retrieval"].serving
    assert not found["extraction"].serving
    assert found["extraction"].status == "UNAVAILABLE"


def test_health_tells_a_draining_service(client: HithertoClient, fakes: Fakes) -> None:
    fakes.reads.health.enter_graceful_shutdown()
    assert client.health()["retrieval"].status == "NOT_SERVING"
