"""The commands of the services: without their extra, they name it instead of a traceback."""

from __future__ import annotations

import importlib
import sys


def _run(module: str, extra: str) -> None:
    try:
        command = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hitherto"):
            raise  # no extra brings what is ours
        name = sys.argv[0].rpartition("/")[2]
        print(f"{name}: this needs {error.name}: pip install 'hitherto[{extra}]'", file=sys.stderr)
        sys.exit(2)
    command.main()


def retrieval() -> None:
    """The command `hitherto-retrieval`."""
    _run("hitherto_retrieval.__main__", "retrieval")


def extraction() -> None:
    """The command `hitherto-extraction`."""
    _run("hitherto_extraction.__main__", "extraction")


def migrate() -> None:
    """The command `hitherto-migrate`."""
    _run("hitherto_shared.database.migrate", "service")


def keys() -> None:
    """The command `hitherto-keys`."""
    _run("hitherto_shared.encryption.command", "service")
