"""The `hitherto` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_USAGE = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; see docs/command-line.md.

    Args:
        argv: The arguments after the program's name. Unset: those of the process.
    """
    try:
        try:
            from hitherto_client.command.run import run  # noqa: PLC0415 - it may lack a package
        except ModuleNotFoundError as error:
            print(
                f"hitherto: the command needs {error.name}: pip install 'hitherto[cli]'",
                file=sys.stderr,
            )
            return _USAGE
        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        # While modules are loaded, which takes half a second; `run` hears later ones itself.
        print("hitherto: interrupted", file=sys.stderr)
        return _INTERRUPTED
