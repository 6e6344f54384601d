"""The public contract keeps its own rules, checked on the descriptors that clients get.

`make breaking` holds it against the main branch, and `auth/test_access_table.py` lists its RPCs.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import (
    Descriptor,
    FieldDescriptor,
    FileDescriptor,
    MethodDescriptor,
)

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos" / "hitherto" / "v1"
NO_SIDE_EFFECTS = descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS


def files() -> dict[str, FileDescriptor]:
    """Descriptors of all proto files by name, from the generated modules."""
    return {
        path.stem: importlib.import_module(f"hitherto.v1.{path.stem}_pb2").DESCRIPTOR
        for path in sorted(PROTOS.glob("*.proto"))
    }


FILES = files()
MESSAGES: dict[str, Descriptor] = {
    name: message for file in FILES.values() for name, message in file.message_types_by_name.items()
}
METHODS: list[MethodDescriptor] = [
    method
    for file in FILES.values()
    for service in file.services_by_name.values()
    for method in service.methods
]


def changes_nothing(method: MethodDescriptor) -> bool:
    return method.GetOptions().idempotency_level == NO_SIDE_EFFECTS


def field_at(message: Descriptor, path: str) -> FieldDescriptor:
    """The field at a dotted path; KeyError if there is none."""
    head, _, rest = path.partition(".")
    field = message.fields_by_name[head]
    if not rest:
        return field
    if field.message_type is None:
        raise KeyError(path)
    return field_at(field.message_type, rest)


def test_enums_are_top_level() -> None:
    assert [name for name, message in MESSAGES.items() if message.enum_types] == []


def test_the_user_is_the_first_field() -> None:
    for method in METHODS:
        own = method.input_type.fields_by_name.get("user_id")
        assert own is None or own.number == 1, method.full_name


def test_a_write_takes_an_idempotency_key_and_returns_a_consistency_token() -> None:
    for method in METHODS:
        if changes_nothing(method):
            assert "idempotency_key" not in method.input_type.fields_by_name, method.full_name
            token = field_at(method.input_type, "consistency_token")
        else:
            # A stream of memories carries the key in each item.
            path = "item.idempotency_key" if method.name == "StreamMemories" else "idempotency_key"
            key = field_at(method.input_type, path)
            assert key.type == FieldDescriptor.TYPE_STRING, method.full_name
            token = field_at(method.output_type, "consistency_token")
        assert token.type == FieldDescriptor.TYPE_STRING, method.full_name


def test_a_list_has_pages() -> None:
    for method in METHODS:
        paged = "next_page_token" in method.output_type.fields_by_name
        assert paged or not method.name.startswith("List"), method.full_name
        asks = {"page_size", "page_token"} & set(method.input_type.fields_by_name)
        assert asks == ({"page_size", "page_token"} if paged else set()), method.full_name
        if paged:
            assert method.input_type.fields_by_name["page_size"].type == FieldDescriptor.TYPE_INT32
            assert method.output_type.fields_by_number[1].is_repeated, method.full_name


def test_a_field_whose_zero_means_something_can_be_unset() -> None:
    for path in [
        "SaveMemoryRequest.importance",
        "Memory.importance",
        "SearchMemoriesRequest.min_score",
        "RecordFeedbackRequest.rating",
        *(
            f"GetContextRequest.{name}"
            for name in MESSAGES["GetContextRequest"].fields_by_name
            if name.startswith("max_")
        ),
        *(
            f"UserSettings.{name}"
            for name in MESSAGES["UserSettings"].fields_by_name
            if name != "erased"
        ),
    ]:
        message, _, field = path.partition(".")
        assert MESSAGES[message].fields_by_name[field].has_presence, path


def test_protos_import_nothing_that_a_client_would_have_to_find() -> None:
    imports = {name.name for file in FILES.values() for name in file.dependencies}
    assert {name.rpartition("/")[0] for name in imports} == {"google/protobuf", "hitherto/v1"}
