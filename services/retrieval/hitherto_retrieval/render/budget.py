"""Decides how the tokens of a block are spent.

A plan is a sequence of steps. A `Step` offers one section's entries in their order; a section that
fills itself, as that of the answers to a question, is a step of its own. What does not fit is left
out by whole lines.

Sizes are in tokens (`tokens`), counted line by line, including the line break.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol, Self
from uuid import UUID

from hitherto_retrieval.render.tokens import CountTokens
from hitherto_retrieval.render.values import ELLIPSIS, byte_length, shortened

_LONG_VALUE = 200
"""A line with more tokens than this and than a quarter of the budget is shortened wherever it
is."""
_CUTTABLE_VALUE = 70
_LEAST_REST = 35
"""A line of more than 70 tokens may be cut once to the remaining budget, to at least 35 tokens."""
ESSENTIAL_RANK = 1
"""The highest rank of essential entries."""
LEAST_LINE = 12
"""With fewer tokens left, no more candidates are offered."""


# Immutable by convention, but not frozen: a block has dozens, and frozen ones take four times as
# long.
@dataclass(slots=True)
class Entry:
    """One line (or a small group of lines); only `value` may be shortened.

    Of a section, entries with a lower `rank` are offered first, wherever they stand.
    """

    prefix: str
    value: str
    suffix: str = ""
    memory_id: UUID | None = None
    conversation_id: str | None = None
    entity_id: UUID | None = None
    rank: int = 0
    _counted: tuple[CountTokens, int] | None = field(default=None, init=False, compare=False)

    @property
    def text(self) -> str:
        """The line as it is printed."""
        return f"{self.prefix}{self.value}{self.suffix}"

    def tokens(self, count: CountTokens) -> int:
        """The size of the line, which is counted once."""
        counted = self._counted
        if counted is None or counted[0] is not count:
            counted = self._counted = (count, count(f"{self.text}\n"))
        return counted[1]


@dataclass(slots=True)
class Section:
    """Entries under one heading, the most useful first.

    Adjacent sections with an equal heading share it. `copies` is how often the section is printed.
    `kept` holds what fits by the entry's position, except that values may be shortened. `numbered`
    sections are printed as `1. …`, `2. …`.
    """

    entries: Sequence[Entry]
    heading: str = ""
    copies: int = 1
    numbered: bool = False
    kept: dict[int, Entry] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        heading: str = "",
        *,
        numbered: bool = False,
        most: int | None = None,
    ) -> Self:
        """A section of the first `most` entries, or of all; what has no words has no line."""
        worded = (entry for entry in entries if entry.value)
        return cls(list(islice(worded, most)), heading, numbered=numbered)

    def clear(self) -> None:
        """Keep nothing."""
        self.kept.clear()

    def amend(self) -> bool:
        """Whether it has other entries after what the others kept: all must be filled again."""
        return False

    @property
    def lines(self) -> list[str]:
        """What is printed of it."""
        texts = [self.kept[place].text for place in sorted(self.kept)]
        if not self.numbered:
            return texts
        return [f"{number}. {text}" for number, text in enumerate(texts, start=1)]


@dataclass(frozen=True, slots=True)
class Step:
    """Fill `section` from its first entries on.

    Attributes:
        section: The section to fill.
        count: Stop at this number of entries; None: no limit.
        share: Maximum share of the budget in this step.
        most: Maximum number of tokens in this step; None: no other limit.
        skips: Whether an entry that does not fit leaves room for those after it. Otherwise the
            section ends there.
        shortens: Whether it leaves its beginning, if it is long and essential.
    """

    section: Section
    count: int | None = None
    share: float = 1.0
    most: int | None = None
    skips: bool = False
    shortens: bool = False

    @property
    def offered(self) -> list[tuple[int, Entry]]:
        """The entries and their positions."""
        return sorted(enumerate(self.section.entries), key=_rank)[: self.count]


class FillsItself(Protocol):
    """A section that decides by itself which of its entries are printed."""

    def fill(self, budget: RemainingBudget) -> None:
        """Keep what fits and belongs."""
        ...


Plan = Sequence[Step | FillsItself]


def fill(plan: Plan, max_tokens: int, count: CountTokens, *, frame: int, gap: int) -> int | None:
    """Put as many entries as fit into the sections' `kept`.

    Args:
        plan: What to take, in order of usefulness.
        max_tokens: The budget.
        count: Counts tokens.
        frame: Tokens needed around the sections as soon as there is one entry.
        gap: Tokens before each heading besides the heading's own line.

    Returns:
        The tokens of all entries with their headings; None if the budget was too small for some.
    """
    budget = RemainingBudget(max_tokens, count, frame=frame, gap=gap)
    full: set[int] = set()
    for step in plan:
        if not isinstance(step, Step):
            step.fill(budget)
            continue
        section = step.section
        if not section.copies or id(section) in full:
            continue
        limit = max_tokens
        if step.share < 1:
            part = int((max_tokens - frame) * step.share)
            limit = min(limit, budget.used + min(part, step.most or part))
        for place, entry in step.offered:
            if place in section.kept or budget.take(section, place, entry, limit):
                continue
            if step.skips:
                if step.shortens and entry.rank <= ESSENTIAL_RANK:
                    budget.shorten(section, place, entry, limit)
                continue
            if step.share >= 1:
                full.add(id(section))
                budget.cut(section, place, entry)
            break
    sections = [step.section for step in plan if isinstance(step, Step) and step.section.copies]
    whole = budget.uncut and all(len(each.kept) == len(each.entries) for each in sections)
    return budget.used - frame if whole else None


class RemainingBudget:
    """The remaining budget."""

    def __init__(self, max_tokens: int, count: CountTokens, *, frame: int, gap: int) -> None:
        self.used = frame
        self._max_tokens = max_tokens
        self._count = count
        self._gap = gap
        self._longest = max(_LONG_VALUE, max_tokens // 4)
        self._headings = {""}
        self.uncut = True

    @property
    def left(self) -> int:
        """What can still be spent."""
        return self._max_tokens - self.used

    def tokens_of(self, line: str) -> int:
        """The size of a line."""
        return self._count(f"{line}\n")

    def give_back(self, tokens: int) -> None:
        """Note that a line is not printed after all."""
        self.used -= tokens

    def take(
        self,
        section: Section,
        place: int,
        entry: Entry,
        limit: int | None = None,
        *,
        extra: int = 0,
    ) -> bool:
        """Keep the entry if it fits within `limit`; returns whether it did.

        `extra` are the tokens of the lines that it needs above it.
        """
        # Written out for the most frequent case, because this runs for every line of every block.
        fitting, size = entry, entry.tokens(self._count)
        if section.numbered or size > self._longest:
            fitting, size = self._within(section, entry, self._longest)
            if fitting is not entry and _says_nothing(fitting):
                return False
        cost = (size + extra) * section.copies
        if section.heading not in self._headings:
            cost += self._overhead(section)
        if self.used + cost > (self._max_tokens if limit is None else limit):
            return False
        self._keep(section, place, fitting, cost)
        return True

    def cut(self, section: Section, place: int, entry: Entry, *, extra: int = 0) -> None:
        """Keep part of a long entry that does not fit, once per block."""
        overhead = self._overhead(section) + extra * section.copies
        rest = (self.left - overhead) // section.copies
        fitting, size = self._within(section, entry, self._longest)
        if not self.uncut or size <= _CUTTABLE_VALUE or rest < _LEAST_REST:
            return
        fitting, size = self._within(section, fitting, rest)
        if size <= rest and not _says_nothing(fitting):
            self.uncut = False
            self._keep(section, place, fitting, overhead + size * section.copies)

    def shorten(self, section: Section, place: int, entry: Entry, limit: int) -> None:
        """Keep the beginning of a long entry, in half of what is left up to `limit`."""
        overhead = self._overhead(section)
        rest = (limit - self.used - overhead) // (2 * section.copies)
        if entry.tokens(self._count) <= _CUTTABLE_VALUE or rest < _LEAST_REST:
            return
        fitting, size = self._within(section, entry, rest)
        if size <= rest and not _says_nothing(fitting):
            self._keep(section, place, fitting, overhead + size * section.copies)

    def _keep(self, section: Section, place: int, entry: Entry, cost: int) -> None:
        section.kept[place] = entry
        self._headings.add(section.heading)
        self.used += cost

    def _overhead(self, section: Section) -> int:
        if section.heading in self._headings:
            return 0
        return self._count(f"{section.heading}\n") + self._gap

    def _within(self, section: Section, entry: Entry, most: int) -> tuple[Entry, int]:
        """The entry, its value shortened to `most` tokens if possible, and the cost of its line."""
        # Every number of up to three digits is one token.
        number = f"{len(section.entries)}. " if section.numbered else ""
        size = self._count(f"{number}{entry.text}\n") if number else entry.tokens(self._count)
        while size > most and entry.value:
            # A little less than in proportion, because the parts of a text differ.
            room = byte_length(entry.value) * most * 9 // (size * 10)
            entry = replace(entry, value=shortened(entry.value, room))
            size = self._count(f"{number}{entry.text}\n")
        return entry, size


def _rank(each: tuple[int, Entry]) -> int:
    return each[1].rank


def _says_nothing(entry: Entry) -> bool:
    """Whether nothing is left of a value but what stands around it."""
    return not entry.value.removesuffix(ELLIPSIS)
