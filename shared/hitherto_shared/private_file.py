"""Files with a key or a secret: created once, and readable by the service alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOUNTED = _OTHERS & ~stat.S_IRGRP


def create_once(path: Path, content: bytes) -> None:
    """Create a file with a key or a secret (mode 0600), unless there is one.

    Raises:
        OSError: It cannot be created.
    """
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
        why = error.strerror or "I/O error"
        raise ValueError(f"{setting}: {error.filename} cannot be used: {why}") from None
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None


class NotRegular(ValueError):
    """A directory, a pipe or a device stands in place of the file; the text says what to do."""


class NotPrivate(ValueError):
    """Other users may read the file; the text says what to do about it."""


def require_regular(path: Path) -> os.stat_result:
    """Check that a file is neither a directory nor a pipe, whose reader waits for a writer.

    Raises:
        NotRegular: It is one.
        OSError: There is no such file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise NotRegular(
            f"{path} is a directory and must be a file: container engines create a directory in "
            "place of a file that is missing where it is mounted from; put the file there and "
            "remove the directory"
        )
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(f"{path} is a pipe or a device and must be a regular file")
    return found


def require_private(path: Path) -> None:
    """Check that our own file is accessible to its owner alone, and another's to our group at most.

    A secret mounted into a container belongs to root, and our group is how we read it (mode 0440 or
    0640).

    Raises:
        NotPrivate: Others may read or change it.
        NotRegular: It is a directory, a pipe or a device.
        OSError: There is no such file.
    """
    found = require_regular(path)
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
