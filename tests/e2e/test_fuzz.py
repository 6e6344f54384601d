"""Row 50 of the fault catalogue: random messages and random byte strings for every RPC.

Sixteen for each, of which some are bytes; `make faults` tries 320.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_shared.auth.principal import DEFAULT_TENANT
from tests.e2e.conftest import Services
from tests.e2e.methods import OFFERED, Method, call, documented, every_offered_method, read_refusal
from tests.e2e.requests import NOBODY, valid
from tests.tenants import Tenant

pytestmark = pytest.mark.usefixtures("apart")

ALLOWED = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "ABORTED",
}
"""What a request alone may lead to on services in good health."""

NASTY = st.sampled_from(
    [
        "",
        " ",
        "ana",
        "c1",
        NOBODY,
        "\x00",
        "a\x00b",
        "\x1b[31m",
        "x" * 257,
        "Đà Nẵng",
        "e\u0301" * 200,
        "\u202e\u200b\ufeff",
        "👩‍👩‍👧",
        "\U0010ffff",
        "'; DROP TABLE users; --",
        "%s $1 {0} \\",
        "created_at",
        "balanced",
        "Europe/Berlin",
        "{{profile}} {% for x in y %}",
    ]
)
# No surrogates: no client can put them into a string field; bytes in their place come below.
TEXT = NASTY | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
WHOLE = st.sampled_from([0, 1, -1, 2, 10, 99, 2**31 - 1, -(2**31)]) | st.integers(-5, 300)
REAL = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324]) | st.floats()
MOMENT = st.builds(
    Timestamp,
    seconds=st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**36), 2**36),
    nanos=st.sampled_from([0, 1, -1, 999_999_999, 1_000_000_000, 2**31 - 1]),
)


# Pieces of an export, which are whole lines or not.
PIECE = st.sampled_from(
    [
        b'{"table": "users", "row": {"tenant_id": "t", "user_id": "u"}}',
        b'{"table": "memories", "row": {}, "lost": true}\n',
        b'{"table": "jobs", "row": {}}\n',
        b"\n\n",
        b"\xff",
        b"[" * 5_000,
    ]
) | st.binary(max_size=60)
UNSET = object()
"""Stands for a Value with no kind at all."""


def _value(given: Any) -> Value:
    value = Value()
    if given is None:
        value.null_value = struct_pb2.NULL_VALUE
    elif isinstance(given, bool):
        value.bool_value = given
    elif isinstance(given, float):
        value.number_value = given
    elif isinstance(given, str):
        value.string_value = given
    elif isinstance(given, list):
        value.list_value.SetInParent()
        value.list_value.values.extend(_value(item) for item in given)
    elif isinstance(given, dict):
        value.struct_value.CopyFrom(_struct(given))
    return value


def _struct(given: dict[str, Any]) -> Struct:
    struct = Struct()
    for key, item in given.items():
        struct.fields[key].CopyFrom(_value(item))
    return struct


JSON = st.recursive(
    st.none() | st.booleans() | REAL | TEXT | st.just(UNSET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
STRUCT = st.builds(_struct, st.dictionaries(TEXT, JSON, max_size=4))


def messages(kind: type[Message], depth: int = 0) -> st.SearchStrategy[Message]:
    """Random messages of this type: any field set or not, in any combination."""
    if kind.DESCRIPTOR.full_name == Struct.DESCRIPTOR.full_name:
        return STRUCT
    if kind.DESCRIPTOR.full_name == Timestamp.DESCRIPTOR.full_name:
        return MOMENT
    fields = {field.name: _field(field, depth) for field in kind.DESCRIPTOR.fields}

    def build(given: dict[str, Any]) -> Message:
        made = kind()
        for name, value in given.items():
            here = getattr(made, name)
            if isinstance(value, list):
                here.extend(value)
            elif isinstance(value, dict):
                for key, item in value.items():
                    if isinstance(item, Message):
                        here[key].CopyFrom(item)
                    else:
                        here[key] = item
            elif isinstance(value, Message):
                here.CopyFrom(value)
            else:
                setattr(made, name, value)
        return made

    return st.fixed_dictionaries({}, optional=fields).map(build)


def _field(field: Any, depth: int) -> st.SearchStrategy[Any]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
        return st.dictionaries(_one(key, depth), _one(value, depth), max_size=3)
    one = _one(field, depth)
    return st.lists(one, max_size=4) if field.is_repeated else one


def _one(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type), depth + 1)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([0, 1, 2, 3, 4, 99, -1])
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return st.floats(width=32)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return REAL
    if field.type == FieldDescriptor.TYPE_STRING:
        return TEXT
    if field.type == FieldDescriptor.TYPE_BYTES:
        return PIECE
    if field.type == FieldDescriptor.TYPE_INT64:
        return WHOLE | st.sampled_from([2**63 - 1, -(2**63)])
    assert field.type == FieldDescriptor.TYPE_INT32, field.full_name
    return WHOLE


async def _judged(services: Services, method: Method, request: Message | bytes) -> None:
    try:
        await call(services, method, request)
    except grpc.aio.AioRpcError as error:
        refusal = documented(read_refusal(error))
        assert refusal.code.name in ALLOWED, refusal


@pytest.fixture(autouse=True)
async def still_answers(services: Services) -> AsyncIterator[None]:
    """Whatever was sent, both services answer afterwards."""
    yield
    await services.retrieval.GetContext(retrieval.GetContextRequest(user_id="ana"), timeout=120)
    await services.extraction.ListJobs(extraction.ListJobsRequest(), timeout=120)


REQUESTS = {method.name: messages(method.request) for method in OFFERED}


@pytest.fixture
def tenant() -> Tenant:
    """The operator's, who may make every call."""
    return Tenant(DEFAULT_TENANT)


EXAMPLES = 320 if settings().max_examples > 100 else 16
"""For each call. Row 50 is proven by `make faults`, with `--hypothesis-profile=thorough`; a usual
run sends a few, since making them costs more than answering them."""


@every_offered_method
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    # The same messages at every run, so that a failure is the change's and not the day's.
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), how=st.sampled_from(["alone", "over a valid one", "one field", "bytes"]))
async def test_random_requests(
    services: Services, method: Method, data: st.DataObject, how: str
) -> None:
    """Random messages, most of them on top of a valid request so that they get further in; random
    bytes, and valid requests with some of them in place of their own."""
    if how == "bytes":
        whole = valid(method).SerializeToString() or b"\x0a\x03ana"
        sent, at = data.draw(st.binary(max_size=60)), data.draw(st.integers(0, 30))
        spoilt = whole[:at] + sent + whole[at + 2 :]
        await _judged(services, method, spoilt if data.draw(st.booleans()) else sent)
        return
    drawn = data.draw(REQUESTS[method.name])
    if how == "alone":
        request = drawn
    else:
        request = valid(method)
        if how == "one field" and (given_fields := drawn.ListFields()):
            kept = data.draw(st.sampled_from([field.name for field, _ in given_fields]))
            for field, _ in given_fields:
                if field.name != kept:
                    drawn.ClearField(field.name)
        request.MergeFrom(drawn)
    await _judged(services, method, request)
