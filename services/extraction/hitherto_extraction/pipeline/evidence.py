"""Derives the origin and event time of an item from the messages behind it.

The origin is bound here, from the roles of real messages; the model can only lower it. A change of
something known needs a quote that stands in one of the messages it cites: that message bears it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from hitherto_extraction.pipeline.answer import Cited
from hitherto_extraction.pipeline.prompt import zone_of
from hitherto_extraction.pipeline.quotes import contains, stands_in
from hitherto_extraction.pipeline.trust import is_higher, least_trusted
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import SourceRef

MAX_SOURCE_TEXT = 4_000
"""Maximum characters of source words in the index and the vector of a memory."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for one item of a reply.

    Attributes:
        origin: The level of trust of what it says.
        of_all: The least trusted speaker of the messages that the item names.
        sources: The messages that the item names.
        text: The part of the named messages that may be indexed.
        words: The complete messages that count, for comparisons only.
        days: The days on which each was said, in the person's time zone.
        quote: The words that the model copied; empty for a new statement.
        quoted: The message in which they stand.
    """

    origin: str
    said_at: datetime
    sources: tuple[SourceRef, ...]
    text: str
    words: tuple[str, ...] = ()
    days: tuple[date, ...] = ()
    quote: str = ""
    quoted: SourceRef | None = None
    of_all: str = ""

    @property
    def trusted(self) -> bool:
        """Whether its origin is one of the more trusted ones."""
        return is_higher(self.origin)


class ChangeRefused(Exception):
    """A change that a reply asks for is not made; `reason` is the key of a count."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Witnesses:
    """The messages of one batch, by their local ids, as evidence.

    `time_zone` is the person's, in which a message means "yesterday".
    """

    def __init__(
        self, conversation_id: str, messages: Mapping[str, StoredMessage], time_zone: str = "UTC"
    ) -> None:
        self._conversation_id = conversation_id
        self._messages = messages
        self._zone = zone_of(time_zone)
        # System text is an instruction, not evidence.
        self._speaking = {k: m for k, m in messages.items() if m.role != "system"}

    def speaks_for_user(self, said: SourceRef, *, beside_unnamed: bool = False) -> bool:
        """Whether a message of the role `user` may be the user's own.

        Beside messages without a name, of the batch or (`beside_unnamed`) of the conversation,
        those with one are other people's. Where all have names, people share the account.
        """
        users = [each for each in self.messages if each.role == "user"]
        named = {each.message_id: _name_of(each) for each in users}
        return not named.get(said.message_id) or not (beside_unnamed or "" in named.values())

    def _own_first(self, messages: Iterable[StoredMessage]) -> list[StoredMessage]:
        """Messages with those of the role `user` first, and of these with those without a name."""
        return sorted(messages, key=lambda each: (not is_higher(each.role), bool(_name_of(each))))

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages of the batch, in order."""
        return list(self._messages.values())

    def for_new(self, source_ids: Sequence[str], declared: str | None) -> Evidence:
        """Evidence of a new memory: the messages it names, else the least trusted of the batch."""
        named = self._named(source_ids)
        heard = named or list(self._speaking.values())
        return self._evidence(heard, named, declared)

    def for_change(self, cited: Cited) -> Evidence:
        """Evidence of a change: the message in which its quote stands; refused if there is none.

        It is sought in the messages that the change names, or in the user's if it names none. Of
        several with the same words, the user's own counts.
        """
        named = self._cited(cited)
        heard = named or [m for m in self._speaking.values() if m.role == "user"]
        heard = heard or list(self._speaking.values())
        if not cited.quote:
            raise ChangeRefused("refused_without_quote")
        for message in self._own_first(heard):
            if stands_in(cited.quote, message.content):
                return self._quoted(cited, message, heard, named)
        raise ChangeRefused("refused_quote")

    def for_own_words(self, cited: Cited, text: str) -> Evidence:
        """Evidence of a value that cites no words: a user's message, or name, that contains it."""
        for message in self._own_first(self._cited(cited) or self._speaking.values()):
            if is_higher(message.role) and (
                stands_in(text, message.content) or stands_in(text, message.name)
            ):
                return self._quoted(cited, message, [message], [message])
        raise ChangeRefused("refused_without_quote")

    def naming(self, names: Collection[str]) -> list[SourceRef]:
        """The messages that name something, as whole words; speakers are named by every message."""
        speakers = [message.name for message in self._messages.values()]
        told = [name for name in names if not any(contains(each, name) for each in speakers)]
        return [
            SourceRef(self._conversation_id, message.message_id)
            for message in self._speaking.values()
            if any(contains(message.content, name) for name in told)
        ]

    def _quoted(
        self,
        cited: Cited,
        message: StoredMessage,
        heard: list[StoredMessage],
        named: list[StoredMessage],
    ) -> Evidence:
        found = self._evidence(heard, named or [message], None)
        return replace(
            found,
            origin=least_trusted([message.role]),
            said_at=message.said_at,
            quote=cited.quote,
            quoted=SourceRef(self._conversation_id, message.message_id),
        )

    def _cited(self, cited: Cited) -> list[StoredMessage]:
        named = self._named(cited.source_ids or ())
        if cited.source_ids is not None and not named:
            raise ChangeRefused("refused_without_source")
        return named

    def _named(self, source_ids: Sequence[str]) -> list[StoredMessage]:
        return [self._speaking[i] for i in source_ids if i in self._speaking]

    def _evidence(
        self, heard: list[StoredMessage], named: list[StoredMessage], declared: str | None
    ) -> Evidence:
        origins = [message.role for message in heard] or ["tool"]
        if declared is not None:
            origins.append(declared)
        latest = max(message.said_at for message in heard or self._messages.values())
        least = least_trusted(origins)
        return Evidence(
            origin=least,
            of_all=least,
            said_at=latest,
            sources=tuple(SourceRef(self._conversation_id, m.message_id) for m in named),
            # Sealed text does not enter an index, whatever it taught.
            text="\n".join(m.content for m in named if not m.sealed)[:MAX_SOURCE_TEXT],
            words=tuple(message.content for message in heard),
            days=tuple(_day(message.said_at, self._zone) for message in heard),
        )


def _name_of(message: StoredMessage) -> str:
    """The name of a speaker; the word for the role is none."""
    name = message.name.strip()
    return "" if name.casefold() == message.role else name


def _day(moment: datetime, zone: ZoneInfo) -> date:
    try:
        return moment.astimezone(zone).date()
    except OverflowError:
        return moment.date()
