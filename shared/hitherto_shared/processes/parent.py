"""The parent process: starts the children of a service, replaces those that die, stops them all."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from hitherto_shared.metrics import forget_process
from hitherto_shared.processes.child import ServingPlan, arguments, encoded

logger = logging.getLogger("hitherto.processes")

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_STEADY_SECONDS = 30.0
"""A child that lived this long is replaced without a longer pause."""


class ServiceProcessFailed(RuntimeError):
    """A child did not start, or did not end properly; the message says which."""


@dataclass(slots=True)
class _Child:
    """One process."""

    process: asyncio.subprocess.Process
    link: socket.socket
    served: bool = False

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)


class Parent:
    """Keeps `place.processes` processes of one service running.

    They drain for `patience` seconds before they are killed.
    """

    def __init__(self, module: str, place: ServingPlan, *, patience: float) -> None:
        self._module = module
        self._place = place
        self._patience = patience
        self._children: dict[int, _Child] = {}
        self._all_served = False

    async def run(self, end: asyncio.Event) -> None:
        """Run them until `end` is set, and return when all have drained.

        Raises:
            ServiceProcessFailed: One ended before all had served once, or badly at the end.
        """
        keepers = {
            asyncio.create_task(self._keep(number, end), name=f"process {number}")
            for number in range(1, self._place.processes + 1)
        }
        ending = asyncio.create_task(end.wait())
        try:
            await asyncio.wait({ending, *keepers}, return_when=asyncio.FIRST_COMPLETED)
            end.set()
            for child in self._children.values():
                child.send(signal.SIGTERM)
            _, stuck = await asyncio.wait(keepers, timeout=self._patience)
            if stuck:
                logger.error("%d processes did not drain in time; killing them", len(stuck))
                for child in self._children.values():
                    child.send(signal.SIGKILL)
            for result in await asyncio.gather(*keepers, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
        finally:
            ending.cancel()

    async def _keep(self, number: int, end: asyncio.Event) -> None:
        """Run process `number` again and again."""
        clock = asyncio.get_running_loop().time
        pause = _FIRST_PAUSE_SECONDS
        while not end.is_set():
            began = clock()
            code = await self._run_once(number, end)
            if end.is_set():
                # Stopped while it was loading, it had no call to answer.
                if code not in (0, -signal.SIGTERM):
                    raise self._failed(number, code)
                return
            if not self._all_served:
                raise self._failed(number, code)
            if clock() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            logger.error(
                "process %d ended with exit code %d; starting another in %.1f s",
                number,
                code,
                pause,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await end.wait()
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _failed(self, number: int, code: int) -> ServiceProcessFailed:
        message = f"process {number} ended with exit code {code}"
        if not self._all_served:
            message += " during start-up; see its messages above for the reason"
        return ServiceProcessFailed(message)

    async def _run_once(self, number: int, end: asyncio.Event) -> int:
        """Start a child and wait for its end; returns its exit code."""
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    self._module,
                    *arguments(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    # A signal that a terminal sends to all of us is passed on once, by the parent.
                    start_new_session=True,
                )
            child = _Child(process, ours)
            self._children[number] = child
            try:
                if end.is_set():
                    child.send(signal.SIGTERM)
                hearing = asyncio.create_task(self._hear(child))
                code = await process.wait()
                forget_process(process.pid)
                await hearing
                return code
            finally:
                del self._children[number]

    async def _hear(self, child: _Child) -> None:
        """Send the child its plan, and record when it serves."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            await loop.sock_sendall(child.link, encoded(self._place))
            child.served = bool(await loop.sock_recv(child.link, 64))
        serving = sum(each.served for each in self._children.values())
        if not self._all_served and serving == self._place.processes:
            self._all_served = True
            logger.info("%d processes serve on %s", serving, self._place.listen)
