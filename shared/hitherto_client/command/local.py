"""`hitherto up`, `down` and `demo`: Hitherto on one's own machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hitherto_client.command.options import Argument
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.rpc import Command

_EXTRA = "hitherto[up]"


def _local(module: str) -> Any:
    """A module of what runs here, by its name: the client's packages may stand alone."""
    try:
        return import_module(f"hitherto_local.{module}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs {error.name}: pip install '{_EXTRA}', or without installing anything "
            f"uvx --from '{_EXTRA}' hitherto …"
        ) from None


def _done(work: Callable[[Any], bool], output: Output) -> int:
    """The exit code of what is done with `hitherto_local.up`, or why it is not done."""
    local = _local("up")
    try:
        return OK if work(local) else FAILED
    except local.LocalRefused as error:
        output.error(str(error))
        return FAILED


def _up(_: argparse.Namespace, output: Output) -> int:
    def line(text: str) -> None:
        for each in text.splitlines():
            output.line(each)
        output.flush()

    def ready(running: dict[str, Any]) -> None:
        if output.as_json:
            output.document(running)
            output.flush()

    say = output.note if output.as_json else line
    return _done(lambda local: local.run_up(say, ready), output)


def _down(_: argparse.Namespace, output: Output) -> int:
    return _done(lambda local: local.run_down(output.note), output)


def _demo(options: argparse.Namespace, _: Output) -> int:
    code: int = _local("demo.telling").run_demo(file=options.transcripts, data_dir=options.data_dir)
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
