"""Options and arguments of sub-commands: how they are read, and those that several share."""

from __future__ import annotations

import argparse
import gzip
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from hitherto_client import Hitherto
from hitherto_client.command.output import Output, UsageError
from hitherto_client.days import first_moment, read_day

GZIP = ".gz"
_A_DAY = timedelta(days=1)


def connect(options: argparse.Namespace, *, token: Callable[[], str] | None = None) -> Hitherto:
    """The client that the options and the environment describe, or with a token of its own."""
    try:
        return Hitherto(
            options.retrieval,
            options.extraction,
            api_key=options.api_key,
            token=token,
            timeout=options.timeout,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def confirmed(options: argparse.Namespace, output: Output, question: str) -> bool:
    """True if the person agrees, or has agreed with `--yes`."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on: add --yes to confirm")
    output.ask(f"{question} [y/N] ")
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        output.note("nothing was changed")
    return agreed


def read_text(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    with _reading(name):
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        source = "standard input" if name == "-" else name
        raise UsageError(f"{source} is not UTF-8: save the file as UTF-8 text") from None


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from None


@contextmanager
def open_file(name: str) -> Iterator[BinaryIO]:
    """A file, unpacked if its name ends with .gz, or standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with _reading(name):
        opened = gzip.open if name.endswith(GZIP) else open
        file = cast(BinaryIO, opened(name, "rb"))
    with file:
        try:
            yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UsageError(f"{name} cannot be unpacked ({error})") from None


def size_of(name: str) -> int | None:
    """The bytes of a file; None if only reading it will tell."""
    if name == "-" or name.endswith(GZIP):
        return None
    with _reading(name):
        return os.stat(name).st_size or None


def moment(text: str) -> date | datetime:
    """A day or a time; without a zone, one of the person whom the command is about."""
    try:
        given = read_day(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 2026-08-21 or 2026-08-21T18:42:10+01:00"
        ) from None
    try:
        # Zones are up to a day away.
        for away in (-_A_DAY, _A_DAY):
            first_moment(given + away)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is out of range") from None
    return given


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        return json_format.MessageToDict(json_format.Parse(text, Struct()))
    except (json_format.ParseError, RecursionError, UnicodeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object") from None


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} should be more than 0 seconds")
    return value


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def natural(text: str) -> int:
    """A whole number from 1."""
    if whole(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be at least 1")
    return int(text)


def whole(text: str) -> int:
    """A whole number from 0 that fits a field of 32 bits."""
    if not (text.isascii() and text.isdigit() and int(text[:12]) < 2**31 and len(text) < 12):
        raise argparse.ArgumentTypeError(f"{text!r} should be a whole number from 0 to 2147483647")
    return int(text)


class Argument:
    """An option, or without dashes an argument, that sets no field of a request."""

    def __init__(
        self, flag: str, help: str | None = None, metavar: str | None = None, **more: Any
    ) -> None:
        """`more` is for argparse."""
        self._flag = flag
        self._more = dict(more, help=help)
        if metavar:
            self._more["metavar"] = metavar

    def add(self, parser: Any, request: Any = None) -> None:
        """Let a parser take it."""
        parser.add_argument(self._flag, **self._more)


class Switch(Argument):
    """An option without a value."""

    def __init__(self, flag: str, help: str) -> None:
        super().__init__(flag, help, action="store_true")


class Repeated(Argument):
    """An option that may be repeated: a list of values, empty without it."""

    def __init__(self, flag: str, help: str, metavar: str | None = None, **more: Any) -> None:
        told = f"{help}; may be repeated"
        super().__init__(flag, told, metavar, action="append", default=[], **more)


class OneOf:
    """Options of which one may be given, or must be."""

    def __init__(self, *options: Any, required: bool = False) -> None:
        self._options, self._required = options, required

    def add(self, parser: Any, request: Any) -> None:
        """Let a parser take one of them."""
        group = parser.add_mutually_exclusive_group(required=self._required)
        for option in self._options:
            option.add(group, request)


JSON = Switch("--json", "print one JSON document")
OF_SERVICES = (
    Argument("--retrieval", "host:port of the retrieval service", "ADDR"),
    Argument("--extraction", "host:port of the extraction service", "ADDR"),
    Argument("--api-key", "the credential; prefer HITHERTO_API_KEY, which ps does not show", "KEY"),
    Argument(
        "--timeout",
        "time limit of each call, its retries included (default: 10 for most reads, 30 for writes)",
        "SECONDS",
        type=seconds,
    ),
)
"""Options of a command that calls services."""
PAGING = (
    Argument(
        "--limit", "rows per page (default: 20)", "N", dest="page_size", type=natural, default=20
    ),
    Argument(
        "--page-token", "show the page after the one that printed this token", "TOKEN", default=""
    ),
    Switch("--all", "show every page"),
)
"""Options of a command that lists page by page."""
YES = Switch("--yes", "do not ask for confirmation")
"""Answers the question beforehand."""


def wait(otherwise: str = "only start it") -> Argument:
    """Whether a command that starts jobs also follows them."""
    return Argument(
        "--wait",
        f"follow the work to its end (the default), or {otherwise}",
        action=argparse.BooleanOptionalAction,
        default=True,
    )
