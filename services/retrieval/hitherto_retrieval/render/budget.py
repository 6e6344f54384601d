"""What fits: sections give up whole lines, the least useful first, until the budget holds.

Everything here counts tokens (`tokens`), line by line, the line break included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from hitherto_retrieval.render.tokens import CountTokens
from hitherto_retrieval.render.values import byte_length, shortened

_LONG_VALUE = 200
"""A line of more tokens than this and than a quarter of the budget is shortened wherever it is."""
_CUTTABLE_VALUE = 70
_LEAST_REST = 35
"""The one line that may be cut to what is left has more than 70 tokens and keeps at least 35."""


# Never changed, but not frozen: a block has dozens, and frozen ones take four times as long.
@dataclass(slots=True)
class Entry:
    """One line (or a small group that stays together); only `value` may ever be shortened."""

    prefix: str
    value: str
    suffix: str = ""
    memory_id: UUID | None = None
    conversation_id: str | None = None
    entity_id: UUID | None = None

    @property
    def text(self) -> str:
        """The line as it is printed."""
        return f"{self.prefix}{self.value}{self.suffix}"


@dataclass(slots=True)
class Section:
    """Entries under one heading, the most useful first.

    Neighbours with an equal heading share it. `copies` is how often the section is printed. `kept`
    holds what fits, always a beginning of `entries`, except that values may be shortened.
    """

    entries: Sequence[Entry]
    heading: str = ""
    copies: int = 1
    kept: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Step:
    """Fill `section` until it has `count` entries (None: all), within `share` of the budget."""

    section: Section
    count: int | None = None
    share: float = 1.0


def fill(
    plan: Sequence[Step], max_tokens: int, count: CountTokens, *, frame: int, gap: int
) -> None:
    """Put as many entries into the sections' `kept` as fit.

    Args:
        plan: What to take, in the order of usefulness. A section is left alone from the first entry
            that does not fit.
        max_tokens: The budget.
        count: Counts tokens.
        frame: Tokens needed around the sections as soon as there is one entry.
        gap: Tokens before each heading beside the heading's own line.
    """
    full: set[int] = set()
    headings: set[str] = {""}
    used = frame
    longest = max(_LONG_VALUE, max_tokens // 4)
    may_cut = True
    for step in plan:
        section = step.section
        if not section.copies or id(section) in full:
            continue
        wanted = len(section.entries) if step.count is None else step.count
        limit = max_tokens if step.share >= 1 else frame + int((max_tokens - frame) * step.share)
        for entry in section.entries[len(section.kept) : wanted]:
            overhead = 0
            if section.heading not in headings:
                overhead = count(f"{section.heading}\n") + gap
            fitting, size = _within(entry, longest, count)
            if used + overhead + size * section.copies > limit:
                if step.share < 1:
                    break
                full.add(id(section))
                rest = (limit - used - overhead) // section.copies
                if not may_cut or size <= _CUTTABLE_VALUE or rest < _LEAST_REST:
                    break
                fitting, size = _within(fitting, rest, count)
                if size > rest:
                    break
                may_cut = False
            section.kept.append(fitting)
            headings.add(section.heading)
            used += overhead + size * section.copies
            if id(section) in full:
                break


def _within(entry: Entry, most: int, count: CountTokens) -> tuple[Entry, int]:
    """The entry, its value shortened to `most` tokens if it can be, and what its line costs."""
    size = count(f"{entry.text}\n")
    while size > most and entry.value:
        # A little less than in proportion, since the parts of a text differ.
        room = byte_length(entry.value) * most * 9 // (size * 10)
        entry = replace(entry, value=shortened(entry.value, room))
        size = count(f"{entry.text}\n")
    return entry, size
