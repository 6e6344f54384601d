"""The command `hitherto-keys`: checks and rewraps the wrapped data keys of users.

It works on the folder of keys alone, needs no database, and prints no key.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from hitherto_shared.command_output import CommandParser, write
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rewrapping import OPENS, REWRAPPED, Outcome, rewrap
from hitherto_shared.encryption.wrapping import (
    KeyWrapper,
    LocalWrapper,
    load_wrapper,
    read_kek_file,
)
from hitherto_shared.key_files import user_keys_dir

COMMAND = "hitherto-keys"
_BAR = 30


def main(arguments: Sequence[str] | None = None) -> None:
    """Manage users' data keys. Settings come from the environment, as for services."""
    parser = CommandParser(prog=COMMAND, description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="report how many keys open with the key-encryption key")
    anew = commands.add_parser(
        "rewrap",
        help="wrap every key with the key-encryption key of the settings",
        description="Wrap every user key that another key-encryption key wrapped with the one of "
        "the settings. Sealed values stay unchanged. An interrupted run can be repeated.",
    )
    old = anew.add_mutually_exclusive_group(required=True)
    old.add_argument(
        "--old-key-file", type=Path, metavar="FILE", help="the key-encryption key in use so far"
    )
    old.add_argument(
        "--old-key-wrapper",
        metavar="MODULE:FACTORY",
        help="the same, where HITHERTO_KEY_WRAPPER named a factory",
    )
    given = parser.parse_args(arguments)
    try:
        sys.exit(asyncio.run(_run(given, SharedSettings())))
    except ValidationError as error:
        parser.exit(2, f"{COMMAND}: {describe(error)}\n")
    except ValueError as error:
        parser.exit(2, f"{COMMAND}: {error}\n")
    except KeyServiceUnavailable as error:
        # The text of its cause may quote a key.
        why = type(error.__cause__).__name__
        parser.exit(1, f"{COMMAND}: {error.message} ({why}): a repeated run continues\n")
    except OSError as error:
        parser.exit(1, f"{COMMAND}: the folder of user keys cannot be used: {error}\n")


async def _run(given: argparse.Namespace, settings: SharedSettings) -> int:
    wrapper = settings.load_key_wrapper()
    if wrapper is None:
        raise ValueError(
            "there is no key-encryption key: set HITHERTO_ENCRYPTION_KEY_FILE, "
            "HITHERTO_ENCRYPTION_KEY or HITHERTO_KEY_WRAPPER"
        )
    store = KeyStore(user_keys_dir(settings))
    old = None if given.command == "check" else _old(given)
    total = sum(1 for _ in store.hashes())
    counts: Counter[Outcome] = Counter()
    for hashed in store.hashes():
        counts[await rewrap(store, hashed, old, wrapper)] += 1
        _show(counts.total(), max(total, counts.total()))
    found = [f"  {outcome}: {number}" for outcome, number in sorted(counts.items())]
    write("\n".join([f"{store.root}: {counts.total()} keys", *found]), COMMAND)
    return 0 if counts.total() == counts[OPENS] + counts[REWRAPPED] else 1


def _old(given: argparse.Namespace) -> KeyWrapper:
    if given.old_key_file is not None:
        return LocalWrapper(read_kek_file(given.old_key_file))
    return load_wrapper(given.old_key_wrapper)


def _show(done: int, total: int) -> None:
    """Show the progress on a terminal."""
    if not sys.stderr.isatty():
        return
    filled = "#" * (_BAR * done // total)
    end = "\n" if done == total else ""
    print(f"\r[{filled:<{_BAR}}] {done}/{total}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
