"""One run of the command: from its arguments to its exit code."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from hitherto_client.command import (
    audit,
    changes,
    conversations,
    curation,
    documents,
    export,
    health,
    importing,
    jobs,
    keys,
    learning,
    local,
    memories,
    privacy,
    profiles,
    search,
    serving,
    sessions,
    submit,
    upkeep,
)
from hitherto_client.command.local_database import DatabaseUnusable
from hitherto_client.command.output import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    Output,
    UsageError,
    report,
)
from hitherto_client.command.rpc import Command, CommandGroup
from hitherto_client.errors import HithertoCallError
from hitherto_client.transcripts import TranscriptError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_ASKED = 2
"""Interrupts that ask the command to end; the next one ends it."""

_GROUPS: dict[str, Sequence[Command | CommandGroup]] = {
    "Here": local.COMMANDS,
    "Submit": (
        *submit.COMMANDS,
        *learning.COMMANDS,
        *importing.COMMANDS,
        *submit.PREVIEW,
        *jobs.COMMANDS,
    ),
    "Read": (
        *search.COMMANDS,
        *memories.COMMANDS,
        *memories.WHY,
        *profiles.COMMANDS,
        *conversations.COMMANDS,
        *memories.HISTORY,
    ),
    "Change by hand": curation.COMMANDS,
    "Privacy": (*privacy.SETTINGS, *export.COMMANDS, *privacy.ERASURE, *audit.COMMANDS),
    "Working memory": sessions.COMMANDS,
    "Knowledge": documents.COMMANDS,
    "Changes": changes.COMMANDS,
    "Upkeep": (*upkeep.COMMANDS, *upkeep.REEMBED, *upkeep.USAGE),
    "Web pages": serving.CONSOLE,
    "Over HTTP": serving.HTTP,
    "Language models": serving.MCP,
    "Installation": (*health.COMMANDS, *keys.COMMANDS),
}


class _CommandParser(argparse.ArgumentParser):
    _in_turn = False
    """Whether `parse_known_intermixed_args` is parsing the options, and then the arguments."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse options wherever they stand.

        Between two arguments of which the first may be missing, argparse would miss the second.
        """
        if self._in_turn or self.get_default("run") is None:
            return super().parse_known_args(args, namespace)
        self._in_turn = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._in_turn = False

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write help or version; argparse would pass over an output that takes nothing."""
        (sys.stderr if file is None else file).write(message)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line: the usage of some commands fills half a screen."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


class _Parser(_CommandParser):
    def format_help(self) -> str:
        """The help with the sub-commands in their groups, which argparse does not know."""
        lines = [f"usage: {self.usage}", "", self.description or ""]
        for group, members in _GROUPS.items():
            lines += ["", f"{group}:"]
            lines += [f"  {member.name:<14} {member.summary}" for member in members]
        lines += [
            "",
            "Run hitherto COMMAND --help for the options of a command.",
            self.epilog or "",
        ]
        return "\n".join(lines) + "\n"


def build_parser(named: str | None = None) -> argparse.ArgumentParser:
    """The parser with every sub-command, or with the one of this name alone.

    To make all of them takes longer than most commands.
    """
    parser = _Parser(
        prog="hitherto",
        usage="hitherto COMMAND [OPTIONS]",
        description="Submit conversations to Hitherto; read and correct what it remembers.",
        epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 a service cannot be "
        "reached, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"hitherto {version('hitherto')}")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", prog="hitherto", parser_class=_CommandParser
    )
    for members in _GROUPS.values():
        for member in members:
            if named in (None, member.name):
                member.register(commands)
    return parser


def run(given: Sequence[str]) -> int:
    """Run the sub-command that the arguments name and return its exit code."""
    _open_closed_streams()
    try:
        code = _run(given)
        # Here, so that an output that takes nothing is noticed.
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return BROKEN_PIPE
    except OSError as error:
        # Such as a full disk under the output, or under that of errors.
        _silence(sys.stdout)
        try:
            Output(as_json=False).error(str(error))
        except OSError:
            _silence(sys.stderr)
        return FAILED
    return code


def _run(given: Sequence[str]) -> int:
    if problem := _no_command(given):
        Output(as_json=False).error(problem)
        return USAGE
    try:
        options, unknown = build_parser(given[0]).parse_known_args(given)
        if unknown:
            raise UsageError(_too_much(given[0], unknown[0]))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else USAGE
    except UsageError as error:
        Output(as_json=False).error(str(error))
        return USAGE
    output = Output(as_json=options.json)
    try:
        _check_unicode(given)
        with interruptible():
            code: int = options.run(options, output)
    except (UsageError, TranscriptError) as error:
        output.error(str(error))
        return USAGE
    except HithertoCallError as error:
        return report(error, output)
    except DatabaseUnusable as error:
        output.error(str(error))
        return UNREACHABLE
    except KeyboardInterrupt:
        output.error("interrupted")
        return INTERRUPTED
    return code


_OTHER_WORDS = {
    "add": "save",
    "ask": "context",
    "delete": "forget",
    "end": "learn",
    "list": "memories",
    "recall": "context",
    "remember": "save",
    "run": "up",
    "start": "up",
    "stop": "down",
    "update": "correct",
}
"""What people type for a command."""
_OF_NONE = ("-h", "--help", "--version")
"""Options that stand without a command."""


def _no_command(given: Sequence[str]) -> str:
    """What to say where no command is named, or none that exists; empty if one is."""
    names = {member.name for members in _GROUPS.values() for member in members}
    if not given:
        return "usage: hitherto COMMAND, such as `hitherto up`; `--help` lists all"
    if given[0].startswith("-") and given[0] not in _OF_NONE:
        return f"{given[0]} comes after a command, as in `hitherto memories ana --json`"
    if given[0] in names or given[0] in _OF_NONE:
        return ""
    word = given[0]
    near = difflib.get_close_matches(word, names, n=1)
    meant = _OTHER_WORDS.get(word) or (near[0] if near else "")
    hint = f"did you mean `{meant}`? " if meant else ""
    return f"there is no command {word!r}: {hint}usage: hitherto COMMAND; `--help` lists all"


def _too_much(command: str, argument: str) -> str:
    """What to say of an argument that the command does not take."""
    problem = (
        f"no such option: {argument}"
        if argument.startswith("-")
        else f"{argument!r} is one argument too many: put text with spaces into quotes"
    )
    return f"{problem}; see `hitherto {command} --help`"


def _open_closed_streams() -> None:
    """Replace each standard stream with which the process was not started, as by `>&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the end


def _check_unicode(given: Sequence[str]) -> None:
    for argument in given:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise UsageError(
                "an argument is not valid text in the encoding of this terminal: set LANG=C.UTF-8"
            )


def _silence(stream: TextIO) -> None:
    """Keep the interpreter from failing again when it flushes at its end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, descriptor)
    os.close(devnull)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first interrupts, and let the system end us at the next one.

    What is done between, such as closing a connection, may hang where no exception reaches it.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not main or before is not signal.default_int_handler:
        yield
        return
    heard = 0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard >= _ASKED:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        if not heard:
            signal.signal(signal.SIGINT, before)
