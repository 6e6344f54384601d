"""JSON lines of any length, and the conversations in files: such lines, or plain `user: …` text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import conversation_pb2, memory_service_pb2
from hitherto_client.json_faults import UNREADABLE, faults

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are passed over; a transcript that is larger is better given as several."""

_MOST_PARTS = 1_000_000
"""Commas in a line: its values take many times their bytes in memory."""

_ENUMS = {
    field.name: field
    for field in memory_service_pb2.SaveMemoryRequest.DESCRIPTOR.fields
    if field.type == FieldDescriptor.TYPE_ENUM
}


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file."""

    line: int
    """Its number, from 1."""
    end: int
    """How many bytes of the file were read with it."""
    value: dict[str, Any] | None
    """The JSON object; None if there is none."""
    problem: str = ""
    """Why there is none."""


def read_records(stream: BinaryIO) -> Iterator[Record]:
    """Every line that is not blank, one at a time, the bad ones too."""
    line, end = 0, 0
    while raw := stream.readline(MAX_LINE_BYTES):
        line += 1
        end += len(raw)
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while rest := stream.readline(MAX_LINE_BYTES):
                end += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Record(line, end, None, f"is longer than {MAX_LINE_BYTES // 2**20} MiB: split it")
            continue
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8").strip()
            if text:
                yield Record(line, end, parse_object(text))
        except UnicodeDecodeError:
            yield Record(line, end, None, "is not UTF-8: save the file as UTF-8")
        except ValueError as error:
            yield Record(line, end, None, str(error))


def parse_object(line: str) -> dict[str, Any]:
    """The JSON object on a line.

    Raises:
        ValueError: There is none; the message says what is there instead.
    """
    if line.count(",") > _MOST_PARTS:
        raise ValueError("holds more than a million values: split it")
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"is not JSON ({error.msg} at column {error.colno}): each line is one JSON object"
        ) from None
    except (ValueError, RecursionError):
        raise ValueError("is JSON nested too deeply, or with a number that is too long") from None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    return found


def memory_request(record: dict[str, Any], user_id: str) -> memory_service_pb2.SaveMemoryRequest:
    """The memory that a record describes, in the fields of SaveMemoryRequest.

    Other keys are ignored, so that listed memories can be handed over again. Words such as `goal`
    stand for `MEMORY_TYPE_GOAL`.

    Args:
        record: The JSON object.
        user_id: Whose memory it is where the record does not say it.

    Raises:
        ValueError: It describes none.
    """
    if not isinstance(record.get("content"), str):
        raise ValueError("`content` is missing: it should be the statement")
    given = {
        name: _enum_name(_ENUMS[name], value) if name in _ENUMS else value
        for name, value in record.items()
    }
    request = memory_service_pb2.SaveMemoryRequest()
    fill(given, request)
    request.user_id = request.user_id or user_id
    if not request.user_id:
        raise ValueError("`user_id` is missing: add it, or name the user with --user")
    return request


def fill(record: dict[str, Any], into: Any) -> None:
    """Fill a message from proto JSON; keys that it has no field for are ignored.

    Raises:
        ValueError: A value does not fit its field.
    """
    found = next(faults(into.DESCRIPTOR, record, misread=True), None)
    if found is None:
        try:
            json_format.ParseDict(record, into, ignore_unknown_fields=True)
        except UNREADABLE:
            found = next(faults(into.DESCRIPTOR, record, more=True), None)
            if found is None:
                raise ValueError("holds a value that is out of range") from None
    if found is not None:
        raise ValueError(f"`{found.field}` {found.description}")


def _enum_name(field: FieldDescriptor, value: object) -> object:
    """`goal` as `MEMORY_TYPE_GOAL`; a word that the field does not know is refused by name."""
    if not isinstance(value, str):
        return value
    enum: Any = field.enum_type
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    name = value.strip().upper().replace("-", "_")
    name = name if name.startswith(prefix) else prefix + name
    # protobuf looks up no half of a character.
    if not name.isascii() or name not in enum.values_by_name:
        known = ", ".join(
            found.name.removeprefix(prefix).lower() for found in enum.values if found.number
        )
        raise ValueError(f"`{field.name}` should be one of {known}, and is {value!r}")
    return name


_ROLES = {
    "user": conversation_pb2.ROLE_USER,
    "assistant": conversation_pb2.ROLE_ASSISTANT,
    "system": conversation_pb2.ROLE_SYSTEM,
    "tool": conversation_pb2.ROLE_TOOL,
}
_ROLE_LINE = re.compile(rf"[ \t]*({'|'.join(_ROLES)})[ \t]*[:\uff1a][ \t]?(.*)", re.IGNORECASE)
_MAX_NAME = 200


class TranscriptError(ValueError):
    """A file cannot be read as conversations; the message names file, line and remedy."""

    def __init__(self, source: str, line: int | None, problem: str) -> None:
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {problem}")


@dataclass(frozen=True, slots=True)
class FileTranscript:
    """A transcript and where it came from."""

    transcript: conversation_pb2.Transcript
    source: str
    """The name of the file, or `stdin`."""
    line: int
    """The line on which it begins, from 1."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values to use if a file has none."""

    user_id: str = ""
    conversation_id: str = ""
    time_zone: str = ""


