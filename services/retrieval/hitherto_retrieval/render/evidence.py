"""Prints what answers a question: one list of all kinds, the best first, until relevance ends.

The lines that fit into the first few hundred tokens come first, whatever they are, and the others
after them. In both parts, memories and documents stand first, each with its day, and then messages
by conversation, under one line with the day, which names the conversation where it is the first of
it. If a question asks for many things, each part is in the order of time.

A message gives way only to a memory that holds its words, and a memory, or the summary of its
conversation, only to a message that does, which then takes its place. A memory that was changed
gives way only to the messages that changed it, and of the messages that it came from, the newest
goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import NamedTuple
from uuid import UUID

from hitherto_retrieval.render.budget import LEAST_LINE, Entry, RemainingBudget, Section
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.lines import DayOfConversation, Lines
from hitherto_retrieval.render.order_of_change import in_order_of_change, is_plain, telling, time_of
from hitherto_retrieval.repetition import (
    ComparedText,
    Source,
    is_kept,
    is_outlined,
    is_said,
    sources_of,
    text_of,
)
from hitherto_shared.models import Memory

_BREVITY = 0.1
"""The exponent of a line's length by which its score is divided: of two equal matches the shorter
one goes first, and a clearly better match goes first however long it is."""
_SHORT = 60
"""Lines of fewer characters count as this long: a few tokens less are no reason to go first."""
_LONG, _LENGTH, _CUT = 250, 0.3, 500
"""A line of more characters than this also loses by this exponent of what it is longer, up to where
it is cut."""
_SHARES = {"message": 1.0, "memory": 0.83}
_OTHERS = 0.75
"""What scores of a kind count: a message's scale is longer, because it also has neighbours."""
_STALE = 0.8
"""The same for what a newer statement contradicts in part."""
_ANSWERS = 0.7
"""The same, if a question asks for many things, for what an assistant without a name said: its long
answers are near to each of them and say none."""
_FIRST_TOKENS = 200
"""Tokens of the lines that come first."""
_MOST_MISSED = 8
"""After so many lines that did not fit, no more are tried."""
_STOP, _STOP_OF_MANY = 0.72, 0.58
"""The worth of the last line in terms of the best one's: what is far behind the answer is not
evidence, however much room there is."""


class _Printed(NamedTuple):
    """A line that is printed: its part of the list, its order and conversation there, its time."""

    part: int
    order: int
    group: DayOfConversation | None
    size: int
    at: float


