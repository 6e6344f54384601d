"""Runs both services in the foreground and ends both together.

    python -m tools.run_services

Ctrl-C or SIGTERM drains them; when one ends by itself, the other is drained too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from hitherto_shared.processes.held_signals import has_ended, signals_held

MODULES = ("hitherto_extraction", "hitherto_retrieval")
_LOOK_SECONDS = 0.2


class _Ended(Exception):
    """Somebody asked us to end."""


def _raise_ended(number: int, frame: FrameType | None) -> None:
    raise _Ended


def run(commands: Sequence[Sequence[str]]) -> int:
    """Run `commands` side by side until one ends or a signal comes, then end the others.

    Returns:
        The exit code of the command that ended by itself, 0 after a signal.
    """
    processes: list[subprocess.Popen[bytes]] = []
    code = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _raise_ended)
    try:
        for command in commands:
            # A group of its own: else Ctrl-C would reach the service as well as us, and the
            # signal we pass on would be its second, which cuts the drain short.
            with signals_held():
                processes.append(subprocess.Popen(command, process_group=0))
        while not any(has_ended(process) for process in processes):
            time.sleep(_LOOK_SECONDS)
        code = next(process.returncode for process in processes if process.returncode is not None)
    except _Ended:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait()
    return code


def main() -> None:
    """Entry point; see the module docstring."""
    sys.exit(run([[sys.executable, "-m", module] for module in MODULES]))


if __name__ == "__main__":
    main()
