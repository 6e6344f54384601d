"""Files with a key or a secret: created once, and readable by the service alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOUNTED = _OTHERS & ~stat.S_IRGRP


def create_once(path: Path, content: bytes) -> None:
    """Create a file with a key or a secret (mode 0600), unless there is one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not the process id: two containers that share a volume may both be process 1.
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # A link never replaces: of two processes that start together, one wins.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


@contextmanager
def named_by(setting: str) -> Iterator[None]:
    """Let whatever is wrong with a file begin with the setting that names it.

    Raises:
        ValueError: The file cannot be read or created, or its reader raised a ValueError.
    """
    try:
        yield
    except OSError as error:
        # Reading and writing an open file raise errors without its name.
        which = error.filename or "the file"
        why = error.strerror or "I/O error"
        raise ValueError(f"{setting}: {which} cannot be used: {why}") from None
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None


class NotRegular(ValueError):
    """A directory, a pipe or a device stands in place of the file; the text says what to do."""


class NotPrivate(ValueError):
    """Other users may read the file; the text says what to do about it."""


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Open a file to read it, without waiting for the writer of a pipe in its place.

    Raises:
        NotRegular: It is a directory, a pipe or a device.
        OSError: There is no such file, or it cannot be read.
    """
    try:
        file = open(path, "rb", opener=_at_once)  # noqa: SIM115 - closed below
    except OSError:
        # Python opens no directory, and the system no socket.
        _require_regular(path, path.stat())
        raise
    with file:
        # Of the open file: another one may stand at the path by now.
        _require_regular(path, os.fstat(file.fileno()))
        yield file


@contextmanager
def open_private(path: Path) -> Iterator[BufferedReader]:
    """As `open_regular`, for a file with a key or a secret.

    Our own file must be accessible to its owner alone, and another's to our group at most: a secret
    mounted into a container belongs to root, and our group is how we read it (mode 0440 or 0640).

    Raises:
        NotPrivate: Others may read or change it.
        NotRegular: It is a directory, a pipe or a device.
        OSError: There is no such file, or it cannot be read.
    """
    with open_regular(path) as file:
        _require_private(path, os.fstat(file.fileno()))
        yield file


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise NotRegular(
            f"{path} is a directory and must be a file: container engines create a directory in "
            "place of a file that is missing where it is mounted from; put the file there and "
            "remove the directory"
        )
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(f"{path} is a pipe or a device and must be a regular file")


def _require_private(path: Path, found: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):
        return  # no such modes on this platform
    ours = found.st_uid == os.geteuid() and found.st_uid != 0
    mode = stat.S_IMODE(found.st_mode)
    if not mode & (_OTHERS if ours else _MOUNTED):
        return
    right = "600" if ours or not mode & stat.S_IRGRP else "640"
    raise NotPrivate(
        f"other users can read or change {path} (mode {mode:04o}), which holds a key or a secret: "
        f"run `chmod {right} {path}`, or mount it with this mode, and replace it if it may have "
        "been read"
    )
