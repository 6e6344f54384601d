"""What fits: sections give up whole lines, the least useful first, until the budget holds.

A token is estimated as three bytes of UTF-8, rounded up. That needs no vocabulary and errs on the
safe side for the usual ones, in any language. Everything here counts bytes; each line costs one
more for its line break.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from hitherto_retrieval.render.values import byte_length, shortened

BYTES_PER_TOKEN = 3

_LONG_VALUE = 600
"""A value of more bytes than this and than a quarter of the budget is shortened wherever it is."""
_CUTTABLE_VALUE = 200
_LEAST_REST = 100
"""The one value that may be cut to what is left has more than 200 bytes and keeps at least 100."""


def estimate_tokens(text: str) -> int:
    """The size of `text` in tokens: its UTF-8 bytes divided by 3, rounded up."""
    return -(-byte_length(text) // BYTES_PER_TOKEN)


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


def fill(plan: Sequence[Step], max_bytes: int, *, frame: int, gap: int) -> None:
    """Put as many entries into the sections' `kept` as fit.

    Args:
        plan: What to take, in the order of usefulness. A section is left alone from the first entry
            that does not fit.
        max_bytes: The budget.
        frame: Bytes needed around the sections as soon as there is one entry.
        gap: Bytes before each heading beside the heading's own line.
    """
    full: set[int] = set()
    headings: set[str] = {""}
    used = frame
    longest = max(_LONG_VALUE, max_bytes // 4)
    may_cut = True
    for step in plan:
        section = step.section
        if not section.copies or id(section) in full:
            continue
        count = len(section.entries) if step.count is None else step.count
        limit = max_bytes if step.share >= 1 else frame + int((max_bytes - frame) * step.share)
        for entry in section.entries[len(section.kept) : count]:
            overhead = 0
            if section.heading not in headings:
                overhead = byte_length(section.heading) + 1 + gap
            fitting, size = _capped(entry, longest)
            cost = overhead + (size + 1) * section.copies
            if used + cost > limit:
                if step.share < 1:
                    break
                full.add(id(section))
                rest = (limit - used - overhead) // section.copies - 1
                cut = _cut_to(fitting, size, rest) if may_cut else None
                if cut is None:
                    break
                may_cut = False
                fitting = cut
                cost = overhead + (byte_length(cut.text) + 1) * section.copies
            section.kept.append(fitting)
            headings.add(section.heading)
            used += cost
            if id(section) in full:
                break


def _capped(entry: Entry, longest: int) -> tuple[Entry, int]:
    size = byte_length(entry.text)
    if size <= longest:
        return entry, size
    capped = replace(entry, value=shortened(entry.value, longest))
    return capped, byte_length(capped.text)


def _cut_to(entry: Entry, size: int, rest: int) -> Entry | None:
    value_size = byte_length(entry.value)
    room = rest - (size - value_size)
    if value_size <= _CUTTABLE_VALUE or room < _LEAST_REST:
        return None
    return replace(entry, value=shortened(entry.value, room))
