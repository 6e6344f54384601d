"""Files of exports: zip archives or not, and JSON of any length, piece by piece."""

from __future__ import annotations

import codecs
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_PIECE_CHARACTERS = 1 << 20
_MOST_CHARACTERS = 256 << 20
"""Of one value; a larger one is no conversation."""
_SPACE = " \t\r\n"
_BETWEEN_VALUES = re.compile(f"[{_SPACE}]*")
_BETWEEN_ITEMS = re.compile(f"[{_SPACE},]*")


class ExportUnreadable(ValueError):
    """The file is not such an export; the message says what is expected."""


@dataclass(slots=True)
class ExportPosition:
    """How far an export was read.

    Attributes:
        share: From 0 to 1.
    """

    share: float = 0.0


@contextmanager
def opened(
    path: Path, members: Sequence[str], position: ExportPosition
) -> Iterator[Iterator[IO[str]]]:
    """The texts of an export, one after another.

    Args:
        path: A zip archive, a folder or a file.
        members: How the names of the wanted files begin in an archive or folder.
        position: Receives the progress.

    Raises:
        ExportUnreadable: None of the wanted files is there.
    """
    with _Source(path, members, position) as source:
        yield source.texts()


class _Source:
    """Opens one wanted file after another and counts the bytes read."""

    def __init__(self, path: Path, members: Sequence[str], position: ExportPosition) -> None:
        self._path = path
        self._members = members
        self._position = position
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> _Source:
        if self._path.is_file() and zipfile.is_zipfile(self._path):
            with _unpacking():
                self._archive = zipfile.ZipFile(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None:
            self._archive.close()

    def texts(self) -> Iterator[IO[str]]:
        if self._archive is not None:
            sizes = {info.filename: info.file_size for info in self._archive.infolist()}
            names = [name for name in sizes if self._wanted(name.rpartition("/")[2])]
            streams = ((sizes[name], _member(self._archive, name)) for name in sorted(names))
        elif self._path.is_dir():
            files = sorted(file for file in self._path.iterdir() if self._wanted(file.name))
            names = [file.name for file in files]
            streams = ((file.stat().st_size, file.open("rb")) for file in files)
        else:
            names = [self._path.name]
            streams = ((self._path.stat().st_size, path.open("rb")) for path in (self._path,))
        if not names:
            raise ExportUnreadable(f"holds no {' or '.join(self._members)}")
        for number, (size, stream) in enumerate(streams):
            with _TextPieces(stream, max(size, 1), number, len(names), self._position) as counted:
                yield counted

    def _wanted(self, name: str) -> bool:
        return any(name.startswith(member) for member in self._members)


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
        self, stream: IO[bytes], size: int, number: int, count: int, position: ExportPosition
    ) -> None:
        self._stream = stream
        self._size = size
        self._number = number
        self._count = count
        self._position = position
        self._read = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def __enter__(self) -> IO[str]:
        return self  # type: ignore[return-value] # as much of a text file as is used

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, characters: int) -> str:
        """The next piece; empty at the end.

        Raises:
            ExportUnreadable: It is not UTF-8, or cannot be unpacked.
        """
        with _unpacking():
            data = self._stream.read(characters)
        self._read += len(data)
        done = min(self._read / self._size, 1.0)
        self._position.share = (self._number + done) / self._count
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise ExportUnreadable("is not UTF-8") from None
        return text or (self.read(characters) if data else "")


def json_values(text: IO[str]) -> Iterator[Any]:
    """The items of a JSON list, the values of JSON lines, or one JSON value.

    Holds one value at a time, however long the file is.

    Raises:
        ExportUnreadable: It is no JSON, or ends in the middle of a value.
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
        # A number or word at the very end may go on in the next piece.
        if end > at and (end < len(held) or held[end - 1] in '}]"'):
            yield value
            at, wanted = end, _PIECE_CHARACTERS
            continue
        held, end, at = held[at:], end - at, 0
        if len(held) > _MOST_CHARACTERS:
            raise ExportUnreadable("holds a value of more than 256 million characters, or no JSON")
        # Twice as much each time: a long value is then parsed a few times and not once a piece.
        piece = text.read(wanted)
        wanted = max(wanted, len(held))
        if piece:
            held += piece
        elif end:
            yield value
            held = ""
        elif not held and not listed:
            return
        else:
            raise ExportUnreadable("is no JSON, or ends in the middle of a value")
