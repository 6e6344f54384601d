"""Formats one line: the text, who said it, since when, and in which conversation.

Dates are ISO days in the user's time zone, and present only if the context is `dated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from hitherto_retrieval.render.budget import Entry
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.order_of_change import changed_by, said_at, told_anew
from hitherto_retrieval.render.passage import passage
from hitherto_retrieval.render.profile_lines import ProfileLine
from hitherto_retrieval.render.said_again import also_on
from hitherto_retrieval.render.values import (
    ELLIPSIS,
    beginning,
    clean,
    labelled,
    said_once,
    shortened,
    source_word,
    speaker_of,
)
from hitherto_retrieval.repetition import Source
from hitherto_shared.models import NEUTRAL_TITLE, Entity, Memory, Summary

_EXCERPT_CHARACTERS = 500
_EXCERPT_SOURCE = 4_000
"""Raw characters read for an excerpt; what cleaning removes rarely needs that many."""
_TITLE_BYTES = 300
_PLACE_BYTES = 40
"""Maximum bytes of a conversation's name in the line of one of its messages."""
_NAMED_BYTES = 24
"""The same in the line above all of them, which is read with them: a few words tell it apart."""
_INSTEAD_BYTES = 120
"""Maximum bytes of what holds in place of what has ended."""


class DayOfConversation(NamedTuple):
    """What was said on one day of a conversation: the lines that stand under one line.

    Attributes:
        conversation: The conversation; None if it is unknown.
        day: The day as an ISO date; empty in a context without dates.
        named: What calls the conversation; empty if it has no name.
    """

    conversation: str | None
    day: str
    named: str

    @property
    def first(self) -> str:
        """The line above the first one of its conversation."""
        return f"{', '.join(filter(None, (self.named, self.day))) or 'In a conversation'}:"

    @property
    def again(self) -> str:
        """The line above another one, if its day is that of no other conversation."""
        return f"{self.day}:" if self.day else self.first


