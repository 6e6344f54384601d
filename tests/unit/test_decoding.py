"""Requests at the border: what is refused undecoded, which field is to blame, what costs much."""

from __future__ import annotations

import time
import tracemalloc
import unicodedata
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import memory_service_pb2 as memory
from hitherto_shared.errors import Exhausted, InvalidRequest
from hitherto_shared.rpc import decoding
from hitherto_shared.rpc.decoding import MAX_ELEMENTS, Decoder
from hitherto_shared.rpc.undecodable import undecodable_field
from hitherto_shared.validation import Checks
from tests.refusing import refusing
from tests.varint import varint

METHOD = "/hitherto.v1.ExtractionService/SubmitTranscripts"
SUBMIT = pb.SubmitTranscriptsRequest


def decoder(kind: type[Message] = SUBMIT) -> Decoder:
    declared: Any = kind.DESCRIPTOR
    return Decoder(METHOD, kind.FromString, declared)


def delimited(field: tuple[type[Message], str], content: bytes) -> bytes:
    """A field with this content, as it is on the wire."""
    kind, name = field
    number = kind.DESCRIPTOR.fields_by_name[name].number
    return varint(number << 3 | 2) + varint(len(content)) + content


def refused(data: bytes, kind: type[Message] = SUBMIT) -> tuple[str, str]:
    with pytest.raises(Exhausted) as caught:
        decoder(kind).decode(data)
    assert caught.value.metadata["max_elements"] == str(MAX_ELEMENTS)
    return caught.value.metadata["field"], caught.value.reason


TRANSCRIPTS = (SUBMIT, "transcripts")
MESSAGES = (conversation_pb2.Transcript, "messages")
METADATA = (conversation_pb2.Message, "metadata")
TAGS = (memory.SaveMemoryRequest, "tags")


