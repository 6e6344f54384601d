"""JSON over HTTP: written and read as by protobuf's own writer and reader."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hitherto_client.http_door.methods import contract_services, methods_of
from hitherto_client.http_door.reply_json import write_reply
from hitherto_client.http_door.request_json import read_request

METHODS = methods_of(contract_services())
TEXTS = ["", "ana", "Tôi sống ở Hà Nội", "👩🏽‍🚀", 'مرحبا "日本"\\\n\x7f\u2028', "a" * 50]
WHOLE = [0, 1, 3, 2**31 - 1]
REALS = [0.0, -0.0, 1.0, 0.1, -2.5e-9, 1e300, 123456789.125]
FREE = [{}, {"a": 1, "b": [True, None, {"c": "d"}, []], "": -0.5}, {"n": [1e20, 0.1, 123456789012]}]
WELL_KNOWN: dict[str, list[Any]] = {
    "Timestamp": [
        "1970-01-01T00:00:00Z",
        "2026-08-21T18:42:10.5Z",
        "1969-12-31T23:59:59.000001Z",
        "9999-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
    ],
    "Duration": ["0s", "1.5s", "-3.000000001s"],
    "FieldMask": ["", "content,profile.updatedAt"],
    "Struct": FREE,
    "Value": [None, 0, 1.5, "x", True, [1, {"a": None}], {}],
    "ListValue": [[], [1, "x", None]],
}


def one(field: Any, some: random.Random, depth: int) -> Any:
    """Some value of a field, as JSON."""
    if field.message_type is not None:
        name = field.message_type.name
        if field.message_type.full_name.startswith("google.protobuf."):
            return some.choice(WELL_KNOWN[name])
        return filled(field.message_type, some, depth + 1)
    if field.enum_type is not None:
        return some.choice([value.name for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return some.choice(["", "AAEC/w=="])
    known: dict[int, list[Any]] = {
        FieldDescriptor.CPPTYPE_STRING: TEXTS,
        FieldDescriptor.CPPTYPE_BOOL: [False, True],
        FieldDescriptor.CPPTYPE_DOUBLE: [*REALS, "NaN", "-Infinity"],
        FieldDescriptor.CPPTYPE_FLOAT: [0.0, 0.1, 1.0, 3.4e38, "Infinity", 16777216, 1e-7],
        FieldDescriptor.CPPTYPE_INT64: [*WHOLE, 2**63 - 1, -(2**63)],
    }
    return some.choice(known.get(field.cpp_type, WHOLE))


def filled(kind: Any, some: random.Random, depth: int = 0) -> dict[str, Any]:
    """A random message, as JSON: any field set or not."""
    told: dict[str, Any] = {}
    chosen = {choice.name: some.choice(choice.fields).name for choice in kind.oneofs}
    for field in kind.fields:
        choice = field.containing_oneof
        if some.random() < 0.4 or (choice and chosen[choice.name] != field.name) or depth > 4:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
            told[field.json_name] = {
                str(one(key, some, depth)): one(value, some, depth) for _ in range(2)
            }
        elif field.is_repeated:
            told[field.json_name] = [one(field, some, depth) for _ in range(some.randrange(3))]
        else:
            told[field.json_name] = one(field, some, depth)
    return told


@pytest.mark.parametrize("seed", range(4))
def test_any_message(seed: int) -> None:
    some = random.Random(seed)
    for method in METHODS.values():
        for kind in (method.request, method.response):
            given = filled(kind.DESCRIPTOR, some)
            message: Message = json_format.ParseDict(given, kind())
            assert read_request(kind, json.dumps(given).encode()) == message
            assert json.loads(write_reply(message)) == json_format.MessageToDict(message)
