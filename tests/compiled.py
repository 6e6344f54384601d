"""Compiles tests and product, a share for each core, before the workers of a run import them.

pytest rewrites the assertions of each test module when that is imported first. On a clean clone the
workers would all do so at once, with the same modules. What is compiled already is left alone.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[1]
_IMPORTED = ("shared", "services", "benchmarks", "tools")
_UNUSED: Any = None
"""pytest's configuration, which changes rewriting only for a hook that nobody here has."""


def compile_all(asked: Sequence[Path]) -> None:
    """Compile the tests that are asked for, and all that they may import, and wait for it."""
    shares = os.cpu_count() or 1
    command = [sys.executable, "-m", "tests.compiled"]
    started = [
        subprocess.Popen([*command, f"{share}/{shares}", *map(str, asked)], cwd=ROOT)
        for share in range(shares)
    ]
    for process in started:
        process.wait()


def _modules(place: Path) -> Iterable[Path]:
    return place.rglob("*.py") if place.is_dir() else [place] * place.is_file()


def _rewritten(path: Path) -> bool:
    """Whether pytest rewrites the module: the tests and what they are configured by."""
    return path.name == "conftest.py" or path.name.startswith("test_")


def _rewrite(path: Path) -> None:
    cache = rewrite.get_cache_dir(path)
    if not rewrite.try_makedirs(cache):
        return
    compiled = cache / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, compiled) is None:
        digest, code = rewrite._rewrite_test(path, _UNUSED)
        rewrite._write_pyc(_UNUSED, code, digest, compiled)


def main(share: str, *places: str) -> None:
    """Compile every n-th module, beginning with the one of this number: `0/2`."""
    number, shares = map(int, share.split("/"))
    asked = [path for place in places for path in _modules(Path(place))]
    beside = [path for folder in ("tests", *_IMPORTED) for path in _modules(ROOT / folder)]
    tests = {path for path in asked if _rewritten(path)}
    others = {path for path in beside if not _rewritten(path)}
    for path in sorted(tests)[number::shares]:
        _rewrite(path)
    for path in sorted(others)[number::shares]:
        compileall.compile_file(path, quiet=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
