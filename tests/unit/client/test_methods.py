"""Every RPC of the contract has a typed method that fills its request: requirement G3."""

from __future__ import annotations

import hashlib
import inspect
import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict

from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    privacy_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
)
from hitherto_client import Hitherto, Pages, RetryPolicy
from hitherto_client.calls import changes_nothing
from tests.unit.client.fake_services import PATIENT_SECONDS, Failure, Fakes, connected

Call = Callable[[Hitherto], Any]

SAID: Any = [{"role": "user", "content": "hi"}]
TRANSCRIPT: Any = {"user_id": "ana", "conversation_id": "c1", "messages": SAID}
EMPTY_EXPORT = privacy_service_pb2.ExportUserResponse(
    manifest=privacy_pb2.ExportManifest(sha256=hashlib.sha256().hexdigest())
)
JOB = "0198c0de-7a11-7000-8000-000000000001"
"""The first job of the fake service."""

OWN: dict[str, tuple[Call, dict[str, Any]]] = {
    "ReviewMemory": (
        lambda m: m.review_memory("ana", "m1", approve=False),
        {"user_id": "ana", "memory_id": "m1", "decision": "REVIEW_DECISION_REJECT"},
    ),
    "SubmitTranscripts": (
        lambda m: m.submit_transcripts([TRANSCRIPT]),
        {
            "transcripts": [
                {
                    "user_id": "ana",
                    "conversation_id": "c1",
                    "messages": [{"role": "ROLE_USER", "content": "hi"}],
                }
            ]
        },
    ),
    "DeleteWebhook": (lambda m: m.delete_webhook("w1"), {"webhook_id": "w1"}),
}
"""Methods with a body: a call, and what is sent."""

STREAMS: dict[str, Call] = {
    "StreamTranscripts": lambda m: m.import_transcripts([TRANSCRIPT]),
    "WatchJob": lambda m: list(m.watch_job(JOB)),
    "StreamMemories": lambda m: m.import_memories([{"user_id": "ana", "content": "x"}]),
    "WatchMemories": lambda m: next(m.watch_memories("ana")),
    "ExportUser": lambda m: m.export_user("ana", io.BytesIO()),
    "ImportUser": lambda m: m.import_user("ana", io.BytesIO(b"{}")),
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


def rpcs_of_the_contract() -> dict[str, str]:
    """The path of each by its name."""
    pool: Any = descriptor_pool.Default()
    return {
        rpc.name: f"/{service.full_name}/{rpc.name}"
        for file in ("extraction", "maintenance", "memory", "privacy", "retrieval", "session")
        for service in pool.FindFileByName(
            f"hitherto/v1/{file}_service.proto"
        ).services_by_name.values()
        for rpc in service.methods
    }


DECLARED: dict[str, Any] = {
    name: inspect.getclosurevars(method).nonlocals["method"]
    for name, method in inspect.getmembers(Hitherto, inspect.isfunction)
    if hasattr(method, "__wrapped__")
}
"""What the methods that have no body were made of."""
ALIKE = {"user": "user_id", "conversation": "conversation_id", "job": "job_id"}
PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_INT32: 3,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.5,
    FieldDescriptor.CPPTYPE_FLOAT: 0.5,
}


def test_every_rpc_has_a_typed_method() -> None:
    """A new RPC of the contract fails here until it has one."""
    declared = {method._rpc for method in DECLARED.values()}
    assert declared | {*OWN, *STREAMS} == set(rpcs_of_the_contract())


def sample(field: Any) -> tuple[Any, Any]:
    """A value of a field as callers give it, and in the JSON of the contract."""
    nested, enum = field.message_type, field.enum_type
    value: Any
    if enum is not None:
        told = enum.values[1].name
        value = told.removeprefix(enum.values[0].name.removesuffix("UNSPECIFIED")).lower()
    elif nested is None:
        text = JOB if field.name == "job_id" else f"the {field.name} ñ"
        value = told = PLAIN.get(field.cpp_type, text)
    elif nested.name == "Timestamp":
        value, told = datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"
    elif nested.GetOptions().map_entry:
        return {"a": 0.5}, {"a": 0.5}
    else:
        texts = (each.name for each in nested.fields if each.type == each.TYPE_STRING)
        value = told = {"n": 3} if nested.name == "Struct" else {next(texts): "x"}
    return ([value], [told]) if field.is_repeated else (value, told)