@dataclass(frozen=True)
class Lines:
    """Formats the lines of one context.

    Attributes:
        annotate: Whether memories come with origin, date and id.
        summaries: Known summaries of conversations, for their titles.
        opened: Conversations of whose first words, their only title, a message is printed.
        told: The beginnings of memories that lines say.
    """

    context: PromptContext
    annotate: bool
    summaries: Mapping[str, Summary]
    opened: set[str | None] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    _places: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: PromptContext, *, annotate: bool) -> Lines:
        """The lines of `context`."""
        found = [item.summary_of for item in context.relevant if item.summary_of]
        known = [*context.titled, *context.conversations, *found]
        named = (one for one in known if one.title and one.title != NEUTRAL_TITLE)
        summaries = {one.conversation_id: one for one in named}
        lines = cls(context, annotate, summaries)
        lines.opened.update(item.said_in for item in context.relevant if lines._opens(item))
        return lines

    def tell(self, memory: Memory) -> str:
        """Note that a line says a memory; returns what others need not say any more."""
        words = self._untold(memory.content)
        self.told.add(_beginning_of(memory.content))
        return words

    def about_user(self, line: ProfileLine, label: str) -> Entry:
        """`label value`, and the day on which the value was said."""
        at = line.said_at if self.context.dated else None
        day = "" if at is None else f" ({self._iso(at)})"
        return Entry(label, line.value, day, rank=line.rank)

    def memory(self, memory: Memory, tag: str, instead: str = "") -> Entry:
        """`tag content`, with the requested provenance; `instead` holds if it has ended."""
        suffix = self._about(memory, self._then(instead))
        return Entry(tag, clean(memory.content), suffix, memory_id=memory.memory_id)

    def item(self, item: RelevantItem) -> Entry:
        """`- [SOURCE] title: text`; without value if it has neither."""
        if item.memory is not None:
            return self.memory(item.memory, f"- {type_tag(item.memory)}", item.instead)
        return Entry(
            f"- [{source_word(item.source)}] {self._when(item.at)}{self._caveat(item)}",
            _told(item, self._place(item), _excerpt(item)),
            conversation_id=item.conversation_id,
        )

    @cached_property
    def _said(self) -> Mapping[Source, datetime]:
        """When the relevant messages were said."""
        return said_at(self.context.relevant)

    @cached_property
    def _anew(self) -> Mapping[Source, str]:
        """By message what its memory says since a later message."""
        return {} if self.context.past else told_anew(self.context.relevant)

    @cached_property
    def learnt_from(self) -> frozenset[Source]:
        """The messages that relevant memories were learnt from."""
        return frozenset(
            source
            for item in self.context.relevant
            if item.memory is not None
            for source in item.sources
        )

    def found(
        self, item: RelevantItem, tag: Callable[[Memory], str], *, grouped: bool = False
    ) -> Entry:
        """The line of an answer to a question; of a message the words under its conversation.

        `grouped`: of a document a `group`.
        """
        if item.memory is not None:
            return self.memory(item.memory, tag(item.memory), item.instead)
        if not item.role:
            return self.group(item) if grouped and item.summary_of is None else self.item(item)
        text = _part(item, self.context.terms)
        # A role is our own word; a name is the caller's.
        speaker = f"{item.role}: " if item.title == item.role else ""
        words = text if speaker or not text else labelled(_title(item), text)
        return Entry(f"- {self._caveat(item)}{speaker}", words)

    def group_of(self, item: RelevantItem) -> DayOfConversation | None:
        """Where and when a message was said; None for other items."""
        if not item.role:
            return None
        day = self._iso(item.at) if self.context.dated and item.at is not None else ""
        named = ""
        if item.said_in is not None and item.said_in == self.context.ongoing:
            named = "In this conversation"
        elif item.said_in not in self.opened:
            title = self._placed(item.said_in or "")
            named = f"In “{shortened(title, _NAMED_BYTES)}”" if title else ""
        return DayOfConversation(item.said_in, day, named)

    def group(self, item: RelevantItem) -> Entry:
        """`[SOURCE] title`, the text, and a rule: the three lines of document 003.

        A title without a text is the text.
        """
        memory = item.memory
        text = _excerpt(item, line_start=True)
        if memory is None:
            title = f"{_title(item)}{self._place(item)}" if text else ""
            when = f"{self._when(item.at)}{self._caveat(item)}"
            heading = f"[{source_word(item.source)}] {when}{title}"
        else:
            tag = type_tag(memory).rstrip()
            about = self._about(memory, self._then(item.instead))
            heading = f"[{source_word(item.source)}] {tag}{about}"
        return Entry(
            f"{heading.rstrip()}\n",
            text or clean(_untold(item), line_start=True),
            "\n---",
            memory_id=None if memory is None else memory.memory_id,
            conversation_id=item.conversation_id,
        )

    def conversation(self, summary: Summary) -> Entry:
        """`- title: summary`; without value if it has neither."""
        at = summary.last_said_at or summary.created_at
        day = f"{self._iso(at)} " if self.context.recent_days else self._when(at)
        return Entry(
            f"- {day}{self._partly(summary.partly_until)}",
            said_once(_short(summary.title), clean(summary.summary)),
            conversation_id=summary.conversation_id,
        )

    def _opens(self, item: RelevantItem) -> bool:
        """Whether a message has the first words of its conversation, which has no other title."""
        summary = None if item.said_in is None else self.summaries.get(item.said_in)
        return summary is not None and _begins(item.text, summary.title)

    def _then(self, instead: str) -> str:
        """What follows the day of an end: what holds instead, if that is known and no line's."""
        words = self._untold(instead)
        return f", then: {words}" if words else ""

    def _untold(self, content: str) -> str:
        """The beginning of a memory; empty if a line says it."""
        words = _beginning_of(content) if content else ""
        # It stands in brackets, which it may not close.
        return "" if words in self.told else words.replace("(", "[").replace(")", "]")

    def _about(self, memory: Memory, then: str) -> str:
        """The note in brackets after a memory: who said it if not the user, and since when.

        Of one in new words also when these were said: what it is about began before them.
        """
        end = memory.valid_to
        if end is None and memory.expires_at is not None:
            # It passes with a day: at the beginning of the next.
            end = memory.expires_at - timedelta(microseconds=1)
        since = self._iso(memory.valid_from)
        held = since + (f" until {self._iso(end)}{then}" if end else "")
        changed = changed_by(memory)
        said = [self._said[source] for source in changed if source in self._said]
        # The present words may be those of a message that was not found.
        if said and not end and len(said) == len(changed) and self._iso(max(said)) > since:
            since, held = self._iso(max(said)), f"{since}, as of {self._iso(max(said))}"
        if self.annotate:
            about = f" ({memory.origin}, {held}, id {memory.memory_id}"
            by = f", replaced by {memory.superseded_by}" if memory.superseded_by else ""
            return f"{about}{by})" + self._doubt(memory)
        notes = [speaker] if (speaker := speaker_of(memory)) else []
        if self.context.dated and (end or since not in memory.content):
            notes.append(held)
        about = f" ({', '.join(notes)})" if notes else ""
        return about + self._doubt(memory)

    def _doubt(self, memory: Memory) -> str:
        """Since when a memory is uncertain, and why."""
        if memory.doubt is None:
            return ""
        since = self._iso(datetime.fromisoformat(memory.doubt["since"]))
        reason = clean(memory.doubt["reason"])
        return f" (uncertain since {since}: {reason})" if reason else f" (uncertain since {since})"

    def _place(self, item: RelevantItem) -> str:
        """Where a message was said; a title that only repeats the message is left out."""
        said_in = item.said_in
        if said_in is None or not self.context.dated:
            return ""
        if said_in == self.context.ongoing:
            return " in this conversation"
        if said_in in self.opened and self._opens(item):
            return ""
        title = self._placed(said_in)
        return f" in “{title}”" if title else ""

    def _placed(self, said_in: str) -> str:
        """The title of a conversation, cut to a few words; empty if it has none.

        The cut beginning of a message is none: its first words tell nothing apart.
        """
        if said_in not in self._places:
            summary = self.summaries.get(said_in)
            title = "" if summary is None else summary.title
            title = "" if title.endswith(ELLIPSIS) else shortened(clean(title), _PLACE_BYTES)
            self._places[said_in] = title
        return self._places[said_in]

    def _when(self, at: datetime | None) -> str:
        """The day of an item."""
        return f"{self._iso(at)} " if self.context.dated and at is not None else ""

    def _caveat(self, item: RelevantItem) -> str:
        """What no longer holds of an item that is no memory, or what its words have become.

        Before it, on which other days the same was said.
        """
        dated = self.context.dated and item.at is not None
        said = [item.at, *(at for _, at in item.again)]
        days = [self._iso(at) for at in said if dated and at is not None]
        return f"{also_on(days)}{self._outdated(item)}"

    def _outdated(self, item: RelevantItem) -> str:
        if item.partly_until is not None:
            return self._partly(item.partly_until, self._then(item.instead))
        now = [self._anew[source] for source in item.sources if source in self._anew]
        if not now or not self.context.dated:
            return ""
        words = self._untold(now[0])
        return f"(updated: {words}) " if words else "(updated) "

    def is_partly_old(self, item: RelevantItem) -> bool:
        """Whether an item that is no memory says something that holds no longer in these words."""
        return item.partly_until is not None or not self._anew.keys().isdisjoint(item.sources)

    def _partly(self, until: datetime | None, then: str = "") -> str:
        """Until when something that was learnt from a text holds, or held, and what then."""
        if until is None or not self.context.dated:
            return ""
        return f"(partly true until {self._iso(until)}{then}) "

    def _iso(self, at: datetime) -> str:
        return at.astimezone(self.context.zone).date().isoformat()


