"""The formats by name, and reading an export in one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import IO, Any

from hitherto_client.importers import chats, memories, whatsapp
from hitherto_client.importers.reading import ExportReport, ExportUnreadable, json_values, texts
from hitherto_client.importers.values import JsonObject, mapping_of, moment, storable, text_of
from hitherto_client.importers.whatsapp_lines import DateOrder

_LOOKED_AT = 20
_SAVED_AGAIN = re.compile(r" ?\([0-9]{1,3}\)$")

Convert = Callable[[JsonObject], Iterator[JsonObject]]


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """One product's export.

    Attributes:
        title: The product, and where the export comes from.
        files: How the names of the wanted files begin, in an archive or a folder; empty
            for WhatsApp, whose names differ by language.
        convert: Makes records of one JSON value; None for WhatsApp's text.
        kinds: What it holds: transcripts, memories or both.
        pages: The names of lists of records, by which a page of them is known.
        names: Names by which a record says whose it is.
        one_person: Whether records with different names are those of different people.
    """

    title: str
    files: tuple[str, ...]
    convert: Convert | None
    kinds: tuple[str, ...]
    pages: tuple[str, ...] = ()
    names: Callable[[JsonObject], set[str]] | None = None
    one_person: bool = True


FORMATS: Mapping[str, ImportFormat] = {
    "chatgpt": ImportFormat(
        "ChatGPT: Settings, Data controls, Export data (zip)",
        ("conversations",),
        chats.chatgpt,
        ("transcripts",),
        ("conversations",),
    ),
    "claude": ImportFormat(
        "Claude: Settings, Privacy, Export data (zip)",
        ("conversations",),
        chats.claude,
        ("transcripts",),
        ("conversations",),
        names=chats.claude_people,
    ),
    "whatsapp": ImportFormat(
        "WhatsApp: a chat, More, Export chat (zip or text)", (), None, ("transcripts",)
    ),
    "mem0": ImportFormat(
        "mem0: JSON of get_all",
        ("mem0", "memories"),
        memories.mem0,
        ("memories",),
        ("results", "memories"),
        names=memories.mem0_people,
    ),
    "langgraph": ImportFormat(
        "LangGraph: items of a store as JSON lines",
        ("store", "items"),
        memories.langgraph,
        ("memories",),
        ("items",),
        names=memories.langgraph_labels,
        one_person=False,
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
        ("items", "results", "memories"),
    ),
}


def read_export(
    name: str,
    path: Path,
    report: ExportReport,
    *,
    me: str = "",
    zone: tzinfo = UTC,
    dates: DateOrder | None = None,
    undated: datetime | None = None,
) -> Iterator[JsonObject]:
    """Every record of an export, one at a time.

    A conversation of which nothing says when it was held is not among them, unless `undated` does:
    what it says would count as said today, and end what is true since.

    `me` is who is meant: the user's own name in a chat of WhatsApp, the id in mem0, the account in
    Claude's export, a label of the namespace in LangGraph's. Records of others are left out.

    With WhatsApp, `zone` is the time zone of the phone, and `dates` says which part of a date comes
    first. `undated` is the time of what has none.
    """
    records = _records(name, path, report, me, zone, dates)
    time = "" if undated is None else moment(undated.isoformat())
    return (storable(record) for record in records if _dated(record, time, report))


def _dated(record: JsonObject, undated: str, report: ExportReport) -> bool:
    """Whether the record has a time, or is a memory, which needs none; `undated` is given to it."""
    is_memory = "messages" not in record
    name = "valid_from" if is_memory else "created_at"
    timeless = [one for one in record.get("messages", [record]) if not one.get(name)]
    if undated:
        for one in timeless:
            one[name] = undated
    elif timeless and is_memory:
        report.timeless += 1
    elif timeless:
        report.undated.append(text_of(record.get("conversation_id")))
        return False
    return True


def _records(
    name: str,
    path: Path,
    report: ExportReport,
    me: str,
    zone: tzinfo,
    dates: DateOrder | None,
) -> Iterator[JsonObject]:
    wanted = FORMATS.get(name)
    if wanted is None:
        raise ValueError(f"there is no format {name!r}: there are {', '.join(FORMATS)}")
    _check_people(name, path, me)
    _check_form(name, path)
    if wanted.convert is None:
        # Before any of them is imported: what one of several chats lacks is found in all.
        for text in texts(path, whatsapp.chats_among, ExportReport()):
            with _named(text, path):
                next(_chat(text, me, zone, dates).conversations(text, ExportReport()), None)
    found = 0
    sample: object = None
    for text in texts(path, wanted.files or whatsapp.chats_among, report):
        if wanted.convert is None:
            yield from _chat(text, me, zone, dates).conversations(text, report)
            continue
        for one in _values(name, text):
            made = 0
            given = mapping_of(one)
            people = wanted.names(given) if me and wanted.names is not None else set()
            if people and me not in people:
                report.of_others += 1
                continue
            # One value of another type among them ends no import.
            for made, record in enumerate(wanted.convert(given), start=1):  # noqa: B007 - counted
                yield record
            found += made
            report.empty += not made
            if not isinstance(sample, dict):
                sample = one
    if report.empty and not found:
        raise ExportUnreadable(_unknown(name, report.empty, sample))


def _check_people(name: str, path: Path, me: str) -> None:
    """Refuse, before any of it is imported, what names several people, or nobody called `me`."""
    wanted = FORMATS[name]
    if wanted.names is None or not (me or wanted.one_person):
        return
    people: dict[str, None] = {}
    for text in texts(path, wanted.files, ExportReport()):
        for one in _values(name, text):
            people |= dict.fromkeys(sorted(wanted.names(mapping_of(one))))
            if me in people:
                return
            if not me and len(people) > 1:
                raise ExportUnreadable(
                    f"holds records of several people, such as {_quoted(people)}: name the one who"
                    " is meant with --me"
                )
    if me and people:
        raise ExportUnreadable(f"names nobody {_quoted([me])}, but {_quoted(people)}")


def _check_form(name: str, path: Path) -> None:
    """Refuse, before any of it is imported, memories that another product exports.

    They have a text that the format finds, and times that it does not. They are of the other one if
    that finds the times, and more of what each of them holds.
    """
    wanted = FORMATS[name]
    if wanted.convert is None or "memories" not in wanted.kinds:
        return
    values = (
        one for text in texts(path, wanted.files, ExportReport()) for one in _values(name, text)
    )
    likely: set[str] | None = None
    for value in islice(values, _LOOKED_AT):
        known = _known(wanted.convert, value)
        if known is None:
            continue
        better = {
            other
            for other, each in FORMATS.items()
            if each.convert is not None
            and (more := _known(each.convert, value)) is not None
            and more[0] > known[0]
            and more[1] > known[1]
        }
        likely = better if likely is None else likely & better
    if likely:
        shown = " or ".join(sorted(likely))
        raise ExportUnreadable(
            f"holds memories with times of another form; it looks like --from {shown}"
        )


class _Looked(dict[str, Any]):
    """An object that knows which of its contents were looked at."""

    def __init__(self, value: JsonObject) -> None:
        super().__init__(value)
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        if found:
            self.seen.add(key)
        return found


def _known(convert: Convert, value: object) -> tuple[bool, int] | None:
    """Whether a format finds a time in a value, and how much of it; None if it finds no memory."""
    looked = _Looked(mapping_of(value))
    memory = next((one for one in convert(looked) if "messages" not in one), None)
    return None if memory is None else (bool(memory.get("valid_from")), len(looked.seen))


def _quoted(names: Iterable[str]) -> str:
    shown = (json.dumps(name[:60], ensure_ascii=False) for name in islice(names, 5))
    return ", ".join(shown)


def _values(name: str, text: IO[str]) -> Iterator[object]:
    """The records of a text, and those of the lists that wrap them."""
    for value in json_values(text):
        for one in value if isinstance(value, list) else [value]:
            yield from _unwrapped(name, one)


def _unwrapped(name: str, value: object) -> Iterator[object]:
    """The records of a page of them, or what is none."""
    given = mapping_of(value)
    pages = [given[page] for page in FORMATS[name].pages if isinstance(given.get(page), list)]
    yield from pages[0] if pages else (value,)


def _unknown(name: str, count: int, sample: object) -> str:
    """Why a file of such records is none of the format."""
    if not isinstance(sample, dict):
        return f"is no export of {name}: it holds {sample!r:.60}"
    others = [
        other
        for other, each in FORMATS.items()
        if each.convert is not None
        and any(
            next(each.convert(mapping_of(one)), None) is not None
            for one in islice(_unwrapped(other, sample), _LOOKED_AT)
        )
    ]
    keys = ", ".join(f"`{key:.40}`" for key in list(sample)[:8]) or "nothing"
    like = f"; it looks like --from {' or '.join(others)}" if others else ""
    first = "its only record" if count == 1 else f"{count} records, the first of which"
    return f"holds nothing that {name} exports: {first} has {keys}{like}"


def _chat(text: IO[str], me: str, zone: tzinfo, dates: DateOrder | None) -> whatsapp.WhatsAppChat:
    """The chat of a text, by its name; where that is `_chat`, by that of its folder or archive.

    A number in brackets, as of what is saved under a name that exists, names no other chat.
    """
    path = Path(text.name).absolute()
    name = _SAVED_AGAIN.sub("", path.stem)
    if name == "_chat":
        name = _SAVED_AGAIN.sub("", path.parent.name)
    name = name.removeprefix("WhatsApp Chat with ").removeprefix("WhatsApp Chat - ")
    return whatsapp.WhatsAppChat(me, name, zone, dates)


@contextmanager
def _named(text: IO[str], path: Path) -> Iterator[None]:
    """Say which text of a folder or archive cannot be read."""
    try:
        yield
    except ExportUnreadable as error:
        at = Path(text.name)
        raise ExportUnreadable(str(error) if at == path else f"({at.name}) {error}") from None
