"""One run of the command: from its arguments to its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from hitherto_client.command import (
    audit,
    console,
    context,
    conversations,
    curation,
    documents,
    feedback,
    health,
    history,
    importing,
    jobs,
    keys,
    leaving,
    mcp,
    memories,
    preview,
    profiles,
    reembed,
    search,
    sessions,
    settings,
    submit,
    upkeep,
    usage,
)
from hitherto_client.command.exits import BROKEN_PIPE, INTERRUPTED, USAGE, UsageError, report
from hitherto_client.command.interrupts import interruptible
from hitherto_client.command.options import make_parser
from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError
from hitherto_client.transcripts import TranscriptError

_GROUPS: dict[str, tuple[Any, ...]] = {
    "Submit": (submit, importing, preview, jobs),
    "Read": (context, search, memories, profiles, conversations, history),
    "Change by hand": (curation, feedback),
    "Privacy": (settings, leaving, audit),
    "Working memory": (sessions,),
    "Knowledge": (documents,),
    "Upkeep": (upkeep, reembed, usage),
    "Web pages": (console,),
    "Language models": (mcp,),
    "Installation": (health, keys),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser with every sub-command."""
    parser, commands = make_parser()
    for group, modules in _GROUPS.items():
        commands.begin(group)
        for module in modules:
            module.register(commands)
    return parser


def run(given: Sequence[str]) -> int:
    """Run the sub-command that the arguments name and return its exit code."""
    try:
        options = build_parser().parse_args(given)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else USAGE
    output = Output(as_json=options.json)
    try:
        _check_unicode(given)
        with interruptible():
            code: int = options.run(options, output)
        output.flush()
    except (UsageError, TranscriptError) as error:
        output.error(str(error))
        return USAGE
    except HithertoCallError as error:
        return report(error, output)
    except KeyboardInterrupt:
        output.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    return code


def _check_unicode(given: Sequence[str]) -> None:
    for argument in given:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise UsageError("an argument is not valid text in the encoding of this terminal")


def _silence_stdout() -> None:
    """Keep the interpreter from failing again when it flushes at its end."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, descriptor)
    os.close(devnull)
