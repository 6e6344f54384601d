"""The files of signed-in browsers: a folder for each session, in a directory of the console."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hitherto_shared.sealing import BrokenToken, Sealer

STATE = "state"
"""The file without which a session does not exist."""
_OWNER = ".owner"
"""The file that tells which sessions are of one owner, but not whose they are."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class OpenToOthers(ValueError):
    """Other users of the machine can use the directory; the text says what to do about it."""


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can use, or see that it is one.

    A mounted one belongs to root, and our group is how we use it.

    Raises:
        OpenToOthers: Others can read or change what is in it.
        OSError: It cannot be made.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    ours = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    mode = stat.S_IMODE(found.st_mode)
    if hasattr(os, "geteuid") and mode & (_OTHERS if ours else stat.S_IRWXO):
        raise OpenToOthers(
            f"other users can use {directory} (mode {mode:04o}), and could end everybody's "
            f"sessions: run `chmod 700 {directory}`, or name a directory that does not exist yet"
        )


class SessionFiles:
    """The stored sessions of consoles that show the same services in the same way."""

    def __init__(self, directory: Path, bound_to: Sequence[str], key: bytes) -> None:
        self._directory = directory
        self._bound_to = tuple(bound_to)
        self._key = key

    def name(self, session_id: str) -> str:
        """What a session is found by; it tells nothing about the id."""
        return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()

    def begin(self, session_id: str, owner: str, state: dict[str, Any]) -> None:
        """Store a new session of this owner, whose name the files do not tell."""
        self.write(session_id, STATE, state)
        digest = hmac.new(self._key, owner.encode("utf-8", "surrogatepass"), hashlib.sha256)
        (self._directory / self.name(session_id) / _OWNER).write_text(digest.hexdigest(), "ascii")

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
        self._remove(self.name(session_id))

    def sweep(self, used_after: float, most: int) -> set[str]:
        """Remove sessions that were used longest ago.

        These are the ones before `used_after`; and if more than `most` are left, those of the
        owners that have the most, so that nobody's many sessions end another one's few.

        Returns:
            The names of those that are left.
        """
        left: dict[str, list[str]] = {}
        for used, name in sorted(self._folders()):
            if used < used_after:
                self._remove(name)
            else:
                left.setdefault(self._owner_of(name), []).append(name)
        counts = Counter({owner: len(names) for owner, names in left.items()})
        while counts.total() > most:
            [(owner, _)] = counts.most_common(1)
            self._remove(left[owner].pop(0))
            counts[owner] -= 1
        return {name for names in left.values() for name in names}

    def _remove(self, name: str) -> None:
        shutil.rmtree(self._directory / name, ignore_errors=True)

    def _owner_of(self, name: str) -> str:
        try:
            return (self._directory / name / _OWNER).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return ""

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