def profile_entries(known: Sequence[ProfileLine], lines: Lines) -> list[Entry]:
    """`- Label: value` lines."""
    return [lines.about_user(line, f"- {line.label}: ") for line in known]


def entity_entries(entities: Sequence[Entity]) -> list[Entry]:
    """`- name (type)` lines, with `: email` if an address is known."""
    entries: list[Entry] = []
    for one in entities:
        email = one.metadata.get("email")
        address = clean(email) if isinstance(email, str) else ""
        suffix = f" ({one.type}): {address}" if address else f" ({one.type})"
        if name := clean(one.name):
            entries.append(Entry("- ", name, suffix, entity_id=one.entity_id))
    return entries


def achieved_tag(memory: Memory) -> str:
    """`[GOAL, achieved] ` for an achieved goal, else empty."""
    return f"[{memory.type.upper()}, achieved] " if memory.status == "achieved" else ""


def type_tag(memory: Memory) -> str:
    """`[FACT] `."""
    return achieved_tag(memory) or f"[{memory.type.upper()}] "


def _title(item: RelevantItem) -> str:
    title = _short(item.title)
    if item.role == "assistant" and title != "assistant":
        return f"{title} (assistant)"
    return title


def _told(item: RelevantItem, place: str, text: str) -> str:
    """The title, the place and the text; of a summary without what stands in the other."""
    if not text:
        return _untold(item)
    if item.summary_of is not None:
        return said_once(_title(item), text)
    return labelled(f"{_title(item)}{place}", text)


def _untold(item: RelevantItem) -> str:
    """What tells of an item without a text: the title of a conversation or document."""
    return "" if item.role or item.memory is not None else _short(item.title)


def _begins(text: str, title: str) -> bool:
    """Whether a title is a whole text, or its beginning with an ellipsis."""
    if text[:1] != title[:1] and not text[:1].isspace():
        return False
    words = " ".join(text[:_EXCERPT_CHARACTERS].split())
    # An ellipsis alone would be the beginning of every text.
    first = title.removesuffix(ELLIPSIS)
    return words == title or (first not in ("", title) and words.startswith(first))


def _beginning_of(instead: str) -> str:
    """What holds in place of what has ended, within a line."""
    return shortened(clean(instead[: 2 * _INSTEAD_BYTES]), _INSTEAD_BYTES).removesuffix(".")


def _short(title: str) -> str:
    return shortened(clean(title), _TITLE_BYTES)


def _excerpt(item: RelevantItem, *, line_start: bool = False) -> str:
    if summary := clean(item.summary, line_start=line_start):
        return summary
    text = clean(item.text[:_EXCERPT_SOURCE], line_start=line_start)
    return beginning(text, _EXCERPT_CHARACTERS)


def _part(item: RelevantItem, terms: Mapping[str, float]) -> str:
    """What is printed of a message."""
    if len(item.text) <= _EXCERPT_CHARACTERS:
        return clean(item.text)
    return passage(item.text, terms, _EXCERPT_CHARACTERS)
