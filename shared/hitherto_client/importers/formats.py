"""The formats by name, and reading an export in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from hitherto_client.importers import chats, memories, whatsapp
from hitherto_client.importers.reading import ExportPosition, ExportUnreadable, json_values, texts
from hitherto_client.importers.values import JsonObject

_JOINED = 1_000

Convert = Callable[[JsonObject], Iterator[JsonObject]]


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """One product's export.

    Attributes:
        title: The product, and where the export comes from.
        files: How the names of the wanted files begin, in an archive or a folder.
        convert: Makes records of one JSON value; None for WhatsApp's text.
        kinds: What it holds: transcripts, memories or both.
    """

    title: str
    files: tuple[str, ...]
    convert: Convert | None
    kinds: tuple[str, ...]


FORMATS: Mapping[str, ImportFormat] = {
    "chatgpt": ImportFormat(
        "ChatGPT: Settings, Data controls, Export data (zip)",
        chats.CHATGPT_FILES,
        chats.chatgpt,
        ("transcripts",),
    ),
    "claude": ImportFormat(
        "Claude: Settings, Privacy, Export data (zip)",
        chats.CLAUDE_FILES,
        chats.claude,
        ("transcripts",),
    ),
    "whatsapp": ImportFormat(
        "WhatsApp: a chat, More, Export chat (zip or text)", whatsapp.FILES, None, ("transcripts",)
    ),
    "mem0": ImportFormat(
        "mem0: JSON of get_all", ("mem0", "memories"), memories.mem0, ("memories",)
    ),
    "langgraph": ImportFormat(
        "LangGraph: items of a store as JSON lines",
        ("store", "items"),
        memories.langgraph,
        ("memories",),
    ),
    "letta": ImportFormat(
        "Letta: an agent file (.af), or passages as JSON",
        ("agent", "passages"),
        memories.letta,
        ("memories", "transcripts"),
    ),
    "hindsight": ImportFormat(
        "Hindsight: JSON of a bank's memory list",
        ("memories", "bank"),
        memories.hindsight,
        ("memories",),
    ),
    "hitherto": ImportFormat(
        "Hitherto: the file of `hitherto export`",
        ("export",),
        memories.hitherto,
        ("memories", "transcripts"),
    ),
}


def read_export(
    name: str,
    path: Path,
    position: ExportPosition,
    *,
    me: str = "",
    zone: tzinfo = UTC,
    dates: whatsapp.DateOrder | None = None,
) -> Iterator[JsonObject]:
    """Every record of an export, one at a time.

    Args:
        name: The format.
        path: The file, archive or folder.
        position: Receives the progress.
        me: With WhatsApp, the user's own name in the chat.
        zone: With WhatsApp, the time zone of the phone.
        dates: With WhatsApp, which part of a date comes first.

    Raises:
        ExportUnreadable: It is not such an export.
    """
    records = _records(name, path, position, me, zone, dates)
    return _joined(records) if name == "hitherto" else records


def _records(
    name: str,
    path: Path,
    position: ExportPosition,
    me: str,
    zone: tzinfo,
    dates: whatsapp.DateOrder | None,
) -> Iterator[JsonObject]:
    wanted = FORMATS[name]
    for text in texts(path, wanted.files, position):
        if wanted.convert is None:
            chat = whatsapp.WhatsAppChat(me, _chat_name(path), zone, dates)
            yield from chat.conversations(text)
            continue
        for value in json_values(text):
            # Some products wrap the list in another one.
            for one in value if isinstance(value, list) else [value]:
                if not isinstance(one, dict):
                    raise ExportUnreadable(f"is no export of {name}: it holds {one!r:.60}")
                yield from wanted.convert(one)


def _joined(records: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """Join the messages of one conversation, which our export has one by one, to transcripts."""
    held: JsonObject | None = None
    for record in records:
        same = held is not None and record.get("conversation_id") == held["conversation_id"]
        if held is not None and same and "messages" in record and len(held["messages"]) < _JOINED:
            held["messages"] += record["messages"]
            continue
        if held is not None:
            yield held
        held = record if "messages" in record else None
        if held is None:
            yield record
    if held is not None:
        yield held


def _chat_name(path: Path) -> str:
    return path.stem.removeprefix("WhatsApp Chat with ").removeprefix("WhatsApp Chat - ")
