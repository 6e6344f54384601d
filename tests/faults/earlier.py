"""The version before this one, to be run beside it.

It is the newest release or, before the first one, the last commit whose schema lacks migrations of
the present one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from tests.faults.processes import ROOT

_MIGRATIONS = "shared/hitherto_shared/database/migrations"
_PACKAGES = ("shared", "services/extraction", "services/retrieval")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


def _revision() -> str:
    tag = _git("describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").decode().strip()
    if tag:
        return tag
    present = _migrations_at("HEAD")
    for changed in _git("log", "--format=%H", "--", _MIGRATIONS).decode().split():
        # A commit that rewrote a migration before any release of it begins no upgrade.
        if _migrations_at(f"{changed}^") < present:
            return f"{changed}^"
    return ""


def _migrations_at(revision: str) -> set[bytes]:
    """Every migration with its contents' hash."""
    return set(_git("ls-tree", "-r", revision, "--", _MIGRATIONS).splitlines())


def unpack_earlier(folder: Path) -> str:
    """The PYTHONPATH on which a service runs the earlier code, unpacked into `folder`.

    Empty without git or its history.
    """
    revision = _revision() if shutil.which("git") else ""
    archive = _git("archive", "--format=tar", revision, *_PACKAGES) if revision else b""
    if not archive:
        return ""
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    path = os.pathsep.join(str(folder / package) for package in _PACKAGES)
    imported = subprocess.run(
        [sys.executable, "-c", "import hitherto_shared; print(hitherto_shared.__file__)"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert imported.startswith(str(folder)), "the present code would stand in for the earlier one"
    return path
