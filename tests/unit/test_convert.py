"""Nouns on the wire: every field of the contract, and nothing where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as Wire

from hitherto.v1 import memory_pb2
from hitherto_shared.convert import (
    entity_message,
    memory_message,
    message_message,
    summary_message,
    timestamp,
)
from hitherto_shared.models import Entity, Memory, Message, SourceRef, Summary

THEN = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


def later(seconds: int) -> datetime:
    return THEN + timedelta(seconds=seconds)


BARE = Memory(
    memory_id=UUID(int=1), user_id="ana", type="fact", content="Ana likes tea", importance=0.0,
    confidence="high", source="explicit", origin="user", status="active", valid_from=THEN,
    created_at=later(1), updated_at=later(2),
)  # fmt: skip
FULL = replace(
    BARE, importance=0.5, detail="green", tags=["taste"], keywords=["tea"], context={"a": 1},
    metadata={"b": [True, None]}, sensitive=True, conversation_id="c1", valid_to=later(3),
    expires_at=later(4), superseded_by=UUID(int=2), supersedes=[UUID(int=3)], version=5,
    job_id=UUID(int=6), access_count=7, last_accessed_at=later(8),
    sources=[SourceRef("c1", "m1"), SourceRef("c2", "m1")], entities=["Porto"],
    doubt={
        "because": str(UUID(int=9)), "reason": "moved to Faro",
        "since": "2026-03-04T00:00:00+00:00",
    },
    may_replace=[UUID(int=10)], last_confirmed_at=later(10),
    evidence=[(SourceRef("c1", "m1"), "I like green tea")],
)  # fmt: skip


def names(message: Wire) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


def all_names(message: Wire) -> set[str]:
    return {field.name for field in message.DESCRIPTOR.fields}


def test_a_memory_with_everything_fills_every_field() -> None:
    message = memory_message(FULL)
    assert (names(message), message.id) == (all_names(message), str(UUID(int=1)))
    assert message.type == memory_pb2.MEMORY_TYPE_FACT
    assert (message.confidence, message.source, message.origin, message.status) == (
        memory_pb2.CONFIDENCE_HIGH,
        memory_pb2.MEMORY_SOURCE_EXPLICIT,
        memory_pb2.ORIGIN_USER,
        memory_pb2.MEMORY_STATUS_ACTIVE,
    )
    moments = ("valid_from", "created_at", "updated_at", "valid_to", "expires_at")
    found = [getattr(message, name).ToDatetime(UTC) for name in moments]
    assert found == [THEN, later(1), later(2), later(3), later(4)]
    assert message.last_accessed_at.ToDatetime(UTC) == later(8)
    assert [(s.conversation_id, s.message_id) for s in message.sources] == [
        ("c1", "m1"),
        ("c2", "m1"),
    ]
    assert list(message.source_message_ids) == ["m1"]
    assert (message.superseded_by, list(message.supersedes), message.job_id) == (
        str(UUID(int=2)),
        [str(UUID(int=3))],
        str(UUID(int=6)),
    )
    assert dict(message.context) == {"a": 1}
    assert MessageToDict(message.metadata) == {"b": [True, None]}
    assert (message.version, message.access_count, message.sensitive) == (5, 7, True)


def test_other_nouns_fill_every_field_too() -> None:
    item = {"id": "memory-1", "relevance": 0.5}
    for message in (
        summary_message(
            Summary(
                *("c1", "ana", "T", "S", "resolved", 3, THEN, later(1), ["k"], ["t"], ["f"]),
                pending_messages=2,
                learns_at=later(2),
                last_said_at=later(1),
            )
        ),
        message_message(
            Message("c1", "m1", "user", "Ana", "tea", THEN, [item], ["a1"], {"x": "y"})
        ),
        entity_message(Entity(UUID(int=9), "Porto", "place", 2, ["Oporto"], {"email": "x@y"})),
    ):
        assert names(message) == all_names(message), message.DESCRIPTOR.name


def test_any_moment_keeps_its_microsecond() -> None:
    for moment in (
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        THEN.astimezone(timezone(timedelta(hours=7))),
    ):
        sent = timestamp(moment)
        assert sent is not None
        assert sent.ToDatetime(UTC) == moment
