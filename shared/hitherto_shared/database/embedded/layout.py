"""Paths in the data folder, and creation of what is missing without changing what exists."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
_LONGEST_SOCKET_PATH = 103

# Not tempfile.gettempdir(): TMPDIR may differ between the processes that share the server.
_TEMPORARY = Path("/tmp")

_SYSTEM_FOLDER = Path("/var/lib/hitherto")


class EmbeddedPostgresError(RuntimeError):
    """The embedded Postgres cannot be used; the text gives the reason and the remedy."""


class Interrupted(Exception):
    """The wait ended because its owner releases the server."""


def default_data_dir() -> Path:
    """The data folder when `HITHERTO_DATA_DIR` is not set."""
    if _is_root():
        # Root's home is closed to others, and Postgres refuses to run as root.
        return _SYSTEM_FOLDER
    return Path.home() / ".local" / "share" / "hitherto"


class DataFolderLayout:
    """The paths of one data folder.

    Attributes:
        folder: The data folder, absolute and free of links, so that all processes agree on it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = folder / "postgres"
        self.log = folder / "postgres.log"
        self.credentials = folder / "embedded.json"
        self.startup_lock = folder / "startup.lock"
        self.holders_lock = folder / "holders.lock"

    @classmethod
    def prepare(cls, folder: Path) -> DataFolderLayout:
        """Create the data folder if it is missing; an existing folder keeps its mode."""
        try:
            folder = folder.expanduser().absolute()
        except RuntimeError:
            raise EmbeddedPostgresError(
                f"{folder} names no user of this machine; set HITHERTO_DATA_DIR to a folder that"
                " can be written"
            ) from None
        try:
            whole = folder.resolve()
        except RuntimeError:
            raise EmbeddedPostgresError(
                f"{folder} is a link that leads back to itself; set HITHERTO_DATA_DIR to a folder"
                " for the data"
            ) from None
        if whole == Path(folder.anchor):
            raise EmbeddedPostgresError(
                f"{folder} is the root of the file system; set HITHERTO_DATA_DIR to a folder for"
                " the data alone"
            )
        missing = [path for path in (folder, *folder.parents) if not _exists(path)]
        for path in reversed(missing):
            _make_folder(path, last=path == folder)
        if not folder.is_dir():
            raise EmbeddedPostgresError(
                f"{folder} is not a folder; set HITHERTO_DATA_DIR to a folder for the data"
            )
        return cls(folder.resolve())

    def socket_folder(self, uid: int) -> Path:
        """The folder for the socket of a server that runs as `uid`. Nothing is created."""
        beside = self.folder / "run"
        # libpq takes a comma as a separator between two hosts.
        if _fits(beside) and "," not in str(beside):
            return beside
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return _TEMPORARY / f"hitherto-{uid}" / digest

    def make_socket_folder(self, uid: int, gid: int) -> Path:
        """Create the folder of the socket, accessible to `uid` alone.

        Raises:
            EmbeddedPostgresError: Another user created a folder with that name in the temporary
                folder.
        """
        folder = self.socket_folder(uid)
        if folder.parent != self.folder:
            _make_private(folder.parent, uid, gid)
        _make_private(folder, uid, gid)
        return folder

    def open_private(self, path: Path, flags: int) -> int:
        """Open a file of the data folder, creating it with mode 0600 for the folder's owner.

        Returns:
            A descriptor that no child process inherits.
        """
        descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if _is_root():
            owner = self.folder.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        return descriptor


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise EmbeddedPostgresError(
            f"{path} cannot be reached ({error.strerror}); set HITHERTO_DATA_DIR to a folder that"
            " can be written"
        ) from error


def _make_folder(path: Path, *, last: bool) -> None:
    try:
        path.mkdir(mode=0o700 if last else 0o755)
    except FileExistsError:
        return
    except OSError as error:
        raise EmbeddedPostgresError(
            f"cannot create {path} ({error.strerror}); set HITHERTO_DATA_DIR to a folder that can"
            " be written"
        ) from error
    if _is_root():
        # Postgres runs as another user and must be able to enter; the umask may forbid it.
        path.chmod(0o711 if last else 0o755)


def _make_private(folder: Path, uid: int, gid: int) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        if _is_root():
            os.chown(folder, uid, gid)
        return
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o077:
        raise EmbeddedPostgresError(
            f"{folder} is not a folder that only user {uid} may enter, so that the database's"
            " socket would not be safe there; remove it, or set HITHERTO_DATA_DIR to a shorter"
            " path"
        )


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
