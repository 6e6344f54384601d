"""Requests from plain values, and results from replies: by the descriptors, for every field."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.protobuf import descriptor_pool, json_format, message_factory, struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    extraction_service_pb2,
    memory_pb2,
    memory_service_pb2,
    retrieval_service_pb2,
)
from hitherto_client import results, words
from hitherto_client.errors import Violation
from hitherto_client.inputs import DocumentInput, MemoryInput, MessageInput, TranscriptInput
from hitherto_client.results import ChangedMemory, EnhancedPrompt, Health, Page
from hitherto_client.wire import build, read
from tests.refusing import refusing

OURS = {ChangedMemory, EnhancedPrompt, Health, Page, results.Proof, results.SourceQuote}
"""Results that stand for no message of the contract."""
NAMED = {
    "Added": "AppendMessagesResponse", "AddedAction": "AddPendingActionResponse",
    "Context": "GetContextResponse", "Feedback": "RecordFeedbackResponse",
    "ImportedMemories": "StreamMemoriesResponse", "ImportedUser": "ImportUserResponse",
    "ImportedTranscripts": "StreamTranscriptsResponse", "Ingested": "IngestDocumentsResponse",
    "NewWebhook": "CreateWebhookResponse", "Preview": "PreviewExtractionResponse",
    "Reembedding": "ReembedResponse", "SavedMemory": "SaveMemoryResponse",
    "SearchResults": "SearchMemoriesResponse", "Session": "GetSessionResponse",
    "Suggestions": "GetSuggestionsResponse", "UpdatedSession": "UpdateSessionResponse",
    "UpkeepStart": "ConsolidateResponse", "UsageReport": "GetUsageResponse",
    "Violation": "FieldViolation", "WatchedChanges": "WatchMemoriesResponse",
}  # fmt: skip
"""The messages of the other results, where they have other names."""
POOL: Any = descriptor_pool.Default()
MESSAGES: dict[type, type[Message]] = {
    kind: message_factory.GetMessageClass(
        POOL.FindMessageTypeByName(f"hitherto.v1.{NAMED.get(kind.__name__, kind.__name__)}")
    )
    for kind in sorted(
        {*(getattr(results, name) for name in results.__all__), Violation} - OURS, key=str
    )
}


def test_a_result_has_every_field_of_its_message_in_the_right_type() -> None:
    """What the client does by itself is left out: tokens for consistency."""
    for kind, message in MESSAGES.items():
        descriptor = message.DESCRIPTOR
        hints = typing.get_type_hints(kind)
        assert set(hints) == {field.name for field in descriptor.fields} - {"consistency_token"}, (
            kind
        )
        values: list[Any] = [read(kind, message()), read(kind, filled(message))]
        for value in values:
            for field in dataclasses.fields(kind):
                assert fits(getattr(value, field.name), hints[field.name]), (field.name, value)


PLAIN = {
    FieldDescriptor.TYPE_STRING: "x",
    FieldDescriptor.TYPE_BYTES: b"x",
    FieldDescriptor.TYPE_BOOL: True,
}


def filled(kind: type[Message]) -> Any:
    """A message with a value in every field; of a oneof, in its last one."""
    message = kind()
    if kind in (struct_pb2.Struct, struct_pb2.Value):
        json_format.ParseDict({"n": 3}, message)
        return message
    for field in kind.DESCRIPTOR.fields:
        nested: Any = field.message_type
        value: Any
        if nested is None:
            value = PLAIN.get(field.type, 1)
        elif nested.GetOptions().map_entry:
            into = getattr(message, field.name)
            held = nested.fields_by_name["value"].message_type
            if held is None:
                into["a"] = 1
            else:
                into["a"].CopyFrom(filled(message_factory.GetMessageClass(held)))
            continue
        else:
            value = filled(message_factory.GetMessageClass(nested))
        if field.is_repeated:
            getattr(message, field.name).extend([value])
        elif nested is not None:
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)
    return message


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what its annotation says."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1]) for item in value.values())
    if origin is typing.Literal:
        return value in inner or value == "unspecified"
    if inner:
        return any(fits(value, one) for one in inner)
    return isinstance(value, (int, float) if hint is float else hint)


def test_the_words_are_the_values_of_the_contract() -> None:
    found = {
        name: set(typing.get_args(value))
        for name, value in vars(words).items()
        if typing.get_origin(value) is typing.Literal
    }
    assert len(found) >= 19
    for name, told in found.items():
        enum = POOL.FindEnumTypeByName(f"hitherto.v1.{name}")
        prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
        known = {value.removeprefix(prefix).lower() for value in enum.values_by_name}
        assert told | {"unspecified"} == known, name


def test_dicts_have_the_fields_of_the_contract() -> None:
    cases: list[Any] = [
        (MessageInput, conversation_pb2.Message),
        (TranscriptInput, conversation_pb2.Transcript),
        (DocumentInput, document_pb2.Document),
        (MemoryInput, memory_service_pb2.SaveMemoryRequest),
    ]
    for given, kind in cases:
        set_by_the_service = {
            "DocumentInput": {"id", "updated_at"},
            "MessageInput": {"conversation_id"},
        }
        expected = {field.name for field in kind.DESCRIPTOR.fields}
        assert set(typing.get_type_hints(given)) == expected - set_by_the_service.get(
            given.__name__, set()
        )
        for required in inspect.get_annotations(given):
            assert required in expected, given


def test_values_arrive_as_they_were_given() -> None:
    at = datetime(2026, 8, 21, 18, 42, 10, tzinfo=timezone(timedelta(hours=1)))
    request = build(
        memory_service_pb2.SaveMemoryRequest,
        user_id="ana",
        type="goal",
        importance=0.0,
        tags=("a", "b"),
        metadata={"n": 3, "deep": {"list": [1, None, "é"]}},
        context={},
        valid_from=at,
        expires_at=datetime(2027, 1, 1),
        detail=None,
    )
    assert request.type == memory_pb2.MEMORY_TYPE_GOAL
    assert request.HasField("importance")
    assert list(request.tags) == ["a", "b"]
    assert request.HasField("context")
    assert request.valid_from.ToDatetime(tzinfo=UTC) == at
    assert request.expires_at.ToDatetime(tzinfo=UTC) == datetime(2027, 1, 1, tzinfo=UTC)
    assert json_format.MessageToDict(request)["metadata"]["deep"]["list"] == [1, None, "é"]


def test_a_value_of_a_newer_service_reads_as_unknown() -> None:
    found = read(results.Memory, memory_pb2.Memory(type=memory_pb2.MemoryType.ValueType(77)))
    assert str(found.type) == "unknown_77"


def test_what_cannot_be_sent_is_named() -> None:
    cases: list[Any] = [
        ({"type": "gaol"}, ValueError, "type should be one of"),
        ({"type": 2}, ValueError, "type should be one of"),
        ({"colour": "red"}, ValueError, "colour is unknown"),
        ({"content": 5}, TypeError, "content should be text of valid Unicode, and is int$"),
        ({"content": "\ud800"}, ValueError, "content should be text of valid Unicode$"),
        ({"content": b"x"}, TypeError, "content should be text of valid Unicode, and is bytes$"),
        ({"tags": "one"}, TypeError, "tags should be a list"),
        ({"tags": ["a", 5]}, TypeError, r"tags\[1\] should be text of valid Unicode, and is int$"),
        ({"valid_from": "yesterday"}, TypeError, "valid_from should be a datetime"),
        ({"metadata": [1]}, TypeError, "metadata should be a dict"),
        ({"metadata": {"a": object()}}, ValueError, "metadata"),
        ({"metadata": {"a": "\ud800"}}, ValueError, "metadata should be a JSON object of valid"),
        ({"metadata": {1: 2}}, TypeError, "metadata should be JSON, with keys that are text"),
        ({"importance": "high"}, TypeError, "importance should be a number, and is str$"),
        ({"importance": True}, TypeError, "importance should be a number, and is bool$"),
    ]
    for values, error, said in cases:
        with pytest.raises(error, match=said), refusing(values):
            build(memory_service_pb2.SaveMemoryRequest, **values)


def test_a_number_that_is_none_is_named() -> None:
    for limit in [1.5, True, "3", 2**40]:
        with (
            pytest.raises((TypeError, ValueError), match="limit should be a whole number in range"),
            refusing(limit),
        ):
            build(retrieval_service_pb2.SearchMemoriesRequest, limit=limit)


def test_a_bad_message_is_named_by_its_place() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "boss", "content": "hi"}]
    with pytest.raises(ValueError, match=r"messages\[1\]\.role should be one of"):
        build(extraction_service_pb2.AppendMessagesRequest, messages=messages)
