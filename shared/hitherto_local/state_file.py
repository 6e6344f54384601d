"""What runs on a data folder, written where another terminal finds it.

The lock on the file says whether it is true: the kernel releases it with the process, however that
ends. The process id and its start time say whom to end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

NAME = "up.json"
_SAME_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class UpState:
    """A `hitherto up`.

    Attributes:
        pid: Its process.
        started: When that process began, in seconds since 1970, as the system tells it.
        addresses: Where each part serves, by name; empty while it starts.
    """

    pid: int
    started: float
    addresses: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls, addresses: dict[str, str] | None = None) -> UpState:
        """This process, with what it serves."""
        return cls(os.getpid(), psutil.Process().create_time(), addresses or {})

    def process(self) -> psutil.Process | None:
        """The process; None if it has ended, even if another one has its id now."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started) < _SAME_SECONDS
        except psutil.Error:
            return None
        return found if same else None


class AlreadyRunning(Exception):
    """Another process runs on this folder."""

    def __init__(self, running: UpState | None) -> None:
        """`running` is None where it has not written yet what it is."""
        super().__init__("already running")
        self.running = running


@contextmanager
def claimed(folder: Path) -> Iterator[Callable[[UpState], None]]:
    """Claim a data folder meanwhile; what this yields writes down what runs.

    Raises:
        AlreadyRunning: Another process has it.
        OSError: The file cannot be written.
    """
    path = folder / NAME
    descriptor = _locked(path)

    def tell(running: UpState) -> None:
        text = json.dumps(asdict(running), indent=2) + "\n"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)

    try:
        yield tell
    finally:
        # Before the lock goes, so that nobody finds a file that says something else.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def find_running(folder: Path) -> UpState | None:
    """What runs on a data folder; None if nothing does, whatever an old file says."""
    running = _read(folder / NAME)
    return running if running is not None and running.process() is not None else None


def _locked(path: Path) -> int:
    import fcntl  # noqa: PLC0415 - not on Windows, where the command says so

    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AlreadyRunning(_read(path)) from None
        # Its last owner may have removed it between our two calls.
        try:
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)


def _read(path: Path) -> UpState | None:
    try:
        return UpState(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
