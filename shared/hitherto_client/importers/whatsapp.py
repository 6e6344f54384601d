"""The text that WhatsApp writes when a chat is exported."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import IO, Literal

from hitherto_client.importers.reading import ExportUnreadable
from hitherto_client.importers.values import JsonObject, messages_of

FILES = ("_chat.txt", "WhatsApp")
DateOrder = Literal["day", "month", "year"]

_SILENCE = timedelta(hours=6)
"""After which a chat counts as a new conversation."""

# `[21.08.26, 14:30:05] Ana: …` of an iPhone, `8/21/26, 2:30 PM - Ana: …` of Android.
_LINE = re.compile(
    r"\[?(?P<a>\d{1,4})[./-](?P<b>\d{1,2})[./-](?P<c>\d{1,4}),? "
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    r"(?: ?(?P<half>[AaPp])\.? ?[Mm]\.?)?(?:\]| -) (?P<rest>.*)"
)
_MARKS = str.maketrans(
    {"\u200e": None, "\u200f": None, "\u202f": " ", "\u00a0": " ", "\ufeff": None}
)
_LONGEST_NAME = 80
_LONGEST_LINE, _LONGEST_CHAT = 16 << 20, 32 << 20
"""Characters; all of a chat is read before its first conversation is handed over."""
_MEDIA = re.compile(r"<[^<>]{1,40}>|\(file attached\)|.{1,80} omitted")


class WhatsAppChat:
    """One exported chat.

    Args:
        me: The user's own name in the chat.
        name: The chat's name, for the ids of its conversations.
        zone: The time zone of the phone.
        order: Which part of a date comes first; None: what the dates themselves show.
    """

    def __init__(
        self, me: str, name: str, zone: tzinfo = UTC, order: DateOrder | None = None
    ) -> None:
        self._me = me.strip().casefold()
        self._name = name
        self._zone = zone
        self._order = order

    def conversations(self, text: IO[str]) -> Iterator[JsonObject]:
        """The chat, cut into conversations where it was silent for six hours.

        Other people's messages are the user's chat, but not the user's words: they carry the name
        of who wrote them.

        Raises:
            ExportUnreadable: It is no such chat, or the order of its dates cannot be told.
        """
        lines = list(_entries(_lines(text)))
        if not lines:
            raise ExportUnreadable("holds no lines such as `21/08/2026, 14:30 - Ana: Hello`")
        order = self._order or _order_of(lines)
        names = {name.casefold() for _, name, _ in lines}
        if self._me not in names:
            known = ", ".join(sorted({name for _, name, _ in lines})[:10])
            raise ExportUnreadable(f"has no messages of that name: --me is one of {known}")
        current: list[JsonObject] = []
        last: datetime | None = None
        repeated = Counter[str]()
        for found, name, said in lines:
            at = _time(found, order, self._zone)
            if at is None or _MEDIA.fullmatch(said):
                continue
            if last is not None and at - last > _SILENCE:
                yield from self._conversation(current)
                current = []
            last = at
            key = f"{at.isoformat()}|{name}|{said}"
            repeated[key] += 1
            digest = hashlib.sha256(f"{key}|{repeated[key]}".encode()).hexdigest()[:24]
            current.append(
                {
                    "id": digest,
                    "role": "user",
                    "name": name,
                    "content": said,
                    "created_at": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                    "metadata": {"imported_from": "whatsapp", "chat": self._name},
                }
            )
        yield from self._conversation(current)

    def _conversation(self, messages: list[JsonObject]) -> Iterator[JsonObject]:
        kept = messages_of(messages)
        if kept:
            began = str(kept[0]["created_at"])[:16]
            yield {"conversation_id": f"whatsapp:{self._name}:{began}", "messages": kept}


def _lines(text: IO[str]) -> Iterator[str]:
    held: list[str] = []
    size = characters = 0
    while piece := text.read(1 << 16):
        characters += len(piece)
        first, *further = piece.split("\n")
        held.append(first)
        size = len(further[-1]) if further else size + len(first)
        if size > _LONGEST_LINE or characters > _LONGEST_CHAT:
            raise ExportUnreadable("is too long for a chat, in a line or in all")
        for line in further:
            yield "".join(held)
            held = [line]
    if any(held):
        yield "".join(held)


def _entries(lines: Iterable[str]) -> Iterator[tuple[re.Match[str], str, str]]:
    """Each message with who wrote it; lines that continue it belong to it, notices do not count."""
    current: tuple[re.Match[str], str, list[str]] | None = None
    for raw in lines:
        line = raw.rstrip("\r").translate(_MARKS)
        found = _LINE.match(line)
        if found is None:
            if current is not None:
                current[2].append(line)
            continue
        if current is not None:
            yield current[0], current[1], "\n".join(current[2]).strip()
        name, colon, said = found["rest"].partition(": ")
        # Without a name it is a notice, such as "Messages are end-to-end encrypted".
        wrote = bool(colon) and 0 < len(name) <= _LONGEST_NAME
        current = (found, name.strip(), [said]) if wrote else None
    if current is not None:
        yield current[0], current[1], "\n".join(current[2]).strip()


def _order_of(lines: list[tuple[re.Match[str], str, str]]) -> DateOrder:
    first = max(int(found["a"]) for found, _, _ in lines)
    second = max(int(found["b"]) for found, _, _ in lines)
    if first > 31:
        return "year"
    if first > 12:
        return "day"
    if second > 12:
        return "month"
    raise ExportUnreadable(
        "has dates that can be read in two ways: say which part comes first, with --dates day or"
        " --dates month"
    )


def _time(found: re.Match[str], order: DateOrder, zone: tzinfo) -> datetime | None:
    a, b, c = int(found["a"]), int(found["b"]), int(found["c"])
    year, month, day = {"year": (a, b, c), "day": (c, b, a), "month": (c, a, b)}[order]
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] in "Pp" else 0)
    try:
        return datetime(
            year + 2000 if year < 100 else year,
            month,
            day,
            hour,
            int(found["minute"]),
            int(found["second"] or 0),
            tzinfo=zone,
        )
    except ValueError:
        return None
