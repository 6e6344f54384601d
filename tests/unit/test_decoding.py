"""Requests that would grow many times over are refused undecoded; all others are decoded."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import memory_service_pb2 as memory
from hitherto_shared.errors import Exhausted, InvalidRequest
from hitherto_shared.rpc import decoding
from hitherto_shared.rpc.decoding import MAX_ELEMENTS, Decoder
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