def test_many_small_ones_are_told_by_their_path() -> None:
    many = MAX_ELEMENTS + 1
    messages = delimited(MESSAGES, b"") * many
    assert refused(delimited(TRANSCRIPTS, b"") * many) == ("transcripts", "REQUEST_TOO_LARGE")
    assert refused(delimited(TRANSCRIPTS, messages))[0] == "transcripts.messages"
    # Shared out over several parents, and behind fields that nobody knows.
    half = delimited(TRANSCRIPTS, delimited(MESSAGES, b"") * (many // 2 + 1))
    assert refused(half + b"\xf8\x07\x01" + half)[0] == "transcripts.messages"
    values = delimited(METADATA, b"\x0a\x00" * many)
    assert refused(delimited(TRANSCRIPTS, delimited(MESSAGES, values)))[0] == (
        "transcripts.messages.metadata.fields"
    )
    assert refused(delimited(TAGS, b"") * many, memory.SaveMemoryRequest)[0] == "tags"


def test_what_the_limits_of_a_batch_allow_passes() -> None:
    transcript = conversation_pb2.Transcript(
        user_id="ana",
        messages=[conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content="Hm.")] * 2_000,
    )
    data = SUBMIT(transcripts=[transcript] * 100).SerializeToString()
    assert len(decoder().decode(data).transcripts) == 100


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_fault_hides_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A length that reaches beyond its end must not swallow what is counted."""
    monkeypatch.setattr(decoding, "MAX_ELEMENTS", 1_000)
    many = delimited(TRANSCRIPTS, delimited(MESSAGES, b"") * 2_000)
    bad = delimited(TRANSCRIPTS, b"\x1a\x7f")
    data = bad + many if place == "before" else many + bad
    with pytest.raises((Exhausted, InvalidRequest)):
        decoder().decode(data)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 50))
def test_counting_never_refuses_what_the_runtime_takes(tail: bytes, count: int) -> None:
    """Unless there are too many; and it never takes what the runtime refuses."""
    data = delimited(TRANSCRIPTS, tail) * count
    try:
        SUBMIT.FromString(data)
    except Exception:
        taken = False
    else:
        taken = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_SMALLEST", 0.000_001)
        try:
            decoder().decode(data)
        except InvalidRequest:
            assert not taken
        else:
            assert taken


# Finding the field to blame in bytes that are no request (row 44 of the fault catalogue).


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
    metadata = delimited(METADATA, b"\x0a" + varint(len(entry)) + entry)
    data = delimited(TRANSCRIPTS, delimited(MESSAGES, metadata))
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


# Checks at the border: what is refused and normalised, and that no refused text costs much.


def violations(checks: Checks) -> dict[str, str]:
    try:
        checks.done()
    except InvalidRequest as error:
        return {violation.field: violation.description for violation in error.violations}
    return {}


def free(value: dict[str, Any]) -> Struct:
    struct = Struct()
    struct.update(value)
    return struct


def test_row_69_what_is_refused_for_its_length_is_not_read() -> None:
    """Four megabytes of marks would take seconds to bring into order."""
    checks = Checks()
    long = "\u0301\u0327" * 1_000_000
    began = time.thread_time()
    assert checks.texts("t", [long, "tea"], maximum=2, max_chars=64) == ["", "tea"]
    assert (checks.text("u", long, max_bytes=64 * 1024), checks.identifier("v", long)) == ("", "")
    assert checks.uuid("w", long) == UUID(int=0)
    assert time.thread_time() - began < 0.2
    assert set(violations(checks)) == {"t[0]", "u", "v", "w"}


def test_an_identifier_is_measured_in_normal_form() -> None:
    checks = Checks()
    checks.identifier("id", "e\u0301" * 256)
    assert violations(checks) == {}
    checks.identifier("id", "\U0001d15e" * 129)  # one character that becomes two
    assert "258" in violations(checks)["id"]


def test_limits() -> None:
    checks = Checks()
    asked = (0, 1, 200, 201, 2**31 - 1)
    found = [checks.limit("n", n, default=10, maximum=200) for n in asked]
    assert found == [10, 1, 200, 200, 200]
    most = [checks.optional_limit("n", n, default=10, maximum=200) for n in (None, 0, 5, 2**31 - 1)]
    assert most == [10, 0, 5, 200]
    assert violations(checks) == {}
    for ask in (checks.limit, checks.optional_limit):
        ask(ask.__name__, -1, default=4000, maximum=1_000_000)
    told = violations(checks)
    assert set(told) == {"limit", "optional_limit"}
    assert all("leave it out for 4000" in why for why in told.values())


def test_row_30_moments_are_those_of_calendars() -> None:
    for seconds, nanos, good in [
        (-2208988800, 0, True), (-2208988801, 0, False),
        (7289654399, 999_999_999, True), (7289654400, 0, False),
        (2**63 - 1, 0, False), (-(2**63), 0, False), (0, -1, False), (0, 10**9, False),
    ]:  # fmt: skip
        checks = Checks()
        message = conversation_pb2.Message(created_at=Timestamp(seconds=seconds, nanos=nanos))
        found = checks.moment("m.created_at", message, "created_at")
        assert (found is not None) is good, (seconds, nanos)
        assert list(violations(checks)) == ([] if good else ["m.created_at"]), (seconds, nanos)


def test_free_json_is_in_normal_form_and_what_is_wrong_with_it_has_a_path() -> None:
    """Its limits in every call: e2e/test_bad_input.py."""
    checks = Checks()
    normal = {"é": ["é", None, True]}
    assert checks.struct("s", free({"e\u0301": ["e\u0301", None, True]})) == normal
    assert violations(checks) == {}
    deep: Any = 1
    for _ in range(17):
        deep = {"k": deep}
    checks.struct("deep", free(deep))
    checks.struct("big", free({"k": "x" * 65_536}))
    checks.struct("nul", free({"a": {"b\x00": 1}}))
    checks.struct("nan", free({"a": [0, float("nan")]}))
    assert set(violations(checks)) == {"deep" + ".k" * 17, "big", "nul.a.b\x00", "nan.a[1]"}


def test_violations_are_counted_and_only_so_many_kept() -> None:
    checks = Checks()
    for i in range(5_000):
        checks.add(f"f[{i}]", "is wrong")
    with pytest.raises(InvalidRequest) as caught:
        checks.done()
    assert (caught.value.total, len(caught.value.violations)) == (5_000, 1_000)
    assert "4999 more" in caught.value.message


def test_identifiers_are_any_printable_text() -> None:
    for good in ["a", "x" * 256, "ế" * 256, "a b", "日本", "👩‍👩‍👧", "٣", "-", "e\u0301"]:
        checks = Checks()
        assert checks.identifier("id", good) == unicodedata.normalize("NFC", good)
        assert violations(checks) == {}, good


def test_text_is_measured_in_bytes_of_its_normal_form() -> None:
    checks = Checks()
    assert (checks.text("t", "e\u0301" * 4, max_bytes=8), violations(checks)) == ("é" * 4, {})
    checks.text("t", "é" * 5, max_bytes=8)
    checks.text("u", " \n", max_bytes=8, required=True)
    checks.text("v", "a\x00", max_bytes=8)
    checks.text("w", "\udcff", max_bytes=8)
    assert set(violations(checks)) == {"t", "u", "v", "w"}


def test_a_text_may_be_as_much_longer_as_its_normal_form_can_be_shorter() -> None:
    for composed in ["\u0390", "\uac01", "é"]:
        checks = Checks()
        loose = unicodedata.normalize("NFD", composed)
        assert checks.text("t", loose * 1_000, max_bytes=len(composed.encode()) * 1_000)
        assert checks.identifier("u", "\u1f82" * 256), composed
        assert checks.identifier("v", unicodedata.normalize("NFD", "\u1f82" * 256)), composed
        assert violations(checks) == {}, composed
