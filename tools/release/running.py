"""Runs the steps of a release, and says why one cannot be taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FETCH_SECONDS = 900
"""It only keeps a release from waiting for an index that does not answer."""
_MADE = ("dist", "gen", "node_modules", "target", "__pycache__")
"""Folders that a build in the tree itself leaves in a package."""


class NotReleasable(Exception):
    """The release cannot be made; the text says what to change."""


class NotFetched(NotReleasable):
    """A step that needs a package index failed; without an index, there is nothing to change."""


class LeftOut(Exception):
    """This machine cannot build a part; the text says what it lacks. The others go on."""


def run(command: str, *arguments: object, cwd: Path = ROOT, **environment: str) -> str:
    """Run one command, and return what it printed.

    Raises:
        NotReleasable: It failed, with what it said.
    """
    return _run(command, *arguments, cwd=cwd, environment=environment)


def fetch(command: str, *arguments: object, cwd: Path, **environment: str) -> None:
    """Run one command that needs a package index.

    Raises:
        NotFetched: It failed, with what it said, or waited too long for an answer.
    """
    try:
        _run(command, *arguments, cwd=cwd, environment=environment, seconds=_FETCH_SECONDS)
    except NotReleasable as failed:
        raise NotFetched(str(failed)) from None


def _run(
    command: str,
    *arguments: object,
    cwd: Path,
    environment: dict[str, str],
    seconds: float | None = None,
) -> str:
    here = Path(sys.executable).parent / command
    words = [str(here) if here.exists() else command, *(str(word) for word in arguments)]
    try:
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **environment},
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise NotReleasable(f"{command} {arguments[0]} did not end within {seconds} s") from None
    if done.returncode:
        raise NotReleasable(f"{command} {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(*names: str) -> None:
    """Raise LeftOut if a command is not on the path."""
    for name in names:
        if shutil.which(name) is None:
            raise LeftOut(f"there is no {name} on the path")


def copied_package(language: str, into: Path) -> Path:
    """A copy of a package in clients/ with the contract and the licence, in which to build."""
    for folder in (f"clients/{language}", "protos"):
        shutil.copytree(ROOT / folder, into / folder, ignore=shutil.ignore_patterns(*_MADE))
    package = into / "clients" / language
    for name in ("LICENSE", f"clients/{language}/LICENSE"):
        shutil.copyfile(ROOT / "LICENSE", into / name)
    return package
