"""Bad input at both doors: INVALID_ARGUMENT with every field named, or a limit; never INTERNAL.

Rows of the fault catalogue: 43 (size), 44 (bytes), 45 (NUL, surrogates), 46 (normal forms),
47 (query syntax), 48 (ids, limits, enums, page tokens), 54 (metadata).
"""

from __future__ import annotations

import gc
import unicodedata
from collections.abc import Iterator
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import conversation_pb2, job_pb2, memory_pb2, search_pb2
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_shared.auth.access import rules_of
from hitherto_shared.auth.principal import DEFAULT_TENANT
from tests.e2e.conftest import Services
from tests.e2e.methods import (
    METHODS,
    OFFERED,
    SERVICES,
    Method,
    Refusal,
    ask,
    call,
    every_offered_method,
    outcome,
    refused,
)
from tests.e2e.requests import Kind, message, places, submit, transcript, valid
from tests.e2e.sessions import refusal_of
from tests.tenants import Tenant

pytestmark = pytest.mark.usefixtures("apart")

SUBMIT = METHODS["ExtractionService/SubmitTranscripts"]
APPEND = METHODS["ExtractionService/AppendMessages"]
SEARCH = METHODS["RetrievalService/SearchMemories"]
LIST_MEMORIES = METHODS["RetrievalService/ListMemories"]
LIST_CONVERSATIONS = METHODS["RetrievalService/ListConversations"]
LIST_JOBS = METHODS["ExtractionService/ListJobs"]
RULES = rules_of(SERVICES)
NAMELESS = {
    "MaintenanceService/ListSchedules",
    "MaintenanceService/Reembed",
    "RetrievalService/ListProfiles",
    "MaintenanceService/ListWebhooks",
}
"""Calls about the installation or the tenant, which name nothing of a user's."""

_SERVER_IDS = ("memory_id", "job_id", "document_id")
# Set in replies and ignored in requests, and a source's id, which may be longer than ours.
_NO_ID = {
    "hitherto.v1.Message.conversation_id",
    "hitherto.v1.Document.id",
    "hitherto.v1.Document.source_id",
}


def is_id(field: FieldDescriptor) -> bool:
    named = field.name == "id" or field.name.endswith("_id")
    return field.type == field.TYPE_STRING and named and field.full_name not in _NO_ID


def is_text(field: FieldDescriptor) -> bool:
    return field.type == field.TYPE_STRING


def is_enum(field: FieldDescriptor) -> bool:
    return field.type == field.TYPE_ENUM


def is_amount(field: FieldDescriptor) -> bool:
    return field.type == field.TYPE_INT32


def is_moment(field: FieldDescriptor) -> bool:
    inner: Any = field.message_type
    ignored = field.full_name == "hitherto.v1.Document.updated_at"
    return inner is not None and inner.full_name == Timestamp.DESCRIPTOR.full_name and not ignored


NO_MOMENTS = [
    Timestamp(seconds=253402300800),
    Timestamp(seconds=-62135596800),
    Timestamp(seconds=2**62),
    Timestamp(seconds=-(2**63)),
    Timestamp(nanos=-1),
    Timestamp(nanos=1_000_000_000),
]


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> Tenant:
    """The sweeps over all methods call as the operator, who alone may make some of the calls."""
    return Tenant(DEFAULT_TENANT) if "method" in request.fixturenames else Tenant()


def places_of(method: Method, kind: Kind, *values: Any) -> Iterator[tuple[str, Any, Message]]:
    """Each field of this kind, with each of the values in an otherwise valid request."""
    for path, put in places(method, kind):
        for value in values:
            request = valid(method)
            put(request, value)
            yield path, value, request


async def submitted(services: Services, *transcripts: conversation_pb2.Transcript) -> list[Any]:
    """The jobs, once all have ended."""
    accepted = await services.extraction.SubmitTranscripts(submit(*transcripts))
    for job in accepted.jobs:
        await call(
            services,
            METHODS["ExtractionService/WatchJob"],
            extraction.WatchJobRequest(job_id=job.id),
        )
    return list(accepted.jobs)


async def still_answers(services: Services) -> None:
    await ask(services, "GetContext")
    await ask(services, "ListJobs", user_id="")


