"""Keeps the lines of an item with the item, so that they are written once."""

from __future__ import annotations

from datetime import tzinfo

from hitherto_retrieval.render.budget import Entry
from hitherto_shared.models import Memo, Memory, Message, Summary

LINE, OUTLINE, SAID = "line", "outline", "said"
_STYLES = 2
"""How many lines of an item are kept: a message names its conversation by the title if the context
has its summary, and otherwise by the id."""


def style_of(template: str, *, annotate: bool, dated: bool, zone: tzinfo) -> str:
    """What all lines of a context have in common; what a kept line begins its key with."""
    return f"{template} {annotate} {dated} {zone} "


def written(item: Memory | Message | Summary, style: str) -> bool:
    """Whether a line of the item is kept in this style, so that it need not be read again."""
    memo = item.memo
    if memo is not None:
        for name in (LINE, OUTLINE, SAID):
            # A thread may be adding a line.
            for of in tuple(memo.get(name, ())):
                if of.startswith(style):
                    return True
    return False


def kept_line(memo: Memo | None, name: str, of: str) -> Entry | None:
    """The kept line of an item in this style."""
    lines: dict[str, Entry] | None = None if memo is None else memo.get(name)
    return None if lines is None else lines.get(of)


def keep_line(memo: Memo | None, name: str, of: str, entry: Entry) -> None:
    """Keep the line of an item in a style; only the last ones stay, so that there is a limit."""
    if memo is not None:
        lines: dict[str, Entry] = memo.setdefault(name, {})
        lines[of] = entry
        for oldest in list(lines)[:-_STYLES]:
            lines.pop(oldest, None)