class AnsweringLines(Section):
    """The section of what answers a question."""

    __slots__ = (
        "_days",
        "_found",
        "_further",
        "_grouped",
        "_groups",
        "_has_notes",
        "_in_time",
        "_learnt",
        "_lines",
        "_memories",
        "_messages",
        "_noted",
        "_outlined",
        "_outlines",
        "_partly_old",
        "_printed",
        "_said",
        "_size",
        "_spoken",
        "_tag",
        "further",
    )

    def __init__(
        self,
        found: Sequence[RelevantItem],
        lines: Lines,
        heading: str,
        *,
        further: str,
        tag: Callable[[Memory], str],
        grouped: bool,
        numbered: bool,
        context: PromptContext,
    ) -> None:
        super().__init__([], heading, numbered=numbered)
        self.further = further
        self._lines = lines
        self._tag = tag
        self._grouped = grouped
        self._in_time = context.broad
        stop = (_STOP_OF_MANY if context.broad else _STOP) if context.stops else 0.0
        of_many = context.broad and not context.addressed
        worths = sorted(((_worth(item, of_many), item) for item in found), key=_first, reverse=True)
        best = max((worth for worth, item in worths if not item.first), default=0.0)
        self._found = in_order_of_change(worths, best * stop, context.terms)
        # By conversation, the length of its summary; a much shorter message does not hold it.
        self._outlined = {
            item.conversation_id: len(item.text or item.title)
            for _, item in self._found
            if item.summary_of is not None
        }
        memories = (item.memory for _, item in self._found)
        self._memories = frozenset([memory.memory_id for memory in memories if memory is not None])
        # Those that hold no longer, or in other words, tell no memory.
        self._messages: dict[Source, list[ComparedText]] = {}
        for _, item in self._found:
            if item.memory is None and not lines.is_partly_old(item):
                text = ComparedText(item.text) if item.message is None else text_of(item.message)
                for source in item.sources:
                    self._messages.setdefault(source, []).append(text)
        # Whether lines say what holds now where no other does.
        self._has_notes = any(each.instead or lines.is_partly_old(each) for each in found)
        self.clear()

    def clear(self) -> None:
        """See `Section.clear`."""
        self.kept.clear()
        self.entries: list[Entry] = []
        self._printed: dict[int, _Printed] = {}
        # The tokens of what is printed, and how many of its lines stand in the second part.
        self._size = self._further = 0
        self._groups: set[tuple[int, DayOfConversation]] = set()
        # By day, the conversations that have a line with it.
        self._days: dict[str, set[str | None]] = {}
        # By message, its line and words, and the lines of memories that were learnt from it.
        self._said: dict[Source, tuple[int, ComparedText]] = {}
        # The lines of messages that hold no longer, or in other words.
        self._partly_old: set[int] = set()
        self._learnt: dict[Source, list[tuple[int, Memory, ComparedText]]] = {}
        # The lines that may say what holds now, until another one does.
        self._noted: dict[int, RelevantItem] = {}
        self._lines.told.clear()
        # By conversation, the same of its messages, and of its summary.
        self._spoken: dict[str | None, list[tuple[int, ComparedText]]] = {}
        self._outlines: dict[str | None, tuple[int, ComparedText]] = {}

    def says(self, memory: Memory) -> bool:
        """Whether a memory is among the lines that are printed if there is room, or told by one."""
        return memory.memory_id in self._memories or self._hold(memory, self._messages.keys())

    def prints(self, memory: Memory) -> bool:
        """Whether a printed line is a memory, or tells it."""
        if any(line.memory_id == memory.memory_id for line in self.kept.values()):
            return True
        return self._hold(memory, {s for s, (at, _) in self._said.items() if at in self.kept})

    def leave_out(self, memory_ids: Set[UUID]) -> None:
        """Have no line for memories that stand elsewhere."""
        self._found = [
            (worth, item)
            for worth, item in self._found
            if item.memory is None or item.memory.memory_id not in memory_ids
        ]

    def _hold(self, memory: Memory, sources: Set[Source]) -> bool:
        """Whether one of these messages tells a memory."""
        if not is_plain(memory):
            return False
        said = text_of(memory)
        return any(
            is_said(said.words, message.words)
            for source in telling(memory, sources_of(memory))
            if source in sources
            for message in self._messages.get(source, ())
        )

    def fill(self, budget: RemainingBudget) -> None:
        """Print what fits and belongs, the best first."""
        if not self.copies:
            return
        missed = 0
        for number, (_, item) in enumerate(self._found):
            if budget.left < LEAST_LINE or missed > _MOST_MISSED:
                break
            entry = self._lines.found(item, self._tag, grouped=self._grouped)
            text = self._compared(item, entry)
            if not entry.value:
                continue
            told = self._stands(item, text) or self._offer(item, entry, text, budget, not number)
            missed += not told
            if told and self._has_notes and item.memory is not None:
                self._tell(item.memory, budget)

    def _offer(
        self,
        item: RelevantItem,
        entry: Entry,
        text: ComparedText,
        budget: RemainingBudget,
        cut: bool,
    ) -> bool:
        """Print a line if it fits; returns whether it did."""
        instead = self._given_up_for(item, text)
        part = int(self._size > _FIRST_TOKENS)
        part = min([part, *(self._printed[other].part for other in instead)])
        group = self._lines.group_of(item)
        above = []
        if part and not self._further:
            above.append(self.further)
        if group is not None and (part, group) not in self._groups:
            above.append(self._line_above(group, {of.conversation for _, of in self._groups}))
        place, before = len(self.entries), budget.used
        self.entries.append(entry)
        extra = sum(budget.tokens_of(line) for line in above if line)
        if not budget.take(self, place, entry, extra=extra):
            if cut:
                budget.cut(self, place, entry, extra=extra)
            if place not in self.kept:
                return False
        if group is not None:
            self._groups.add((part, group))
            self._days.setdefault(group.day, set()).add(group.conversation)
        order = min([place, *(self._printed[other].order for other in instead)])
        self._printed[place] = _Printed(part, order, group, budget.used - before, time_of(item))
        self._size += budget.used - before
        self._further += part
        for other in dict.fromkeys(instead):
            given_up = self._printed.pop(other)
            budget.give_back(given_up.size)
            self._size -= given_up.size
            self._further -= given_up.part
            del self.kept[other]
        self._note(place, item, text)
        return True

    def _tell(self, memory: Memory, budget: RemainingBudget) -> None:
        """Take what a memory says out of the notes of lines that came before it."""
        words = self._lines.tell(memory)
        for place, item in self._noted.items():
            line = self.kept.get(place)
            if line is None or not words or words not in f"{line.prefix}{line.suffix}":
                continue
            entry = self._lines.found(item, self._tag, grouped=self._grouped)
            kept = self.kept[place] = replace(line, prefix=entry.prefix, suffix=entry.suffix)
            spared = (budget.tokens_of(line.text) - budget.tokens_of(kept.text)) * self.copies
            budget.give_back(spared)
            self._size -= spared
            printed = self._printed[place]
            self._printed[place] = printed._replace(size=printed.size - spared)

    def _note(self, place: int, item: RelevantItem, text: ComparedText) -> None:
        """Note of a printed line what later ones are compared with."""
        if item.instead or self._lines.is_partly_old(item):
            self._noted[place] = item
        for source in item.sources:
            if item.memory is not None:
                self._learnt.setdefault(source, []).append((place, item.memory, text))
            else:
                self._said[source] = place, text
                if self._lines.is_partly_old(item):
                    self._partly_old.add(place)
                conversation = source[0] if item.again else item.said_in
                self._spoken.setdefault(conversation, []).append((place, text))
        if item.summary_of is not None:
            self._outlines[item.conversation_id] = place, text

    def _given_up_for(self, item: RelevantItem, text: ComparedText) -> list[int]:
        """The printed lines whose place an item takes, because it holds their words.

        Those with a note of their own stay, such as an end, and a message that no longer holds in
        part takes none. A memory takes the place of a message only if it has such a note.
        """
        if item.memory is not None and not is_plain(item.memory):
            said = (self._said[each] for each in item.sources if each in self._said)
            return [at for at, told in said if at in self.kept and is_kept(told.words, text.words)]
        if not item.role or self._lines.is_partly_old(item):
            return []
        outlines = [
            at
            for at, told in filter(None, map(self._outlines.get, item.conversations))
            if at in self.kept and is_outlined(told.words, text.words)
        ]
        return outlines + [
            at
            for source in item.sources
            for at, memory, said in self._learnt.get(source, ())
            if at in self.kept
            and is_plain(memory)
            and source in telling(memory, item.sources)
            and is_said(said.words, text.words)
        ]

    def _compared(self, item: RelevantItem, entry: Entry) -> ComparedText:
        """The text of a line that may say what another says; empty if it cannot."""
        if item.memory is not None:
            # The line of one in doubt says more than its message.
            compared = item.sources and item.memory.doubt is None
            return text_of(item.memory) if compared else ComparedText("")
        if item.summary_of is not None:
            # One that no longer holds in part says so.
            return ComparedText("" if item.partly_until is not None else item.text or item.title)
        learnt = not self._lines.learnt_from.isdisjoint(item.sources)
        if not learnt:
            found = filter(None, map(self._outlined.get, item.conversations))
            outlined = min(found, default=None)
            if outlined is None or 2 * len(item.text) < outlined:
                return ComparedText("")
        # A speaker's name is no part of what is said.
        if not entry.value.endswith(item.text):
            return ComparedText(entry.value)
        return ComparedText(item.text) if item.message is None else text_of(item.message)

    def _stands(self, item: RelevantItem, text: ComparedText) -> bool:
        """Whether a printed line that the item is connected with holds its words."""
        if item.memory is not None:
            of = telling(item.memory, item.sources)
            told = [self._said[source] for source in of if source in self._said]
            said = any(
                at in self.kept and at not in self._partly_old and is_said(text.words, each.words)
                for at, each in told
            )
            return said and is_plain(item.memory)
        if item.summary_of is not None:
            spoken = self._spoken.get(item.conversation_id, ())
            return any(
                at in self.kept and is_outlined(text.words, each.words) for at, each in spoken
            )
        learnt = [memory for s in item.sources for _, _, memory in self._learnt.get(s, ())]
        return any(is_kept(text.words, memory.words) for memory in learnt)

    def _order(self, place: int) -> tuple[float, int]:
        """Where a line stands: the best first, of many things the earliest."""
        printed = self._printed[place]
        return printed.at if self._in_time else 0.0, printed.order

    @property
    def lines(self) -> list[str]:
        """What is printed of it."""
        printed: list[str] = []
        named: set[str | None] = set()
        number = count(1)
        for part in (0, 1):
            groups: dict[DayOfConversation | None, list[str]] = {None: []}
            for place in sorted(self.kept, key=self._order):
                if self._printed[place].part == part:
                    groups.setdefault(self._printed[place].group, []).append(self.kept[place].text)
            if part and self.further and any(groups.values()):
                printed.append(self.further)
            for group, texts in groups.items():
                if group is not None:
                    printed.append(self._line_above(group, named))
                    named.add(group.conversation)
                if group is None and self.numbered:
                    printed += [f"{next(number)}. {text.removeprefix('- ')}" for text in texts]
                else:
                    printed += texts
        return printed

    def _line_above(self, group: DayOfConversation, named: Set[str | None]) -> str:
        """The line above what was said on a day of a conversation.

        The day is enough if its conversation is `named` above and no other one is of that day.
        """
        alone = self._days.get(group.day, set()) <= {group.conversation}
        return group.again if alone and group.conversation in named else group.first


def _worth(item: RelevantItem, of_many: bool) -> float:
    """The order of items: their score, by kind and length, and for many things by who said them."""
    if item.first:
        return float("inf")
    kind = "message" if item.role else "memory" if item.memory is not None else ""
    length = len(item.summary or item.text)
    length = _SHORT if length < _SHORT else length if length < _CUT else _CUT
    long = (length / _LONG) ** _LENGTH if length > _LONG else 1.0
    share = _SHARES.get(kind, _OTHERS) * (1.0 if item.partly_until is None else _STALE)
    if of_many and item.role == "assistant" == item.title:
        share *= _ANSWERS
    return float(item.score * share / length**_BREVITY / long)


def _first(each: tuple[float, RelevantItem]) -> float:
    return each[0]