def test_every_call_but_those_about_everybody_names_something() -> None:
    """The sweep of ids leaves out no call but these."""
    without = {method.name for method in OFFERED if not any(places(method, is_id))}
    assert without == NAMELESS & {method.name for method in OFFERED}


@every_offered_method
async def test_whatever_is_wrong_with_a_request_is_told(services: Services, method: Method) -> None:
    await bad_fields_are_named(services, method)
    await required_ids_are_required(services, method)
    await bytes_that_are_no_message_are_the_callers_fault(services, method)


async def bad_fields_are_named(services: Services, method: Method) -> None:
    """Row 48: over-long ids, NUL and control characters, enums and limits, in every field.

    Row 30 at the door: the years 1 and 10000, and nanoseconds that are none.
    """
    for path, bad, request in places_of(method, is_id, "x" * 257, "a\x00b", "a\u2028b", "\x7f"):
        refusal = await refused(services, method, request)
        assert refusal.reason == "INVALID_FIELD"
        assert path in refusal.fields, (bad, refusal)
    for path, _, request in places_of(method, is_enum, 99, -1, 2**31 - 1):
        refusal = await refused(services, method, request)
        # The role of the one message is replaced; a list has one element.
        assert path in refusal.fields, refusal
    for path, _, request in places_of(method, is_amount, -1, -(2**31)):
        assert list((await refused(services, method, request)).fields) == [path]
    for path, _, request in places_of(method, is_amount, 2**31 - 1):
        # Some have no limits: how large they may be is the call's own affair.
        if path not in ("version", "rating", "dimensions"):
            # What the valid request names, nobody has.
            code = await outcome(services, method, request)
            assert code in {grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND}, path
    for path, _, request in places_of(method, is_moment, *NO_MOMENTS):
        assert path in (await refused(services, method, request)).fields


async def required_ids_are_required(services: Services, method: Method) -> None:
    """Row 48: an empty request names everything that is required, at once."""
    optional = RULES[method.path].user_optional
    required = {
        field.name
        for field in method.request.DESCRIPTOR.fields
        if (field.name == "user_id" and not optional)
        or (field.name in _SERVER_IDS and field.containing_oneof is None)
        or (field.name == "conversation_id" and method.name.startswith("ExtractionService/"))
    } - ({"conversation_id"} if optional else set())
    if not required and await outcome(services, method, method.request()) == grpc.StatusCode.OK:
        return
    refusal = await refused(services, method, method.request())
    assert required <= set(refusal.fields)
    assert refusal.fields


async def test_a_server_made_id_is_a_uuid(services: Services) -> None:
    for name in ("GetJob", "WatchJob", "RetryJob", "CancelJob"):
        method = METHODS[f"ExtractionService/{name}"]
        for bad in ("not-a-uuid", "{01890000-0000-7000-8000-000000000000}", "0" * 32):
            refusal = await refused(services, method, method.request(job_id=bad))
            assert list(refusal.fields) == ["job_id"]


