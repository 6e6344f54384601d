"""The folder of wrapped data keys, outside the database, so that its backups alone are unreadable.

There is one file per user, named by the user's keyed hash, two folders deep. A file is created
once, by a hard link that never replaces: of two concurrent processes, one wins. Everything here
blocks; call it in a thread.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hitherto_shared.private_file import NotRegular, open_regular

VERSION = 1
_HASH_DIGITS = 64
_LOCK = ".lock"

Stamp = tuple[int, int, int]
"""Distinguishes a file from its replacement."""


class BrokenRecord(Exception):
    """A file of the folder does not contain a wrapped key in a format that this version knows."""


class InTheWay(Exception):
    """A folder with contents stands in place of a user's file; the text is its path in the root."""


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """The stored record of a user's key.

    `key_id` distinguishes this key from an earlier or later one of the same user.
    """

    tenant_id: str
    key_id: str
    wrapper_id: str
    wrapped: bytes


class KeyStore:
    """The folder `root`, which is created with the first key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, user_hash: str) -> tuple[Stamp, WrappedKey] | None:
        """The key of a user with the stamp of its file, or None if there is none.

        Raises:
            BrokenRecord: The file has other contents, or is none.
            OSError: The folder cannot be read.
        """
        path = self._path(user_hash)
        try:
            with open_regular(path) as file:
                stamp = _stamp(os.fstat(file.fileno()))
                text = file.read()
        except NotRegular:
            raise BrokenRecord from None
        except (FileNotFoundError, NotADirectoryError):
            return None
        return stamp, _parse(text)

    def stamp(self, user_hash: str) -> Stamp | None:
        """The stamp of a user's file; None if there is none."""
        try:
            return _stamp(self._path(user_hash).stat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create(self, user_hash: str, key: WrappedKey) -> bool:
        """Store a user's first key; False if another process stored one before."""
        path = self._path(user_hash)
        _make_folder(path.parent, self.root)
        with self._draft(path, key) as draft:
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
        return True

    def replace(self, user_hash: str, old: WrappedKey, new: WrappedKey) -> bool:
        """Replace a wrapped key; False if the file has changed or gone meanwhile."""
        path = self._path(user_hash)
        with _alone_in(path.parent), self._draft(path, new) as draft:
            held = self.read(user_hash)
            if held is None or held[1] != old:
                return False
            draft.replace(path)
        return True

    def erase(self, user_hash: str) -> bool:
        """Delete a user's key with all drafts of it; returns whether there was one.

        Whatever stands in place of the file goes, too. Remains of a deleted file on the disk are
        beyond its reach: the file held a wrapped key.

        Raises:
            InTheWay: It is a folder with contents.
            OSError: The folder cannot be changed.
        """
        path = self._path(user_hash)
        if not path.parent.is_dir():
            return False
        with _alone_in(path.parent):
            there = os.path.lexists(path)
            for draft in list(path.parent.glob(f"{user_hash}.*.draft")):
                draft.unlink(missing_ok=True)
            if path.is_dir() and not path.is_symlink():
                self._remove_folder(path)
            else:
                path.unlink(missing_ok=True)
            _sync_folder(path.parent)
        return there

    def hashes(self) -> Iterator[str]:
        """The hash of every user with a key, in order."""
        for outer in _folders(self.root):
            for inner in _folders(outer):
                for file in sorted(inner.glob("*.json")):
                    if len(file.stem) == _HASH_DIGITS:
                        yield file.stem

    def some_hashes(self, most: int) -> list[str]:
        """The hashes of at most so many users with a key, by chance, from all over the folder."""
        found: list[str] = []
        for outer in _shuffled(_folders(self.root)):
            for inner in _shuffled(_folders(outer)):
                stems = [file.stem for file in inner.glob("*.json")]
                if hashes := [stem for stem in stems if len(stem) == _HASH_DIGITS]:
                    found.append(random.choice(hashes))
                    break
            if len(found) == most:
                break
        return found

    def _remove_folder(self, path: Path) -> None:
        try:
            path.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise InTheWay(str(path.relative_to(self.root))) from None

    def _path(self, user_hash: str) -> Path:
        return self.root / user_hash[:2] / user_hash[2:4] / f"{user_hash}.json"

    @contextmanager
    def _draft(self, path: Path, key: WrappedKey) -> Iterator[Path]:
        """A draft file beside its final path, completely on disk, deleted at the end."""
        # Not the process id: two containers that share a volume may both be process 1.
        draft = path.with_name(f"{path.stem}.{os.urandom(8).hex()}.draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_text(key))
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)
            _sync_folder(path.parent)


def _text(key: WrappedKey) -> bytes:
    held = {**asdict(key), "wrapped": base64.b64encode(key.wrapped).decode(), "version": VERSION}
    return json.dumps(held, sort_keys=True).encode() + b"\n"


def _parse(text: bytes) -> WrappedKey:
    try:
        held = json.loads(text)
        if held["version"] != VERSION:
            raise BrokenRecord
        parts = (held["tenant_id"], held["key_id"], held["wrapper_id"])
        if not all(isinstance(part, str) for part in parts):
            raise BrokenRecord
        return WrappedKey(*parts, base64.b64decode(held["wrapped"], validate=True))
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise BrokenRecord from None


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _shuffled(folders: list[Path]) -> list[Path]:
    return random.sample(folders, len(folders))


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(each for each in parent.iterdir() if each.is_dir())
    except FileNotFoundError:
        return []


def _make_folder(folder: Path, root: Path) -> None:
    """Create a folder below the root for this user alone, and sync each parent to disk."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder against replacing and erasing, so that no erased key returns."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        # The folder is gone: there is nothing to lock.
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
