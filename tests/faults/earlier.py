"""The version before this one, to be run beside it.

It is the newest release or, before the first one, the last commit whose schema lacks migrations of
the present one. As long as there are none after the baseline, it is the commit that began that.
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

_SCHEMA = ("shared/hitherto_shared/database/schema", "shared/hitherto_shared/database/migrations")
_PACKAGES = ("shared", "services/extraction", "services/retrieval")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


def _revision() -> str:
    tag = _git("describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").decode().strip()
    if tag:
        return tag
    present = _schema_at("HEAD")
    changes = _git("log", "--format=%H", "--", *_SCHEMA).decode().split()
    for changed in changes:
        # A commit that rewrote a file before any release of it begins no upgrade.
        before = _schema_at(f"{changed}^")
        if before and before < present:
            return f"{changed}^"
    return changes[0] if changes else ""


def _schema_at(revision: str) -> set[bytes]:
    """Every file of the schema with its contents' hash."""
    files = _git("ls-tree", "-r", revision, "--", *_SCHEMA).splitlines()
    return {file for file in files if file.endswith(b".sql")}


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
