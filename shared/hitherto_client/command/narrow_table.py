"""Rows where a table has no room: each on lines of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

_TEXT = 24
"""Characters that a column of running text should have at least."""
_WORD = 40
"""Longer words, such as addresses, may be broken."""
_BETWEEN = 2
"""Characters between two columns, or two values on a line."""

Cells = Sequence[str]


def has_room(headings: Cells, rows: Sequence[Cells], width: int) -> bool:
    """Whether a table in `width` breaks no word and gives running text a column to be read in."""
    columns = zip(headings, *rows, strict=True)
    return sum(_least(cells) + _BETWEEN for cells in columns) <= width + 1


def row_by_row(headings: Cells, rows: Sequence[Cells], width: int) -> Iterator[Padding]:
    """The rows below one another, in lines of at most `width`.

    The first value leads. Short ones follow, each after its heading, as many on a line as fit;
    then running text, with lines to itself.
    """
    texts = {place for place, cells in enumerate(zip(*rows, strict=True)) if _is_text(cells)}
    for row in rows:
        told = [
            (
                place,
                Text.assemble((f"{heading} ", "bold"), cell) if place and heading else Text(cell),
            )
            for place, (heading, cell) in enumerate(zip(headings, row, strict=True))
            if cell.strip()
        ]
        short = [text for place, text in told if place not in texts]
        long = [text for place, text in told if place in texts]
        for line, text in enumerate((*_packed(short, width - 2), *long)):
            text.overflow = "fold"
            yield Padding(text, (0, 0, 0, 2 if line else 0))


def _least(cells: Iterable[str]) -> int:
    """The narrowest that a column may be."""
    return max(
        max(
            min(cell_len(cell), _TEXT),
            *(min(cell_len(word), _WORD) for word in cell.split() or [""]),
        )
        for cell in cells
    )


def _is_text(cells: Iterable[str]) -> bool:
    return any(cell_len(cell) > _TEXT and " " in cell for cell in cells)


def _packed(values: Iterable[Text], width: int) -> Iterator[Text]:
    line: Text | None = None
    for value in values:
        if line is None:
            line = value
        elif line.cell_len + _BETWEEN + value.cell_len <= width:
            line = Text.assemble(line, " " * _BETWEEN, value)
        else:
            yield line
            line = value
    if line is not None:
        yield line
