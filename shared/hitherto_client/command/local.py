"""`hitherto up`, `down` and `demo`: Hitherto on one's own machine."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from hitherto_client.command.options import Argument, Switch
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.rpc import Command

_EXTRA = "hitherto[up]"


def _local(module: str) -> Any:
    """A module of what runs here, by its name: the client's packages may stand alone.

    Raises:
        UsageError: What it needs is not installed.
    """
    try:
        return import_module(f"hitherto_local.{module}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs {error.name}: pip install '{_EXTRA}', or without installing anything "
            f"uvx --from '{_EXTRA}' hitherto …"
        ) from None


def _up(_: argparse.Namespace, output: Output) -> int:
    local = _local("up")

    def line(text: str) -> None:
        for each in text.splitlines():
            output.line(each)
        output.flush()

    def ready(running: dict[str, Any]) -> None:
        if output.as_json:
            output.document(running)
            output.flush()

    try:
        return OK if local.run_up(output.note if output.as_json else line, ready) else FAILED
    except local.LocalRefused as error:
        output.error(str(error))
        return FAILED


def _down(_: argparse.Namespace, output: Output) -> int:
    local = _local("up")
    try:
        return OK if local.run_down(output.note) else FAILED
    except local.LocalRefused as error:
        output.error(str(error))
        return FAILED


def _demo(options: argparse.Namespace, _: Output) -> int:
    code: int = _local("demo.telling").run_demo(
        tour=options.tour, file=options.transcripts, data_dir=options.data_dir
    )
    return code


COMMANDS = (
    Command(
        "up",
        "Run the database, both services and the console here, until Ctrl-C.",
        run=_up,
        local=True,
    ),
    Command("down", "End what `hitherto up` runs.", run=_down, local=True),
    Command(
        "demo",
        "Learn from sample conversations, and show the result.",
        Switch("--tour", "the long form: every feature, in twelve sections"),
        Argument(
            "--transcripts",
            "your own conversations: JSON lines of transcripts, or plain `user: …` text",
            "FILE",
        ),
        Argument(
            "--data-dir",
            "its data folder (default: demo in the default data folder)",
            "DIR",
            type=Path,
        ),
        run=_demo,
        local=True,
    ),
)
