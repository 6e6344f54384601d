"""The `hitherto` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_USAGE = 2
_INTERRUPTED = 130
_ON_THIS_MACHINE = ("up", "down", "demo")
"""The commands whose extra is `up`; it brings what all others need, too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; see docs/command-line.md."""
    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            from hitherto_client.command.run import run  # noqa: PLC0415 - it may lack a package
        except ModuleNotFoundError as error:
            print(f"hitherto: {_lacking(error.name, words)}", file=sys.stderr)
            return _USAGE
        return run(words)
    except KeyboardInterrupt:
        # While modules are loaded, which takes half a second; `run` hears later ones itself.
        print("hitherto: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _lacking(package: str | None, words: Sequence[str]) -> str:
    """What to do about a package that is not installed."""
    command = next((word for word in words if not word.startswith("-")), "")
    if command in _ON_THIS_MACHINE:
        return (
            f"`hitherto {command}` needs {package}: pip install 'hitherto[up]', or without "
            f"installing anything uvx --from 'hitherto[up]' hitherto {command}"
        )
    return f"the command needs {package}: pip install 'hitherto[cli]'"
