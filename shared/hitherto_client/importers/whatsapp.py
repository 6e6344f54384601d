"""The text that WhatsApp writes when a chat is exported."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import IO

from hitherto_client.importers.reading import ExportReport, ExportUnreadable
from hitherto_client.importers.values import JsonObject, messages_of
from hitherto_client.importers.whatsapp_lines import (
    DateOrder,
    Stamp,
    check_clock,
    order_of,
    stamped,
    words_of,
)

_SILENCE = timedelta(hours=6)
"""After which a chat counts as a new conversation."""

_LONGEST_NAME = 80
_LONGEST_LINE, _LONGEST_CHAT = 16 << 20, 32 << 20
"""Characters; all of a chat is read before its first conversation is handed over."""
_COLON = re.compile("[:\uff1a]")
_QUOTES = (("\u201c", "\u201d"), ("\u00ab", "\u00bb"), ("\u300c", "\u300d"))

_Entry = tuple[Stamp, str, str]


def chats_among(names: Sequence[str]) -> list[str]:
    """The texts of chats among the files of an export; the others were sent in the chat.

    iPhones call the text `_chat.txt`, Android phones after the chat, in their language.
    """
    texts = [name for name in names if name.casefold().endswith(".txt")]
    own = [name for name in texts if name.rpartition("/")[2] == "_chat.txt"]
    return own or [name for name in texts if "whatsapp" in name.casefold()] or texts


class WhatsAppChat:
    """One exported chat.

    `name` gives the ids of its conversations. Without `order`, the dates themselves show which part
    of them comes first.
    """

    def __init__(
        self, me: str, name: str, zone: tzinfo = UTC, order: DateOrder | None = None
    ) -> None:
        self._me = me.strip().casefold()
        self._name = name
        self._zone = zone
        self._order = order

    def conversations(self, text: IO[str], report: ExportReport) -> Iterator[JsonObject]:
        """The chat, cut into conversations where it was silent for six hours.

        Other people's messages are the user's chat, but not the user's words: they carry the name
        of who wrote them, and what they say while the user says nothing is left out.

        `report` receives the number of lines that are left out.
        """
        lines = list(_entries(_lines(text), report))
        if not lines:
            raise ExportUnreadable("holds no lines such as `21/08/2026, 14:30 - Ana: Hello`")
        order = self._order or order_of(stamp for stamp, _, _ in lines)
        check_clock(stamp for stamp, _, _ in lines)
        names = {name.casefold() for _, name, _ in lines}
        if self._me not in names:
            known = ", ".join(sorted({name for _, name, _ in lines})[:10])
            raise ExportUnreadable(f"has no messages of that name: --me is one of {known}")
        current: list[JsonObject] = []
        last: datetime | None = None
        repeated = Counter[str]()
        for stamp, name, written in lines:
            at, said = stamp.at(order, self._zone), words_of(written)
            if at is None or not said:
                report.notices += 1
                continue
            if last is not None and at - last > _SILENCE:
                yield from self._conversation(current, report)
                current = []
            last = at
            own = name.casefold() == self._me
            key = f"{at.isoformat()}|{name}|{said}"
            repeated[key] += 1
            digest = hashlib.sha256(f"{key}|{repeated[key]}".encode()).hexdigest()[:24]
            current.append(
                {
                    "id": digest,
                    "role": "user",
                    "name": "" if own else name,
                    "content": said,
                    "created_at": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                    "metadata": {"imported_from": "whatsapp", "chat": self._name},
                }
            )
        yield from self._conversation(current, report)

    def _conversation(
        self, messages: list[JsonObject], report: ExportReport
    ) -> Iterator[JsonObject]:
        kept = messages_of(messages)
        if all(each["name"] for each in messages):
            report.notices += len(messages)
        elif kept:
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


def _entries(lines: Iterable[str], report: ExportReport) -> Iterator[_Entry]:
    """Each message with who wrote it; lines that continue it belong to it, notices do not count."""
    current: tuple[Stamp, str, list[str]] | None = None
    for raw in lines:
        line = raw.rstrip("\r").replace("\u202f", " ").replace("\u00a0", " ")
        found = stamped(line)
        if found is None:
            if current is not None:
                current[2].append(line)
            elif line.strip("\ufeff \u200e"):
                report.notices += 1
            continue
        if current is not None:
            yield current[0], current[1], "\n".join(current[2]).strip(" \n")
        stamp, rest = found
        current = None
        writer = _writer(rest)
        if writer is None:
            # Without a name it is a notice, such as "Messages are end-to-end encrypted".
            report.notices += 1
        else:
            current = (stamp, writer[0], [writer[1]])
    if current is not None:
        yield current[0], current[1], "\n".join(current[2]).strip(" \n")


def _writer(rest: str) -> tuple[str, str] | None:
    """The name before the colon and what follows it; None in a notice."""
    for colon in islice(_COLON.finditer(rest, 0, _LONGEST_NAME + 8), 3):
        name, said = rest[: colon.start()], rest[colon.end() :]
        of_a_link = said.startswith("//")
        of_a_time = name[-1:].isdigit() and said[:1].isdigit()
        if of_a_link or of_a_time:
            continue
        name = name.strip(" \u200e\u200f\u202a\u202c\u2068\u2069")
        # A colon inside quotation marks stands in the name of a group, say.
        quoted = any(name.count(left) != name.count(right) for left, right in _QUOTES)
        if quoted or name.count('"') % 2 or not 0 < len(name) <= _LONGEST_NAME:
            return None
        return name, said.strip(" ")
    return None
