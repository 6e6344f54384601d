"""Asking before something that cannot be taken back, or that everybody will notice."""

from __future__ import annotations

import argparse
import sys

from hitherto_client.command.exits import UsageError
from hitherto_client.command.output import Output


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that answers the question beforehand."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def confirmed(options: argparse.Namespace, output: Output, question: str) -> bool:
    """True if the person agrees, or has agreed with `--yes`.

    Raises:
        UsageError: Nobody is there to be asked.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on: add --yes to confirm")
    output.ask(f"{question} [y/N] ")
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        output.note("nothing was changed")
    return agreed
