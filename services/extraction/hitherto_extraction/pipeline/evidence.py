"""Derives the origin and event time of an item from the messages behind it.

The origin is bound here, from the roles of real messages; the model can only lower it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import zip_longest
from zoneinfo import ZoneInfo

from hitherto_extraction.pipeline.guards.support import JoinedWords, TextWords
from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.pipeline.trust import is_higher, least_trusted
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import SourceRef
from hitherto_shared.vocabulary.relative_dates import meant_dates

MAX_SOURCE_TEXT = 4_000
"""Maximum characters of source words in the index and the vector of a memory."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for one item of a reply.

    `text` is the part of the named messages that may be indexed; `words` are the complete messages
    that count, for comparisons only, and `days` the days on which each was said, in the user's time
    zone.
    """

    origin: str
    said_at: datetime
    sources: tuple[SourceRef, ...]
    text: str
    words: tuple[str, ...] = ()
    days: tuple[date, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether its origin is one of the more trusted ones."""
        return is_higher(self.origin)


class Witnesses:
    """The messages of one batch, by their local ids, as evidence.

    Args:
        conversation_id: Their conversation.
        messages: The messages.
        time_zone: The user's time zone, in which a message means "yesterday".
    """

    def __init__(
        self, conversation_id: str, messages: Mapping[str, StoredMessage], time_zone: str = "UTC"
    ) -> None:
        self._conversation_id = conversation_id
        self._messages = messages
        self._zone = zone_of(time_zone)
        # System text is an instruction, not evidence.
        self._speaking = {k: m for k, m in messages.items() if m.role != "system"}
        self._read: dict[tuple[str, date | None], TextWords] = {}

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages of the batch, in order."""
        return list(self._messages.values())

    def for_new(self, source_ids: Sequence[str], declared: str | None) -> Evidence:
        """Evidence of a new memory: the messages it names, else the least trusted of the batch."""
        named = self._named(source_ids)
        heard = named or list(self._speaking.values())
        return self._evidence(heard, named, declared)

    def for_change(self, source_ids: Sequence[str] | None) -> Evidence | None:
        """Evidence of a change to a known memory: the messages named, else the user's messages.

        An item that names messages of which none exists (an empty list here, not None) has no
        evidence: a change requires more than a new memory.
        """
        if source_ids is not None:
            named = self._named(source_ids)
            return self._evidence(named, named, None) if named else None
        by_user = [m for m in self._speaking.values() if m.role == "user"]
        return self._evidence(by_user or list(self._speaking.values()), [], None)

    def heard(self, evidence: Evidence) -> JoinedWords:
        """The words behind some evidence; each message is parsed once.

        A message also contributes the day on which it was said and those that its relative dates
        mean.
        """
        found = []
        for text, day in zip_longest(evidence.words, evidence.days):
            if (text, day) not in self._read:
                self._read[text, day] = TextWords(text, partial(_dates, text, day))
            found.append(self._read[text, day])
        return JoinedWords(found)

    def _named(self, source_ids: Sequence[str]) -> list[StoredMessage]:
        return [self._speaking[i] for i in source_ids if i in self._speaking]

    def _evidence(
        self, heard: list[StoredMessage], named: list[StoredMessage], declared: str | None
    ) -> Evidence:
        origins = [message.role for message in heard] or ["tool"]
        if declared is not None:
            origins.append(declared)
        latest = max(message.said_at for message in heard or self._messages.values())
        return Evidence(
            origin=least_trusted(origins),
            said_at=latest,
            sources=tuple(SourceRef(self._conversation_id, m.message_id) for m in named),
            # Sealed text does not enter an index, whatever it taught.
            text="\n".join(m.content for m in named if not m.sealed)[:MAX_SOURCE_TEXT],
            words=tuple(message.content for message in heard),
            days=tuple(_day(message.said_at, self._zone) for message in heard),
        )


def _dates(text: str, day: date | None) -> list[str]:
    return [] if day is None else [day.isoformat(), *meant_dates(text, day)]


def _day(moment: datetime, zone: ZoneInfo) -> date:
    try:
        return moment.astimezone(zone).date()
    except OverflowError:
        return moment.date()
