"""Sessions in a directory, so that they outlive a process and several processes share them.

Each session is a folder of sealed files, and the random id in the browser's cookie is their only
key. The directory without the cookie tells nothing, nor does the cookie without the directory. A
folder that is removed ends its session for every process.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hitherto_shared.sealing import BrokenToken, Sealer

STATE = "state"
"""The file without which a session does not exist."""


class SessionFiles:
    """The stored sessions of consoles that show the same services in the same way."""

    def __init__(self, directory: Path, bound_to: Sequence[str]) -> None:
        self._directory = directory
        self._bound_to = tuple(bound_to)

    def name(self, session_id: str) -> str:
        """What a session is found by; it tells nothing about the id."""
        return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()

    def write(self, session_id: str, file: str, value: dict[str, Any]) -> None:
        """Store one file of a session; nothing if the session has ended meanwhile."""
        folder = self._directory / self.name(session_id)
        if file == STATE:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{secrets.token_hex(8)}"
        try:
            draft.write_text(_sealer(session_id).seal(value, (*self._bound_to, file)), "ascii")
            draft.replace(folder / file)
        except FileNotFoundError:
            return

    def read(self, session_id: str) -> tuple[float, dict[str, dict[str, Any]]] | None:
        """When a session was last used, and its files by name; None if there is none for us."""
        folder = self._directory / self.name(session_id)
        try:
            used = folder.stat().st_mtime
            found = {
                path.name: _sealer(session_id).open(
                    path.read_text("ascii"), (*self._bound_to, path.name)
                )
                for path in folder.iterdir()
                if not path.name.startswith(".") and path.is_file()
            }
        except (OSError, BrokenToken, UnicodeDecodeError):
            # Whoever has the cookie of a session that cannot be read must be able to sign in again.
            return None
        return (used, found) if STATE in found else None

    def touch(self, session_id: str, now: float) -> None:
        """Note that a session is in use, if it exists."""
        try:
            os.utime(self._directory / self.name(session_id), (now, now))
        except FileNotFoundError:
            return

    def remove(self, session_id: str) -> None:
        """Remove a session with all its files."""
        shutil.rmtree(self._directory / self.name(session_id), ignore_errors=True)

    def sweep(self, used_after: float, most: int) -> set[str]:
        """Remove sessions used longest ago: those before `used_after` or above `most`.

        Returns:
            The names of those that are left.
        """
        newest_first = sorted(self._folders(), reverse=True)
        left = set()
        for place, (used, name) in enumerate(newest_first):
            if used < used_after or place >= most:
                shutil.rmtree(self._directory / name, ignore_errors=True)
            else:
                left.add(name)
        return left

    def _folders(self) -> Iterator[tuple[float, str]]:
        if not self._directory.exists():
            return
        for entry in os.scandir(self._directory):
            try:
                if len(entry.name) == hashlib.sha256().digest_size * 2 and entry.is_dir():
                    yield entry.stat().st_mtime, entry.name
            except FileNotFoundError:
                continue


def _sealer(session_id: str) -> Sealer:
    return Sealer(session_id.encode("utf-8", "surrogatepass"), "console session")