def test_g3_a_declared_method_sends_what_it_is_given(client: Hitherto, fakes: Fakes) -> None:
    """Each parameter in the field of its name; of a choice, one after the other."""
    for name, method in DECLARED.items():
        for turn in range(max(map(len, method._choices), default=1)):
            given, expected = filled_in(name, turn)
            call = partial(getattr(client, name), **given)
            sent = asking_twice(fakes, method._rpc, lambda call=call: paged(call()))  # type: ignore[misc]
            assert sent == expected, name
        assert method.answered, name


def filled_in(name: str, turn: int) -> tuple[dict[str, Any], Any]:
    """Every argument of a declared method, with a turn's of a choice, and its request."""
    method = DECLARED[name]
    fields = method._request.DESCRIPTOR.fields_by_name
    within = fields[method._changed].message_type.fields_by_name if method._changed else {}
    left_out = {
        each for choice in method._choices for each in choice if each != choice[turn % len(choice)]
    }
    given: dict[str, Any] = {}
    told: dict[str, Any] = dict(method._fixed)
    changes: dict[str, Any] = {}
    paths: list[str] = []
    for parameter in inspect.signature(getattr(Hitherto, name)).parameters:
        named = ALIKE.get(parameter, parameter)
        if named in {"self", "timeout", "idempotency_key", *left_out}:
            continue
        if named == "clear":
            given["clear"] = ["tags"]
        elif named in fields:
            given[parameter], told[named] = sample(fields[named])
        else:
            given[named], changes[named] = sample(within[named])
            by_key = method._by_key and isinstance(given[named], dict)
            paths.append(f"{named}.n" if by_key else named)
    if "page_token" in fields:
        told.setdefault("page_token", "t")
    if changes:
        told[method._changed] = changes
    request = json_format.ParseDict(told, method._request())
    if changes:
        request.update_mask.paths.extend([*paths, *given["clear"]])
    return given, request


def paged(reply: Any) -> None:
    """Ask for a page of what is a list."""
    if isinstance(reply, Pages):
        reply.page("t")


def asking_twice(fakes: Fakes, rpc: str, call: Callable[[], object]) -> Any:
    """What is sent, without the key of a change, which an attempt after a break has as well."""
    fakes.fail(rpc, Failure(grpc.StatusCode.UNAVAILABLE))
    call()
    first, second = fakes.calls(rpc)[-2:]
    assert first.request == second.request
    for each in (first, second):
        assert each.metadata["authorization"] == "Bearer mk_0123456789ab_secret"
    key = getattr(first.request, "idempotency_key", "")
    assert bool(key) is not changes_nothing(rpcs_of_the_contract()[rpc])
    if key:
        first.request.ClearField("idempotency_key")
    return first.request


def test_g3_the_request_is_what_was_asked_for(client: Hitherto, fakes: Fakes) -> None:
    for name, (call, expected) in OWN.items():
        sent = asking_twice(fakes, name, partial(call, client))
        assert MessageToDict(sent, preserving_proto_field_name=True) == expected, name
    for name, stream in STREAMS.items():
        stream(client)
        (asked,) = fakes.calls(name)
        assert asked.metadata["authorization"] == "Bearer mk_0123456789ab_secret", name


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


def test_health_names_what_a_service_lacks(client: Hitherto, fakes: Fakes) -> None:
    fakes.writes.health.set("language-model", 2)
    for service in (fakes.writes, fakes.reads):
        service.health.set("storage", 2)
    assert client.health()["extraction"].without == ("language-model", "storage")
    assert client.health()["retrieval"].without == ("storage",)
