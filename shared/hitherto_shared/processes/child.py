"""A child's side of the link to its parent."""

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
    """The address of a service, its database with a current schema, and its number of processes."""

    conninfo: str
    listen: str
    processes: int = 1


def arguments(descriptor: int) -> list[str]:
    """The arguments with which a child finds its end of the socket pair."""
    return [f"{_OPTION}{descriptor}"]


def encoded(place: ServingPlan) -> bytes:
    """A plan as the parent sends it."""
    return json.dumps(asdict(place)).encode() + b"\n"


def is_tie(word: str) -> bool:
    """Whether a word of the command line comes from `arguments`."""
    return word.startswith(_OPTION)


class ParentLink:
    """The end of the socket pair that this process inherited."""

    def __init__(self, end: socket.socket, place: ServingPlan) -> None:
        self._end = end
        self.place = place

    @classmethod
    def inherited(cls, given: Sequence[str]) -> ParentLink | None:
        """The link to the parent in the words of the command line; None in any other process.

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
        """Report to the parent that calls are answered."""
        self._end.send(SERVING)

    def watch(self, end: asyncio.Event, patience: float) -> None:
        """Drain this process when its parent is gone, and end it after so many seconds in any case.

        If `end` is set already, this counts as the second of two signals: the process ends at once.
        """
        loop = asyncio.get_running_loop()

        def gone() -> None:
            if end.is_set():
                os._exit(1)
            logger.warning("the parent process is gone: draining")
            end.set()

        def wait() -> None:
            # A thread, so that a blocked loop cannot outlive the parent either. A parent that was
            # killed with unread data resets the connection.
            with suppress(OSError):
                while self._end.recv(64):
                    pass
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(gone)
            time.sleep(patience)
            os._exit(1)

        threading.Thread(target=wait, name="parent-watch", daemon=True).start()
