"""Takes secrets out of a request before anything else reads it.

Every RPC that accepts words passes here: what it stores, embeds or shows to a model is what this
leaves. The user's setting says what happens (H7); it is only asked for if there is a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from hitherto.v1 import extraction_service_pb2
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.metrics import SECRETS_REDACTED
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.normalise import unusable_characters
from hitherto_shared.text.redaction import Redacted, anchors_in, redact_named

WORDS: Mapping[str, Sequence[str]] = {
    "Message": ("name", "content"),
    "Document": ("title", "summary", "content", "author"),
    "SaveMemoryRequest": ("content", "detail", "tags", "keywords"),
    "Memory": ("content", "detail", "tags", "keywords", "entities"),
    "ForgetMemoryRequest": ("reason",),
    "RestoreMemoryRequest": ("reason",),
    "ReviewMemoryRequest": ("reason",),
    "Profile": ("summary", "current_projects", "frequent_intents"),
    "ResponseEdit": ("original", "edited"),
    "AddPendingActionRequest": ("description",),
}
"""The fields with words, by message; free JSON is always searched."""

_WORK_OF_A_PART = 200
"""The minimum work of walking through a message, in characters read."""
_MAX_USER_ID = 256
_STRUCT = Struct.DESCRIPTOR.full_name

Sent = TypeVar("Sent", bound=Message)


@dataclass(frozen=True, slots=True)
class Screening:
    """Redacts requests.

    `handling` (`redact` or `off`) applies to users who did not choose.
    """

    database: Database
    handling: str

    async def screened(self, tenant_id: str, request: Sent, *, seconds: float) -> Sent:
        """The request without its secrets, unless its users have redaction off.

        `seconds` limits the look-up of settings. The request itself stays unchanged.
        """
        size = request.ByteSize()
        parts = _parts(request)
        found = await in_thread_if_long(size + _WORK_OF_A_PART * len(parts), _with_secrets, parts)
        if not found:
            return request
        handlings = await self._handlings(tenant_id, {each for each, _ in found}, seconds)
        if all(handlings[user_id] == "off" for user_id, _ in found):
            return request
        return await in_thread_if_long(size, _redacted, request, handlings)

    async def _handlings(
        self, tenant_id: str, user_ids: set[str], seconds: float
    ) -> Mapping[str, str]:
        async def read(connection: Connection) -> dict[str, str]:
            chosen = {}
            for user_id in sorted(user_ids):
                # One that no user can have is refused later.
                if len(user_id) <= _MAX_USER_ID and unusable_characters(user_id) is None:
                    state = await users.read_user(connection.of(Scope(tenant_id, user_id)))
                    chosen[user_id] = state.redact_secrets if state is not None else None
            return {user_id: chosen.get(user_id) or self.handling for user_id in user_ids}

        return await self.database.run(read, timeout=seconds, repeatable=True)


def _parts(request: Any) -> list[tuple[str, Message]]:
    """The parts of a request, each with the user that it is about."""
    if isinstance(request, extraction_service_pb2.SubmitTranscriptsRequest):
        return [(transcript.user_id, transcript) for transcript in request.transcripts]
    for name in ("transcript", "item"):
        if name in request.DESCRIPTOR.fields_by_name:
            inner = getattr(request, name)
            return [(inner.user_id, inner)]
    return [(request.user_id, request)]


def _with_secrets(parts: Sequence[tuple[str, Message]]) -> list[tuple[str, Message]]:
    return [(user_id, part) for user_id, part in parts if any(_secrets(part))]


def _redacted(request: Sent, handlings: Mapping[str, str]) -> Sent:
    copy = type(request)()
    copy.CopyFrom(request)
    names: Counter[str] = Counter()
    for user_id, part in _parts(copy):
        if handlings.get(user_id, "off") != "off":
            for words, redacted in list(_secrets(part)):
                words.become(redacted.text)
                names.update(redacted.names)
    for name, count in names.items():
        SECRETS_REDACTED.labels(name).inc(count)
    return copy


@dataclass(frozen=True, slots=True)
class _Words:
    """A text: where it stands, and the name of its field if it is in free JSON."""

    holder: Any
    place: str | int
    text: str
    name: str = ""

    def become(self, text: str) -> None:
        """Put another text in its place."""
        if isinstance(self.place, int):
            self.holder[self.place] = text
        else:
            setattr(self.holder, self.place, text)


def _secrets(message: Any) -> Iterator[tuple[_Words, Redacted]]:
    """The texts with secrets in a message and those within, and what is left of each."""
    words = list(_words(message))
    anchors = anchors_in("\n".join([each.text for each in words]))
    for each in words:
        redacted = redact_named(each.name, each.text, anchors)
        if redacted.names:
            yield each, redacted


def _words(message: Any) -> Iterator[_Words]:
    names = WORDS.get(message.DESCRIPTOR.name, ())
    for field, value in message.ListFields():
        if field.name in names:
            if field.is_repeated:
                for index, text in enumerate(value):
                    yield _Words(value, index, text)
            else:
                yield _Words(message, field.name, value)
        elif field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        elif field.message_type.full_name == _STRUCT:
            yield from _words_of_json(value)
        elif field.message_type.file is not Struct.DESCRIPTOR.file:
            for inner in value if field.is_repeated else (value,):
                yield from _words(inner)


def _words_of_json(value: Struct) -> Iterator[_Words]:
    pending: list[tuple[str, Value]] = [*value.fields.items()]
    while pending:
        key, item = pending.pop()
        kind = item.WhichOneof("kind")
        if kind == "string_value":
            yield _Words(item, "string_value", item.string_value, key)
        elif kind == "struct_value":
            pending.extend(item.struct_value.fields.items())
        elif kind == "list_value":
            pending.extend((key, each) for each in item.list_value.values)
