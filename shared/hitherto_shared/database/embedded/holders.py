"""Counts the processes that use the server, by locks that the kernel releases at any death."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from hitherto_shared.database.embedded.layout import (
    DataFolderLayout,
    EmbeddedPostgresError,
    Interrupted,
)

if sys.platform != "win32":
    import fcntl

STARTUP_SECONDS = 60.0

_open_locks: set[int] = set()


class Holders:
    """One process's part in the two locks of a data folder."""

    def __init__(self, layout: DataFolderLayout) -> None:
        self._layout = layout
        self._shared: int | None = None

    @contextlib.contextmanager
    def startup(
        self, stop: threading.Event | None = None, *, seconds: float = STARTUP_SECONDS
    ) -> Iterator[None]:
        """Become the only process that starts, adopts or stops the server.

        Raises:
            EmbeddedPostgresError: The other process took longer.
            Interrupted: `stop` was set.
        """
        descriptor = _open(self._layout, self._layout.startup_lock)
        try:
            give_up = time.monotonic() + seconds
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > give_up:
                    raise EmbeddedPostgresError(
                        f"process {_read(descriptor)} has been starting or stopping the embedded"
                        f" Postgres in {self._layout.folder} for {seconds:.0f} s; see what it"
                        f" waits for (and {self._layout.log}), end it, then try again"
                    )
                if (stop or _never).wait(0.05):
                    raise Interrupted
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            _close(descriptor)

    def join(self) -> None:
        """Become a holder (under the startup lock)."""
        descriptor = _open(self._layout, self._layout.holders_lock)
        # No process keeps it exclusively without the startup lock, which we hold.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._shared = descriptor

    def leave(self) -> bool:
        """Stop being a holder (under the startup lock); returns whether no other one is left."""
        descriptor, self._shared = self._shared, None
        if descriptor is None or descriptor not in _open_locks:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        last = _try_lock(descriptor, fcntl.LOCK_EX)
        _close(descriptor)
        return last


_never = threading.Event()


def _open(layout: DataFolderLayout, path: os.PathLike[str]) -> int:
    try:
        descriptor = layout.open_private(layout.folder / path, os.O_RDWR)
    except OSError as error:
        raise EmbeddedPostgresError(
            f"cannot open {os.fspath(path)} ({error.strerror}); start this program as the owner of"
            " that folder, or set HITHERTO_DATA_DIR to a folder of your own"
        ) from error
    _open_locks.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    if descriptor in _open_locks:
        _open_locks.discard(descriptor)
        # Explicitly: a recently forked child may still have the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode("utf-8", errors="replace") or "(unknown)"


def _forget_in_child() -> None:
    """A forked child is not a holder: its copies would outlive the parent's death."""
    for descriptor in _open_locks:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _open_locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
