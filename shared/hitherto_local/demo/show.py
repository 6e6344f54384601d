"""How the demo prints: headings, tables and people's words, on a terminal or into a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hitherto_client.command.output import clean_lines
from hitherto_client.results import Memory, Profile

EARLIEST = datetime.min.replace(tzinfo=UTC)
"""In the place of a time that is not set."""
_PIPE_WIDTH = 80


def make_console(*, errors: bool = False) -> Console:
    """A console with colours on a terminal, and plain text of a fixed width anywhere else."""
    stream = sys.stderr if errors else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    width = os.environ.get("COLUMNS", "")
    return Console(
        file=stream,
        highlight=False,
        force_terminal=False,
        color_system=None,
        width=max(40, int(width)) if width.isdecimal() else _PIPE_WIDTH,
    )


class StoryPage:
    """The story's paper. Everything printed here is literal text: markup in it means nothing."""

    def __init__(self, console: Console) -> None:
        self.console = console
        # As of a terminal that shows no other letters.
        self._ascii = console.options.ascii_only

    def chapter(self, title: str) -> None:
        """Begin a section."""
        self.console.print()
        self.console.print(Text(clean_lines(title), style="bold cyan"))
        line = "-" if self._ascii else "─"
        self.console.print(Text(line * min(len(title), self.console.width), style="cyan"))

    def say(self, text: str, style: str = "") -> None:
        """A paragraph."""
        for line in text.split("\n"):
            self._wrapped(line, "", "", style)

    def item(self, text: str, style: str = "") -> None:
        """A line of a list, wrapped below itself."""
        self._wrapped(text, "  - ", "    ", style)

    def line(self, text: str) -> None:
        """An item on one line, cut to the width."""
        room = self.console.width - len("  - ")
        text = " ".join(text.split())
        more = "..." if self._ascii else "…"
        self.item(text if len(text) <= room else text[: room - len(more)] + more)

    def quote(self, text: str) -> None:
        """Words as somebody sent them, each line marked as a quotation."""
        for line in text.split("\n"):
            self._wrapped(line, "  > ", "  > ")

    def block(self, text: str) -> None:
        """A prompt block, whole."""
        for line in text.split("\n"):
            self._wrapped(line, "    ", "      ", "green")

    def _wrapped(self, text: str, first: str, rest: str, style: str = "") -> None:
        width = max(20, self.console.width - max(len(first), len(rest)))
        lead = first
        for part in Text(clean_lines(text), style=style).wrap(self.console, width) or [Text("")]:
            # Not cut to the width: a word that is longer stays whole, so that it can be copied.
            line = Text(lead) + part
            line.rstrip()
            self.console.print(line)
            lead = rest

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table; columns whose name ends in `#` hold numbers."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name in columns:
            number = name.endswith("#")
            table.add_column(
                name.removesuffix("#"),
                justify="right" if number else "left",
                overflow="fold",
                no_wrap=number,
            )
        for row in rows:
            table.add_row(*(Text(clean_lines(cell)) for cell in row))
        self.console.print(table)


def day(moment: datetime | None, zone: str = "UTC") -> str:
    """The date of a moment in a time zone."""
    return (moment or EARLIEST).astimezone(ZoneInfo(zone or "UTC")).date().isoformat()


def oldest_first(memory: Memory) -> tuple[datetime, str]:
    """What memories are sorted by."""
    return memory.valid_from or EARLIEST, memory.content


LEARNT_COLUMNS = ("type", "what was learnt", "since", "sure", "times said#")


def learnt(memories: Iterable[Memory], zone: str = "UTC") -> list[tuple[str, ...]]:
    """Rows for LEARNT_COLUMNS, oldest statement first."""
    return [
        (
            memory.type + (" (reached)" if memory.status == "achieved" else ""),
            memory.content,
            day(memory.valid_from, zone),
            memory.confidence,
            str(len(memory.sources)),
        )
        for memory in sorted(memories, key=oldest_first)
    ]


def profile_lines(profile: Profile) -> list[str]:
    """The profile's fields as `path: value`, without what is empty."""
    kept = ("summary", "current_projects", "preferences", "frequent_intents", "facts")
    return list(_flat({name: getattr(profile, name) for name in kept}))


def _flat(value: Mapping[str, Any], path: str = "") -> Iterable[str]:
    # Sorted: the fields of a Struct have no order.
    for key, inner in sorted(value.items()):
        here = f"{path}.{key}" if path else key
        if isinstance(inner, Mapping):
            yield from _flat(inner, here)
        elif inner:
            told = ", ".join(map(str, inner)) if isinstance(inner, list | tuple) else str(inner)
            yield f"{here}: {told}"
