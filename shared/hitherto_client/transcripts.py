"""Conversations in files: JSON lines of transcripts, or plain `user: …` text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hitherto.v1 import conversation_pb2
from hitherto_client.records import fill, parse_object

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
        # An import is of many conversations, so it has no such option.
        raise ValueError(
            "`conversation_id` is missing: add it, or name it with `hitherto submit --conversation`"
        )
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
