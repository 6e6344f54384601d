"""A process's side of the tie to its parent."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

logger = logging.getLogger("hitherto.processes")

_OPTION = "--process-of="
SERVING = b"s"


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Where a service runs.

    Attributes:
        conninfo: The database, its schema up to date.
        listen: The address to listen on.
        processes: How many share it, and every bound that is meant for all of them.
    """

    conninfo: str
    listen: str
    processes: int = 1


def arguments(descriptor: int) -> list[str]:
    """What a process is started with to find its end of the socket pair."""
    return [f"{_OPTION}{descriptor}"]


def encoded(place: ServingPlan) -> bytes:
    """A place as the parent tells it."""
    return json.dumps(asdict(place)).encode() + b"\n"


def is_tie(word: str) -> bool:
    """Whether a word of the command line is what `arguments` made."""
    return word.startswith(_OPTION)


class ParentLink:
    """The end of the socket pair that this process inherited."""

    def __init__(self, end: socket.socket, place: ServingPlan) -> None:
        self._end = end
        self.place = place

    @classmethod
    def inherited(cls, given: Sequence[str]) -> ParentLink | None:
        """The tie to the parent, or None in a process that was started by somebody else.

        Args:
            given: The command line, without the program.

        Raises:
            RuntimeError: The parent is gone already.
        """
        descriptor = next((each for each in given if is_tie(each)), None)
        if descriptor is None:
            return None
        end = socket.socket(fileno=int(descriptor.removeprefix(_OPTION)))
        end.set_inheritable(False)
        said = b""
        while not said.endswith(b"\n"):
            more = end.recv(65536)
            if not more:
                raise RuntimeError("the process that started this one is gone")
            said += more
        return cls(end, ServingPlan(**json.loads(said)))

    def serving(self) -> None:
        """Tell the parent that calls are answered."""
        self._end.send(SERVING)

    def watch(self, end: asyncio.Event, patience: float) -> None:
        """Have this process drain when its parent is gone.

        Args:
            end: Set to drain. Being set already it stands for the first of two signals, and the
                process ends at once, as on a second one.
            patience: Seconds after which the process ends whether it has drained or not.
        """
        loop = asyncio.get_running_loop()

        def gone() -> None:
            if end.is_set():
                os._exit(1)
            logger.warning("the parent process is gone: draining")
            end.set()

        def wait() -> None:
            # A thread, so that a loop that is stuck cannot outlive the parent either.
            # A parent that was killed with words of ours unread resets the connection.
            with suppress(OSError):
                while self._end.recv(64):
                    pass
            loop.call_soon_threadsafe(gone)
            time.sleep(patience)
            os._exit(1)

        threading.Thread(target=wait, name="parent-watch", daemon=True).start()
