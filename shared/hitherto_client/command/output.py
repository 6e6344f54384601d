"""What reaches the terminal: tables for people, one JSON document for machines, notes, the end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hitherto_client.errors import HithertoCallError

OK = 0
FAILED = 1
"""The work was refused or did not succeed."""
USAGE = 2
"""What was asked for is not valid."""
UNREACHABLE = 3
"""A service cannot be reached, is not ready, or did not answer in time."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class UsageError(ValueError):
    """The arguments cannot be carried out; the message says what to change.

    Whatever reads arguments, or files that they name, raises it.
    """


_PIPE_COLUMNS = 160
"""Width of tables that go to a file or another program."""

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor, erasing
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
# C0 and C1, and the signs that turn the direction of the text that follows them.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """`text` on one line, without anything that a terminal would obey."""
    return _UNSAFE.sub("", _BREAKS.sub(" ", _SEQUENCES.sub("", text)))


def clean_lines(text: str) -> str:
    """The same with its lines and tabs kept."""
    return _UNSAFE.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end, where rich would end the process."""
        raise BrokenPipeError


class Output:
    """Where one run of the command writes; `as_json`: exactly one JSON document."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.stdout = _console(sys.stdout)
        self.stderr = _console(sys.stderr)

    def document(self, value: Message | dict[str, Any]) -> None:
        """Write the one JSON document; proto messages with the names of the contract."""
        found = as_dict(value) if isinstance(value, Message) else value
        text = json.dumps(
            found, ensure_ascii=not _is_utf8(sys.stdout), indent=2, default=time_as_json
        )
        # JSON escapes C0 by itself; these would reach the terminal raw.
        text = _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        sys.stdout.write(text + "\n")

    def result(self, document: Message | dict[str, Any], show: Callable[[], object]) -> None:
        """Write the result of a command: one JSON document, or for people as `show` does."""
        if self.as_json:
            self.document(document)
        else:
            show()

    def text(self, text: str) -> None:
        """Write text as it is; to a terminal without what it would obey."""
        text = clean_lines(text) if sys.stdout.isatty() else text
        if not _is_utf8(sys.stdout):
            encoding = sys.stdout.encoding
            text = text.encode(encoding, "replace").decode(encoding)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        numbers: Sequence[str] = (),
        whole: Sequence[str] = (),
        on_stderr: bool = False,
    ) -> None:
        """Write a table; where it has no room, its rows one by one.

        `numbers` are the headings of the columns that are aligned to the right, `whole` those of
        the columns whose cells stay on one line. `on_stderr` writes it beside the output instead of
        into it.
        """
        console = self.stderr if on_stderr else self.stdout
        cells = [[clean(str(cell)) for cell in row] for row in rows]
        if not has_room(columns, cells, console.width):
            for line in row_by_row(columns, cells, console.width):
                console.print(line)
            return
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for column in columns:
            table.add_column(
                Text(column),
                justify="right" if column in numbers else "left",
                overflow="fold",
                no_wrap=column in whole,
            )
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)

    def pairs(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Write names and values, one pair per line, without those that have no value."""
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value not in ("", None):
                table.add_row(Text(name), Text(clean_lines(str(value))))
        self.stdout.print(table)

    def line(self, text: str) -> None:
        """Write one line of output for people."""
        self.stdout.print(Text(clean(text)), soft_wrap=True)

    def note(self, text: str) -> None:
        """Write one line beside the output."""
        self.stderr.print(Text(clean(text)), soft_wrap=True)

    def more(self, shown: int, total: int | None, next_page_token: str) -> None:
        """Say how to go on if there are more rows than were shown; `total` where it is known."""
        if next_page_token:
            counted = f"{shown} of {total}" if total is not None else f"the first {shown}"
            self.note(f"{counted}; continue with --page-token {next_page_token}, or --all")

    def ask(self, question: str) -> None:
        """Write a question, beside the output, on a line that the answer ends."""
        self.stderr.print(Text(clean(question)), soft_wrap=True, end="")
        sys.stderr.flush()

    def error(self, text: str, *, prefix: str = "hitherto: ") -> None:
        """Write one line about what went wrong."""
        indent = " " * (len(text) - len(text.lstrip(" ")))
        self.stderr.print(Text(prefix + indent + clean(text.strip())), soft_wrap=True)

    def flush(self) -> None:
        """Bring what was written to its reader, so that a reader that has gone is noticed here."""
        sys.stdout.flush()


def time_as_json(value: object) -> str:
    """A time as JSON documents have it: in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON")


def as_dict(message: Message) -> dict[str, Any]:
    """Proto JSON with the field names of the contract; unset plain fields have their default."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _console(stream: TextIO) -> Console:
    if not _is_utf8(stream):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if os.environ.get("COLUMNS") == "0":
        # Some terminals and build servers set it so for "unknown"; rich would draw empty tables.
        del os.environ["COLUMNS"]
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_COLUMNS
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf8")


_OPTIONS = {"retrieval": "--retrieval", "extraction": "--extraction"}
_LISTED_BY = {
    "MEMORY_NOT_FOUND": "memories USER",
    "CONVERSATION_NOT_FOUND": "conversations USER",
    "DOCUMENT_NOT_FOUND": "documents list USER",
    "JOB_NOT_FOUND": "jobs",
    "PENDING_ACTION_NOT_FOUND": "session USER SESSION",
    "WEBHOOK_NOT_FOUND": "webhooks list",
    "WEBHOOK_DELIVERY_NOT_FOUND": "webhooks deliveries",
}
"""The command that shows the ids there are, by what was not found."""


def report(error: HithertoCallError, output: Output) -> int:
    """Say on standard error what went wrong and what to do next; the exit code for it."""
    service = f"the {error.service} service" if error.service else "the service"
    at = f" at {error.address}" if error.address else ""
    option = _OPTIONS.get(error.service, "--retrieval or --extraction")
    if error.code is grpc.StatusCode.UNAVAILABLE and error.service and not error.reason:
        remedy = f"start it with `hitherto up`, or name its address with {option}"
        output.error(f"cannot reach {service}{at}: {error.no_connection or remedy}")
        return UNREACHABLE
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        output.error(
            f"{service}{at} did not answer in time: try again, or allow more with --timeout SECONDS"
        )
        return UNREACHABLE
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        output.error(
            f"{service}{at} does not accept the credential: set HITHERTO_API_KEY to a key from "
            "`hitherto keys create`, or HITHERTO_TOKEN to a token that is in force"
        )
        return FAILED
    if error.code is grpc.StatusCode.UNIMPLEMENTED and not error.reason:
        output.error(
            f"{service}{at} does not know this call: is the other service there, or an older "
            f"version? Check {option}"
        )
        return FAILED
    if error.violations:
        output.error(f"{service} refuses the request ({error.name}):")
        for violation in error.violations:
            kind = violation.field.removesuffix("_id").upper()
            told = f"  {violation.field}: {violation.description}{_where(f'{kind}_NOT_FOUND')}"
            output.error(told, prefix="")
        return USAGE
    later = f"; try again in {error.retry_after:.0f} s" if error.retry_after else ""
    next_step = _where(error.reason) or later
    output.error(f"{service} answers: {error.message} ({error.name}){next_step}")
    if error.code is grpc.StatusCode.INVALID_ARGUMENT:
        return USAGE
    return UNREACHABLE if error.code is grpc.StatusCode.UNAVAILABLE else FAILED


def _where(reason: str) -> str:
    """Which command shows the ids there are."""
    listed = _LISTED_BY.get(reason)
    return f"; `hitherto {listed}` lists those that exist" if listed else ""


_TEXT_COLUMNS = 24
"""Characters that a column of running text should have at least."""
_WORD_COLUMNS = 40
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
            min(cell_len(cell), _TEXT_COLUMNS),
            *(min(cell_len(word), _WORD_COLUMNS) for word in cell.split() or [""]),
        )
        for cell in cells
    )


def _is_text(cells: Iterable[str]) -> bool:
    return any(cell_len(cell) > _TEXT_COLUMNS and " " in cell for cell in cells)


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
