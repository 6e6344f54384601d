"""Finding the field to blame in bytes that are no request (row 44 of the fault catalogue)."""

from __future__ import annotations

import tracemalloc

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_shared.rpc.undecodable import undecodable_field
from tests.refusing import refusing
from tests.varint import varint

SUBMIT = pb.SubmitTranscriptsRequest


def request(**message: object) -> bytes:
    return SUBMIT(
        transcripts=[
            conversation_pb2.Transcript(user_id="ana"),
            conversation_pb2.Transcript(
                messages=[
                    conversation_pb2.Message(content="fine", pending_action_ids=["a"]),
                    conversation_pb2.Message(**message),  # type: ignore[arg-type]
                ]
            ),
        ],
        idempotency_key="k",
    ).SerializeToString()


def test_text_that_is_not_utf8() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"content": "QzQ"}, "transcripts[1].messages[1].content"),
        ({"pending_action_ids": ["b", "QzQ"]}, "transcripts[1].messages[1].pending_action_ids[1]"),
        (
            {"context_items": [conversation_pb2.ContextItem(id="QzQ", relevance=0.5)]},
            "transcripts[1].messages[1].context_items[0].id",
        ),
        ({"metadata": {"a": {"b": ["QzQ"]}}}, "transcripts[1].messages[1].metadata"),
    ]
    for message, field in cases:
        for bad in [b"\xff\xff\xff", b"\xed\xbf\xbf", b"\xe2\x82("]:
            data = request(**message).replace(b"QzQ", bad)
            with pytest.raises(DecodeError), refusing((message, bad)):
                SUBMIT.FromString(data)
            found = undecodable_field(SUBMIT.DESCRIPTOR, data)
            assert (found.field, found.description) == (field, "must be valid UTF-8"), (
                message,
                bad,
            )


def test_the_last_field_and_fields_nobody_knows() -> None:
    data = request(content="fine").replace(b"\x12\x01k", b"\x12\x01\xff")
    assert undecodable_field(SUBMIT.DESCRIPTOR, data).field == "idempotency_key"
    unknown = b"\xfa\x07\x02\xff\xff" + b"\xf8\x07\x05" + b"\xfd\x07abcd" + b"\xf9\x07abcdefgh"
    assert undecodable_field(SUBMIT.DESCRIPTOR, unknown + data).field == "idempotency_key"


def test_millions_of_messages_are_not_all_looked_at() -> None:
    data = b"\x0a\x00" * 1_000_000 + b"\x12\x01\xff"
    assert undecodable_field(SUBMIT.DESCRIPTOR, data).field == "request"


def test_the_largest_request_nested_to_the_limit_is_searched_in_little_memory() -> None:
    leaf = b"\xff" * (3 << 20)
    # Value.list_value.values, again and again, around one text.
    nested = b"\x1a" + varint(len(leaf)) + leaf
    for _ in range(40):
        nested = b"\x0a" + varint(len(nested)) + nested
        nested = b"\x32" + varint(len(nested)) + nested
    entry = b"\x0a\x01k" + b"\x12" + varint(len(nested)) + nested
    metadata = b"\x0a" + varint(len(entry)) + entry
    number = conversation_pb2.Message.DESCRIPTOR.fields_by_name["metadata"].number
    message = varint(number << 3 | 2) + varint(len(metadata)) + metadata
    number = conversation_pb2.Transcript.DESCRIPTOR.fields_by_name["messages"].number
    transcript = varint(number << 3 | 2) + varint(len(message)) + message
    data = b"\x0a" + varint(len(transcript)) + transcript
    tracemalloc.start()
    try:
        found = undecodable_field(SUBMIT.DESCRIPTOR, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.field, found.description) == (
        "transcripts[0].messages[0].metadata",
        "must be valid UTF-8",
    )
    assert peak < 4 * len(data)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_have_an_answer(data: bytes, at: int) -> None:
    whole = request(content="text", metadata={"a": [1, "b", {"c": None}]})
    for given_bytes in (data, whole[:at] + data + whole[at:]):
        assert undecodable_field(SUBMIT.DESCRIPTOR, given_bytes).field
