"""Files of exports: zip archives or not, and JSON of any length, piece by piece."""

from __future__ import annotations

import codecs
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

_PIECE_CHARACTERS = 1 << 20
_MOST_CHARACTERS = 32 << 20
"""Of one value; a larger one is no conversation."""
_MOST_PARTS = 2_000_000
"""Items and keys of one value, counted by commas: each takes many times its bytes in memory."""
_SPACE = " \t\r\n"
_BETWEEN_VALUES = re.compile(f"[{_SPACE}]*")
_BETWEEN_ITEMS = re.compile(f"[{_SPACE},]*")


class ExportUnreadable(ValueError):
    """The file is not such an export; the message says what is expected."""


@dataclass(slots=True)
class ExportReport:
    """How far an export was read, and what of it is not imported.

    Attributes:
        share: How much was read, from 0 to 1.
        notices: Lines of a chat that no person wrote, that only stand for a picture, or that others
            wrote while the user wrote nothing.
        empty: Records that hold nothing of what is imported.
        undated: The conversations that were refused, since nothing says when they were held.
        timeless: Memories without a time; they count as known from the import on.
        of_others: Records of other people than the one who is meant.
    """

    share: float = 0.0
    notices: int = 0
    empty: int = 0
    undated: list[str] = field(default_factory=list)
    timeless: int = 0
    of_others: int = 0


def texts(
    path: Path,
    members: Sequence[str] | Callable[[Sequence[str]], list[str]],
    report: ExportReport,
) -> Iterator[IO[str]]:
    """The texts of an export, one after another; each is open until the next one is asked for.

    The name of each is its path; an archive counts as a folder of its name without the ending.
    `members` are how the names of the wanted files begin in an archive or folder, or choose the
    wanted ones of its names.
    """
    with ExitStack() as until_the_end:
        if path.is_file() and zipfile.is_zipfile(path):
            with _unpacking():
                archive = until_the_end.enter_context(zipfile.ZipFile(path))
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            found: list[tuple[Path, int, Callable[..., Any]]] = [
                (path.with_suffix("") / name, sizes[name], partial(_member, archive, name))
                for name in _wanted(members, sorted(sizes))
            ]
        else:
            files = [path]
            if path.is_dir():
                names = sorted(one.name for one in path.iterdir() if one.is_file())
                files = [path / name for name in _wanted(members, names)]
            found = [(file, file.stat().st_size, partial(file.open, "rb")) for file in files]
        if not found:
            named = "text of a chat" if callable(members) else " or ".join(members)
            raise ExportUnreadable(f"holds no {named}")
        for number, (at, size, opened) in enumerate(found):
            with _TextPieces(opened(), str(at), max(size, 1), number, len(found), report) as text:
                yield text


def _wanted(
    members: Sequence[str] | Callable[[Sequence[str]], list[str]], names: Sequence[str]
) -> list[str]:
    if callable(members):
        return members(names)
    return [name for name in names if name.rpartition("/")[2].startswith(tuple(members))]


@contextmanager
def _unpacking() -> Iterator[None]:
    """Report an archive that is damaged, encrypted or packed in an unknown way."""
    try:
        yield
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, UnicodeDecodeError),
        *(EOFError, OSError, RuntimeError),
    ) as error:
        raise ExportUnreadable(f"cannot be unpacked ({error})") from None


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    with _unpacking():
        return archive.open(name)


class _TextPieces:
    """A text file that tells how far it was read."""

    def __init__(
        self,
        stream: IO[bytes],
        name: str,
        size: int,
        number: int,
        count: int,
        report: ExportReport,
    ) -> None:
        self.name = name
        self._stream = stream
        self._size = size
        self._number = number
        self._count = count
        self._report = report
        self._read = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    def __enter__(self) -> IO[str]:
        return self  # type: ignore[return-value] # as much of a text file as is used

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, characters: int) -> str:
        """The next piece; empty at the end."""
        with _unpacking():
            data = self._stream.read(characters)
        self._read += len(data)
        done = min(self._read / self._size, 1.0)
        self._report.share = (self._number + done) / self._count
        if self._decoder is None:
            wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            self._decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8")()
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise ExportUnreadable("is neither UTF-8 nor UTF-16") from None
        return text or (self.read(characters) if data else "")


def json_values(text: IO[str]) -> Iterator[Any]:
    """The items of a JSON list, the values of JSON lines, or one JSON value.

    Holds one value at a time, however long the file is.
    """
    decoder = json.JSONDecoder()
    held = text.read(_PIECE_CHARACTERS).lstrip("\ufeff").lstrip(_SPACE)
    listed = held.startswith("[")
    if listed:
        held = held[1:]
    between = _BETWEEN_ITEMS if listed else _BETWEEN_VALUES
    wanted = _PIECE_CHARACTERS
    at = 0
    while True:
        at = between.match(held, at).end()  # type: ignore[union-attr] # it matches nothing too
        if listed and held.startswith("]", at):
            return
        value, end = None, at
        if at < len(held):
            try:
                value, end = decoder.raw_decode(held, at)
            except RecursionError:
                raise ExportUnreadable("holds JSON that is nested too deeply") from None
            except ValueError:
                end = at
        if end > at:
            yield value
            at, wanted = end, _PIECE_CHARACTERS
            continue
        held, at = held[at:], 0
        if len(held) > _MOST_CHARACTERS or held.count(",") > _MOST_PARTS:
            raise ExportUnreadable(
                "holds a value of more than 32 million characters or 2 million parts, or no JSON"
            )
        # Twice as much each time: a long value is then parsed a few times and not once a piece.
        piece = text.read(wanted)
        wanted = max(wanted, len(held))
        if piece:
            held += piece
        elif not held and not listed:
            return
        else:
            raise ExportUnreadable("is no JSON, or ends in the middle of a value")
