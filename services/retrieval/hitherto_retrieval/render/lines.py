"""Formats one line: the text, who said it, since when, and in which conversation.

Dates are ISO days in the user's time zone, and present only if the context is `dated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hitherto_retrieval.render.budget import Entry
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.profile_lines import ProfileLine
from hitherto_retrieval.render.values import beginning, clean, labelled, shortened, source_word
from hitherto_shared.models import Entity, Memory, Summary

_EXCERPT_CHARACTERS = 500
_EXCERPT_SOURCE = 4_000
"""Raw characters read for an excerpt; what cleaning removes rarely needs that many."""
_TITLE_BYTES = 300
_PLACE_BYTES = 40
"""Maximum bytes of a conversation's name in the line of one of its messages."""
_NOT_THE_USER = {
    "assistant": "said by the assistant",
    "tool": "from a tool",
    "document": "from a document",
    "operator": "from the operator",
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Formats the lines of one context.

    Attributes:
        context: The context.
        annotate: Whether memories come with origin, date and id.
        titles: Known titles of conversations.
    """

    context: PromptContext
    annotate: bool
    titles: Mapping[str, str]

    @classmethod
    def of(cls, context: PromptContext, *, annotate: bool) -> Lines:
        """The lines of `context`."""
        known = [*context.conversations, *(i.summary_of for i in context.relevant if i.summary_of)]
        titles = {one.conversation_id: clean(one.title) for one in known if one.title}
        return cls(context, annotate, titles)

    def memory(self, memory: Memory, tag: str, score: float | None = None) -> Entry:
        """`tag content`, with the requested provenance."""
        suffix = self._about(memory)
        text = clean(memory.content)
        return Entry(tag, text, suffix, memory_id=memory.memory_id, score=score)

    def item(self, item: RelevantItem) -> Entry:
        """`- [SOURCE] title: text`."""
        if item.memory is not None:
            return self.memory(item.memory, f"- {type_tag(item.memory)}", item.score)
        return Entry(
            f"- [{source_word(item.source)}] {self._day(item.at)}",
            labelled(self._title(item), _excerpt(item)),
            conversation_id=item.conversation_id,
            score=item.score,
        )

    def group(self, item: RelevantItem) -> Entry:
        """`[SOURCE] title`, the text, and a rule: the three lines of document 003."""
        memory = item.memory
        if memory is None:
            heading = f"[{source_word(item.source)}] {self._day(item.at)}{self._title(item)}"
        else:
            tag = type_tag(memory).rstrip()
            heading = f"[{source_word(item.source)}] {tag}{self._about(memory)}"
        return Entry(
            f"{heading.rstrip()}\n",
            _excerpt(item, line_start=True),
            "\n---",
            memory_id=None if memory is None else memory.memory_id,
            conversation_id=item.conversation_id,
            score=item.score,
        )

    def conversation(self, summary: Summary, score: float | None = None) -> Entry:
        """`- title: summary`; without value if it has neither."""
        text = clean(summary.summary)
        title = _short(summary.title)
        return Entry(
            f"- {self._day(summary.last_said_at or summary.created_at)}",
            labelled(title, text) if text else title,
            conversation_id=summary.conversation_id,
            score=score,
        )

    def _about(self, memory: Memory) -> str:
        """The note in brackets after a memory: who said it if not the user, and since when."""
        day = self._iso(memory.valid_from)
        if self.annotate:
            return f" ({memory.origin}, {day}, id {memory.memory_id})"
        told = [_NOT_THE_USER[memory.origin]] if memory.origin in _NOT_THE_USER else []
        if self.context.dated:
            end = memory.valid_to or memory.expires_at
            told.append(f"{day} until {self._iso(end)}" if end is not None else day)
        return f" ({', '.join(told)})" if told else ""

    def _title(self, item: RelevantItem) -> str:
        title = _short(item.title)
        if item.role == "assistant" and title != "assistant":
            title = f"{title} (assistant)"
        if item.said_in is None or not self.context.dated:
            return title
        if item.said_in == self.context.ongoing:
            return f"{title} in this conversation"
        place = self.titles.get(item.said_in)
        named = f"“{shortened(place, _PLACE_BYTES)}”" if place else clean(item.said_in)
        return f"{title} in {shortened(named, _PLACE_BYTES)}"

    def _day(self, at: datetime | None) -> str:
        return f"{self._iso(at)} " if self.context.dated and at is not None else ""

    def _iso(self, at: datetime) -> str:
        return at.astimezone(self.context.zone).date().isoformat()


def profile_entries(lines: Sequence[ProfileLine]) -> list[Entry]:
    """`- Label: value` lines."""
    return [Entry(f"- {line.label}: ", line.value) for line in lines]


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


def _short(title: str) -> str:
    return shortened(clean(title), _TITLE_BYTES)


def _excerpt(item: RelevantItem, *, line_start: bool = False) -> str:
    if summary := clean(item.summary, line_start=line_start):
        return summary
    text = clean(item.text[:_EXCERPT_SOURCE], line_start=line_start)
    return beginning(text, _EXCERPT_CHARACTERS)
