"""What the commands of an installation print, and their options: `hitherto-migrate` and others.

An output that takes nothing, such as a full disk, is a failure; a reader that leaves early, as
`head` does, is none.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class CommandParser(argparse.ArgumentParser):
    """Reads the options of a command."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write help or version; argparse would pass over an output that takes nothing."""
        if file is sys.stdout:
            write(message, self.prog)
        else:
            super()._print_message(message, file)


def write(text: str, command: str) -> None:
    """Print at once what a command has to say.

    Raises:
        SystemExit: It cannot be written; the message says why.
    """
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would be written again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.exit(f"{command}: the output cannot be written: {error.strerror}")
