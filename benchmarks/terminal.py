"""What a benchmark's command shows and reads, apart from its figures."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def output(width: int = 140) -> Console:
    """Standard output; `width` columns wide where nobody says how wide it is."""
    return Console() if sys.stdout.isatty() else Console(width=width)


def progress(console: Console) -> Progress:
    """Bars that tell how much of each task is done and since when, and go when all is."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def positive(text: str) -> int:
    """An argument that is a number of things.

    Raises:
        argparse.ArgumentTypeError: It is less than 1.
        ValueError: It is no number.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
