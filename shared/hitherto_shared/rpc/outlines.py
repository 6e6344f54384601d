"""Messages in which all texts and nested messages are plain bytes, to look into undecoded requests.

The protobuf runtime reads them: reading one level costs no more than its bytes, and what is nested
takes the room of its bytes instead of many times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


@dataclass(frozen=True, slots=True)
class Outline:
    """Reads a message of which every field is a list of bytes.

    `fields` are the declared texts and messages, each with the outline of what is in it.
    """

    parse: Callable[[bytes], Any]
    fields: list[tuple[FieldDescriptor, Outline | None]]


@cache
def outline_of(declared: Descriptor, *, repeated: bool = False) -> Outline:
    """The outline of a message and of all in it; if `repeated`, only with texts that are lists."""
    file = descriptor_pb2.FileDescriptorProto(
        name="outline.proto", package="outline", syntax="proto2"
    )
    messages: dict[str, Descriptor] = {}
    waiting = [declared]
    while waiting:
        message = waiting.pop()
        if message.full_name in messages:
            continue
        outlined = file.message_type.add(name=f"M{len(messages)}")
        messages[message.full_name] = message
        for field in message.fields:
            if field.message_type is not None:
                waiting.append(field.message_type)
            elif not _is_text(field, repeated):
                continue
            outlined.field.add(
                name=field.name,
                number=field.number,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    outlines: dict[str, Outline] = {}
    for number, name in enumerate(messages):
        found: Any = message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"outline.M{number}")
        )
        outlines[name] = Outline(found.FromString, [])
    for name, message in messages.items():
        for field in message.fields:
            if field.message_type is not None:
                outlines[name].fields.append((field, outlines[field.message_type.full_name]))
            elif _is_text(field, repeated):
                outlines[name].fields.append((field, None))
    return outlines[declared.full_name]


def _is_text(field: FieldDescriptor, repeated: bool) -> bool:
    return field.type in _TEXTS and (field.is_repeated or not repeated)