def read_transcripts(
    name: str, defaults: Defaults, *, stdin: BinaryIO | None = None
) -> list[FileTranscript]:
    """Read every transcript of a file.

    A file whose first character is `{` holds JSON lines: one transcript each, with the fields of
    `hitherto.v1.Transcript`; other keys are ignored, and `ended` is true unless it is given. Any
    other file is one conversation as plain text.

    `name` may be `-` for standard input. `defaults` are used where the file has none.

    Raises:
        TranscriptError: The file cannot be read or is neither of the two.
    """
    source = "stdin" if name == "-" else name
    text = _decode(_read_bytes(name, stdin), source)
    start = text.lstrip()
    if not start:
        raise TranscriptError(source, None, "is empty: it should hold conversations")
    if start[0] == "{":
        return list(_read_json_lines(text, source, defaults))
    if start[0] == "[":
        raise TranscriptError(
            source, 1, "is a JSON list: write one transcript per line instead (JSON lines)"
        )
    return [_read_text(text, source, defaults)]


def _read_bytes(name: str, stdin: BinaryIO | None) -> bytes:
    if name == "-":
        if stdin is None:
            raise TranscriptError("stdin", None, "there is no standard input to read")
        return stdin.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise TranscriptError(name, None, f"cannot be read ({problem})") from None


def _decode(raw: bytes, source: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TranscriptError(source, line, "is not UTF-8: save the file as UTF-8") from None
    return text.replace("\r\n", "\n")


def _read_json_lines(text: str, source: str, defaults: Defaults) -> Iterator[FileTranscript]:
    # Only "\n" ends a line: splitlines would also split at U+2028, which JSON allows in strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            transcript = from_record(parse_object(line), defaults)
        except ValueError as error:
            raise TranscriptError(source, number, str(error)) from None
        yield FileTranscript(transcript, source, number)


def from_record(record: dict[str, Any], defaults: Defaults) -> conversation_pb2.Transcript:
    """The transcript that a JSON object describes.

    Raises:
        ValueError: It describes none; the message says why.
    """
    messages = record.get("messages")
    if not isinstance(messages, list):
        raise ValueError("`messages` is missing: it should be a list of messages")
    rest = {key: value for key, value in record.items() if key != "messages"}
    transcript = conversation_pb2.Transcript(ended=True)
    fill(rest, transcript)
    transcript.user_id = transcript.user_id or defaults.user_id
    transcript.conversation_id = transcript.conversation_id or defaults.conversation_id
    transcript.time_zone = transcript.time_zone or defaults.time_zone
    if not transcript.user_id:
        raise ValueError("`user_id` is missing: add it, or name the user with --user")
    if not transcript.conversation_id:
        raise ValueError("`conversation_id` is missing: add it, or give one with --conversation")
    for index, message in enumerate(messages):
        try:
            transcript.messages.append(_message(message))
        except ValueError as error:
            raise ValueError(f"messages[{index}]: {error}") from None
    return transcript


def _message(record: object) -> conversation_pb2.Message:
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    message = conversation_pb2.Message(role=_role(record.get("role")))
    if not isinstance(record.get("content"), str):
        raise ValueError("`content` is missing: it should be a text")
    fill({key: value for key, value in record.items() if key != "role"}, message)
    return message


def _role(value: object) -> conversation_pb2.Role.ValueType:
    if isinstance(value, str):
        role = _ROLES.get(value.strip().lower().removeprefix("role_"))
        if role is not None:
            return role
    elif isinstance(value, int) and value in _ROLES.values():
        return conversation_pb2.Role.ValueType(value)
    raise ValueError(f"`role` should be one of {', '.join(_ROLES)}, and is {value!r}")


def _read_text(text: str, source: str, defaults: Defaults) -> FileTranscript:
    if not defaults.user_id:
        raise TranscriptError(
            source, 1, "is plain text, which does not say whose it is: name the user with --user"
        )
    transcript = conversation_pb2.Transcript(
        user_id=defaults.user_id,
        conversation_id=defaults.conversation_id or _conversation_id(source, text),
        ended=True,
        time_zone=defaults.time_zone,
    )
    first_line = 0
    for number, role, content in _text_messages(text, source):
        first_line = first_line or number
        transcript.messages.add(role=role, content=content)
    return FileTranscript(transcript, source, first_line)


def _text_messages(
    text: str, source: str
) -> Iterator[tuple[int, conversation_pb2.Role.ValueType, str]]:
    """The line, role and content of each message; lines without a role belong to the one before."""
    begin = 0
    role = conversation_pb2.ROLE_UNSPECIFIED
    lines: list[str] = []

    def finished() -> tuple[int, conversation_pb2.Role.ValueType, str]:
        content = "\n".join(lines).strip()
        if not content:
            raise TranscriptError(source, begin, "the message is empty: remove it or fill it")
        return begin, role, content

    for number, line in enumerate(text.split("\n"), start=1):
        match = _ROLE_LINE.fullmatch(line)
        if match is None:
            if begin == 0 and line.strip():
                raise TranscriptError(
                    source,
                    number,
                    "does not begin a message: it should begin with one of "
                    + ", ".join(f"`{name}:`" for name in _ROLES),
                )
            lines.append(line)
            continue
        if begin:
            yield finished()
        begin, role, lines = number, _ROLES[match[1].lower()], [match[2]]
    yield finished()


def _conversation_id(source: str, text: str) -> str:
    """An id that the same text gets again, and another text of the same name does not."""
    stem = "".join(c if c.isprintable() else "_" for c in Path(source).stem)[:_MAX_NAME]
    return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