async def bytes_that_are_no_message_are_the_callers_fault(
    services: Services, method: Method
) -> None:
    """Rows 44 and 45: no UTF-8, such as a lone surrogate's, in every string; and any garbage.

    gRPC alone would answer INTERNAL.
    """
    for path, _, request in places_of(method, is_text, "QzQ"):
        for bad in (b"\xff\xfe\xfd", b"\xed\xa0\x80"):
            data = request.SerializeToString()
            assert data.count(b"QzQ") == 1
            refusal = await refused(services, method, data.replace(b"QzQ", bad))
            assert refusal.reason == "UNDECODABLE_REQUEST"
            assert refusal.fields == {path: "must be valid UTF-8"}
    whole = valid(method).SerializeToString() or b"\x0a\x03ana"
    for garbage in (b"\xff" * 40, whole[:-1], b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x0a\x05ab"):
        refusal = await refused(services, method, garbage)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, garbage[:20]
        assert refusal.reason == "UNDECODABLE_REQUEST", garbage[:20]
        assert refusal.metadata == {"method": method.path}, garbage[:20]
    await still_answers(services)


async def test_bad_utf8_inside_free_json_names_the_struct(services: Services) -> None:
    metadata = Struct()
    metadata.update({"a": {"QzQ": 1}})
    data = submit(transcript(message(), message("b", metadata=metadata))).SerializeToString()
    refusal = await refused(services, SUBMIT, data.replace(b"QzQ", b"\xff\xff\xff"))
    assert list(refusal.fields) == ["transcripts[0].messages[1].metadata"]
    weights = retrieval.SearchMemoriesRequest(user_id="ana", weights={"QzQ": 1.0})
    refusal = await refused(
        services, SEARCH, weights.SerializeToString().replace(b"QzQ", b"\xff\xff\xff")
    )
    assert list(refusal.fields) == ["weights"]


async def test_a_moment_with_nanoseconds_is_fine(services: Services) -> None:
    stamp = Timestamp(seconds=1_700_000_000, nanos=999_999_999)
    await services.extraction.SubmitTranscripts(submit(transcript(message(created_at=stamp))))
    kept = await ask(services, "GetConversation", conversation_id="c1")
    (said,) = kept.messages
    # The database keeps microseconds.
    assert abs(said.created_at.ToNanoseconds() - stamp.ToNanoseconds()) < 1_000


async def test_all_violations_come_at_once(services: Services) -> None:
    request = submit(
        transcript(),
        transcript(message("", id="m\x00")),
        conversation_pb2.Transcript(
            user_id="",
            conversation_id="x" * 300,
            time_zone="Mars/Olympus",
            messages=[
                conversation_pb2.Message(content="no role"),
                message(context_items=[conversation_pb2.ContextItem(id="a", relevance=-1)]),
            ],
        ),
    )
    request.idempotency_key = "k" * 129
    refusal = await refused(services, SUBMIT, request)
    assert set(refusal.fields) == {
        "transcripts[1].messages[0].content",
        "transcripts[1].messages[0].id",
        "transcripts[2].user_id",
        "transcripts[2].conversation_id",
        "transcripts[2].time_zone",
        "transcripts[2].messages[0].role",
        "transcripts[2].messages[1].context_items[0].relevance",
        "idempotency_key",
    }
    assert refusal.metadata == {"field": "transcripts[1].messages[0].content"}
    # All or nothing: the good transcript of the batch was not taken either.
    assert not (await ask(services, "ListJobs", user_id="")).jobs


async def test_more_violations_than_a_status_holds(services: Services) -> None:
    """A reply with thousands of violations must not drown in the limit of trailing metadata."""
    long = "\N{SNOWMAN}" * 300
    for request in (
        submit(*(transcript(*[message("")] * 200, conversation=f"c{i}") for i in range(20))),
        submit(transcript(*(message(str(i), id=f"{i}{long}") for i in range(2000)))),
        submit(transcript(message(metadata=_nested(10, key=long, leaf=float("nan"))))),
    ):
        refusal = await refused(services, SUBMIT, request)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.fields
        told = len(refusal.fields) + int(refusal.metadata.get("omitted", "0"))
        assert told in (4000, 2000, 1)


async def test_ten_megabytes_are_too_much_and_memory_stays_flat(services: Services) -> None:
    """Row 43."""
    big = submit(transcript(*(message("x" * 60_000) for _ in range(175)))).SerializeToString()
    assert len(big) > 10_000_000
    process = psutil.Process()

    async def once() -> None:
        refusal = await refusal_of(call(services, SUBMIT, big))
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED

    for _ in range(3):
        await once()
    gc.collect()
    before = process.memory_info().rss
    for _ in range(20):
        await once()
    gc.collect()
    # Twenty kept requests would be 200 MB.
    assert process.memory_info().rss - before < 100_000_000
    # 32 MiB that travel as a few kilobytes.
    bomb = submit(transcript(message("\0" * (32 * 1024 * 1024))))
    refusal = await refusal_of(
        services.extraction.SubmitTranscripts(bomb, compression=grpc.Compression.Gzip)
    )
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await still_answers(services)


async def test_too_many_messages_or_transcripts(services: Services) -> None:
    many = submit(transcript(*(message(str(i)) for i in range(5_000))))
    assert list((await refused(services, SUBMIT, many)).fields) == ["transcripts[0].messages"]
    append = extraction.AppendMessagesRequest(
        user_id="ana", conversation_id="c", messages=[message(str(i)) for i in range(2_001)]
    )
    assert list((await refused(services, APPEND, append)).fields) == ["messages"]
    batch = submit(*(transcript(conversation=f"c{i}") for i in range(101)))
    assert list((await refused(services, SUBMIT, batch)).fields) == ["transcripts"]
    none = await refused(services, SUBMIT, submit(conversation_pb2.Transcript(user_id="ana")))
    assert set(none.fields) == {"transcripts[0].conversation_id", "transcripts[0].messages"}


async def test_duplicate_message_ids(services: Services) -> None:
    composed, decomposed = "café", unicodedata.normalize("NFD", "café")
    request = submit(
        transcript(message("a", id="m"), message("b", id="n"), message("c", id="m")),
        transcript(message("a", id=composed), message("b", id=decomposed), conversation="c2"),
    )
    refusal = await refused(services, SUBMIT, request)
    assert set(refusal.fields) == {"transcripts[0].messages[2].id", "transcripts[1].messages[1].id"}
    assert "transcripts[0].messages[0]" in refusal.fields["transcripts[0].messages[2].id"]


async def test_a_message_of_more_than_64_kib_is_stored_cut(services: Services) -> None:
    """With a mark that counts what is left out; sending it again changes nothing."""
    exact = "ế" * 21_845 + "x"
    assert len(exact.encode()) == 64 * 1024
    long = "ế" * 30_000
    sent = transcript(message(exact, id="fits"), message(long, id="cut"))
    await services.extraction.SubmitTranscripts(submit(sent))
    await services.extraction.SubmitTranscripts(submit(sent))
    read = await ask(
        services, "GetConversation", user_id=sent.user_id, conversation_id=sent.conversation_id
    )
    fits, cut = (each.content for each in read.messages)
    assert fits == exact
    kept = cut.count("ế")
    assert cut == f"{'ế' * kept}… [+{30_000 - kept:,}]"
    assert 64 * 1024 - 100 < len(cut.encode()) <= 64 * 1024


async def test_free_json_has_limits(services: Services) -> None:
    """Depth 16, 64 KiB, finite numbers, no NUL in keys or values: in every Struct of every call."""
    cases: list[tuple[Any, str]] = [
        (_nested(17), "nested deeper than 16"),
        ({"k": "x" * 65_600}, "65536 bytes"),
        ({"k": [1, float("inf")]}, "finite"),
        ({"k\x00": 1}, "NUL"),
        ({"k": {"in\x00ner": True}}, "NUL"),
    ]
    # The lengths of the text and of what is around it take two or three bytes more each.
    most = 65_536 - _struct({"k": ""}).ByteSize() - 6
    seen = set()
    for method in OFFERED:
        for given, why in cases:
            for path, _, request in places_of(method, _is_struct, _struct(given)):
                refusal = await refused(services, method, request)
                assert all(field.startswith(path) for field in refusal.fields), (method.name, path)
                assert why in " ".join(refusal.fields.values()), (method.name, path)
        for path, _, request in places_of(
            method, _is_struct, _nested(16), _struct({"k": "x" * most})
        ):
            seen.add(f"{method.name} {path}")
            # What it names may not be there.
            code = await outcome(services, method, request)
            assert code is not grpc.StatusCode.INVALID_ARGUMENT, (method.name, path)
    assert seen >= {
        "ExtractionService/SubmitTranscripts transcripts[0].messages[0].metadata",
        "MemoryService/SaveMemory context",
        "RetrievalService/ListMemories metadata_filter",
        "SessionService/ResolvePendingAction result",
    }


def _is_struct(field: Any) -> bool:
    inner = field.message_type
    return inner is not None and inner.full_name == Struct.DESCRIPTOR.full_name


async def test_free_json_deeper_than_protobuf_reads(services: Services) -> None:
    """Row 44: a Struct of 80 levels cannot even be decoded."""
    data = submit(transcript(message(metadata=_nested(30)))).SerializeToString()
    assert "nested" in " ".join((await refused(services, SUBMIT, data)).fields.values())
    level = b""
    for _ in range(80):
        value = b"\x2a" + _length(level)  # Value.struct_value
        entry = b"\x0a\x01k\x12" + _length(value)
        level = b"\x0a" + _length(entry)  # Struct.fields
    content = b"\x10\x01\x22\x01a\x4a" + _length(level)
    data = b"\x0a" + _length(b"\x0a\x03ana\x12\x02c1\x1a" + _length(content))
    refusal = await refused(services, SUBMIT, data)
    assert refusal.fields == {"transcripts[0].messages[0].metadata": "is nested too deep"}


async def test_lists_of_words_are_bounded(services: Services) -> None:
    many = extraction.ListJobsRequest(states=[job_pb2.JOB_STATE_DEAD] * 100_000, kinds=["x"] * 1000)
    assert set((await refused(services, LIST_JOBS, many)).fields) == {"states", "kinds"}
    tags = retrieval.SearchMemoriesRequest(
        user_id="ana", tags=["t"] * 10_000, types=[memory_pb2.MEMORY_TYPE_FACT] * 10_000
    )
    assert set((await refused(services, SEARCH, tags)).fields) == {"tags", "types"}
    words = extraction.ListJobsRequest(kinds=["memory-extraction", "gardening", ""])
    assert set((await refused(services, LIST_JOBS, words)).fields) == {"kinds[1]", "kinds[2]"}


async def test_numbers_of_a_search(services: Services) -> None:
    nan, inf = float("nan"), float("inf")
    request = retrieval.SearchMemoriesRequest(
        user_id="ana",
        query="q" * 65_537,
        min_score=nan,
        weights={"semantic": -1, "keyword": nan, "nonsense": 1, "date": inf},
        ranking="best",
        entity="e" * 300,
        tags=["", "t" * 65, "a\x00"],
        scopes=[search_pb2.SEARCH_SCOPE_SUMMARIES],
        source_types=["jira", "j" * 65],
    )
    refusal = await refused(services, SEARCH, request)
    assert {
        "query",
        "min_score",
        "weights[nonsense]",
        "ranking",
        "entity",
        "tags[0]",
        "tags[1]",
        "tags[2]",
        "source_types[1]",
    } <= set(refusal.fields)
    for bad in ([nan] * 64, [inf] * 64, [0.0] * 64, [1.0] * 3):
        refusal = await refused(
            services,
            SEARCH,
            retrieval.SearchMemoriesRequest(user_id="ana", query="q", query_embedding=bad),
        )
        assert list(refusal.fields) == ["query_embedding"]


async def test_consistency_tokens_are_checked_everywhere(services: Services) -> None:
    for method in OFFERED:
        if "consistency_token" not in method.request.DESCRIPTOR.fields_by_name:
            continue
        for bad in ("x", "A" * 200, "tôi", "a\x00b", "x" * 100_000):
            request = valid(method)
            request.consistency_token = bad  # type: ignore[attr-defined]
            refusal = await refused(services, method, request)
            assert refusal.reason == "INVALID_CONSISTENCY_TOKEN", (method.name, refusal)


async def test_page_tokens_are_good_for_the_same_list_only(services: Services) -> None:
    """Row 48: tampered, cut, of another list, of other filters; also a consistency token."""
    lines = ["I live in Porto.", "I prefer tea.", "I work as a nurse.", "My dog is called Rex."]
    await submitted(
        services,
        *(transcript(message(line), conversation=f"c{i}") for i, line in enumerate(lines)),
    )
    first: dict[str, str] = {}
    for method, request in (
        (LIST_MEMORIES, retrieval.ListMemoriesRequest(user_id="ana", page_size=1)),
        (LIST_CONVERSATIONS, retrieval.ListConversationsRequest(user_id="ana", page_size=1)),
        (LIST_JOBS, extraction.ListJobsRequest(user_id="ana", page_size=1)),
    ):
        (page,) = await call(services, method, request)
        first[method.name] = page.next_page_token
        assert page.next_page_token, method.name

    async def refusal(method: Method, token: str, **other: Any) -> Refusal:
        request = method.request(**{"user_id": "ana", **other})
        request.page_token = token  # type: ignore[attr-defined]
        return await refused(services, method, request)

    for method in (LIST_MEMORIES, LIST_CONVERSATIONS, LIST_JOBS):
        token = first[method.name]
        flipped = token[:20] + ("A" if token[20] != "A" else "B") + token[21:]
        others = [other for name, other in first.items() if name != method.name]
        for bad in (flipped, token[:-4], token + "AAAA", "é", "=" * 9, "A" * 100_000, *others):
            found = await refusal(method, bad)
            assert found.reason == "INVALID_PAGE_TOKEN"
            assert list(found.fields) == ["page_token"]
        assert (await refusal(method, token, user_id="bo")).reason == "INVALID_PAGE_TOKEN"
    changed = await refusal(LIST_MEMORIES, first[LIST_MEMORIES.name], order_by="importance")
    assert changed.reason == "INVALID_PAGE_TOKEN"
    changed = await refusal(LIST_JOBS, first[LIST_JOBS.name], conversation_id="c1")
    assert changed.reason == "INVALID_PAGE_TOKEN"
    # Another page size is the same question, and with another fault the reason is the general one.
    again = retrieval.ListMemoriesRequest(
        user_id="ana", page_size=3, page_token=first[LIST_MEMORIES.name]
    )
    assert (await services.retrieval.ListMemories(again)).memories
    again.page_size, again.page_token = -1, "x"
    both = await refused(services, LIST_MEMORIES, again)
    assert set(both.fields) == {"page_size", "page_token"}
    assert both.reason == "INVALID_FIELD"


async def test_query_syntax_is_text(services: Services) -> None:
    """Row 47."""
    await submitted(services, transcript(message("I live in Porto.")))
    for text in (
        "' ; DROP TABLE memories; --",
        "%_\\",
        "a & | !! <-> b:*",
        "((((",
        '"unbalanced',
        "$1 %s {0}",
        "\u202ereversed\u200b\u200d👩‍👩‍👧",
        "\ufffe\uffff",
        " \t\n",
        "𝔘𝔫𝔦" * 1000,
    ):
        request = retrieval.SearchMemoriesRequest(user_id="ana", query=text, explain=True)
        await services.retrieval.SearchMemories(request)
        await ask(services, "GetContext", query=text)
        # A name needs a sign that can be seen, and a list of blanks names nothing.
        seen = text[:60].strip() if any(map(str.isprintable, text.strip())) else ""
        listed = await ask(services, "ListMemories", tags=[text[:60]], entity=seen)
        assert not listed.memories or not seen, text
    found = await ask(services, "SearchMemories", query="Porto ' & | !")
    assert ["Porto" in each.memory.content for each in found.results] == [True]


async def test_composed_and_decomposed_text_is_the_same(services: Services) -> None:
    """Row 46: the user, the message and the question in either normal form."""
    user = "Nguyễn Thị Hồng"
    decomposed = unicodedata.normalize("NFD", user)
    assert decomposed != user
    (job,) = await submitted(
        services,
        transcript(message(unicodedata.normalize("NFD", "Tôi sống ở Đà Nẵng.")), user=decomposed),
    )
    assert job.user_id == user
    found = [
        [
            (result.memory.id, result.memory.content)
            for result in (await ask(services, "SearchMemories", user_id=who, query=query)).results
        ]
        for who in (user, decomposed)
        for query in ("Đà Nẵng", unicodedata.normalize("NFD", "Đà Nẵng"))
    ]
    assert found[0]
    assert found == [found[0]] * 4
    assert all(unicodedata.is_normalized("NFC", content) for _, content in found[0])


async def test_a_message_id_never_changes_its_content(services: Services) -> None:
    await submitted(services, transcript(message("first", id="m1")))
    other = await refused(services, SUBMIT, submit(transcript(message("second", id="m1"))))
    assert other.reason == "MESSAGE_ID_REUSED"
    assert other.metadata["field"] == "transcripts[0].messages[0].id"
    assert "second" not in other.everything


async def test_an_unknown_call_is_unimplemented(services: Services) -> None:
    unknown: Any = services.retrieval_channel.unary_unary("/hitherto.v1.RetrievalService/Nonsense")
    assert (await refusal_of(unknown(b""))).code is grpc.StatusCode.UNIMPLEMENTED


def _nested(depth: int, *, key: str = "k", leaf: Any = 1) -> Struct:
    """Free JSON whose innermost value lies `depth` levels deep."""
    value: Any = leaf
    for _ in range(depth):
        value = {key: value}
    return _struct(value)


def _struct(value: Any) -> Struct:
    struct = Struct()
    struct.update(value)
    return struct


def _length(data: bytes) -> bytes:
    size, head = len(data), b""
    while size > 0x7F:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    return head + bytes([size]) + data
