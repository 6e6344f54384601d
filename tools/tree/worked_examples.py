"""The list of worked examples in tests/README.md names tests that exist, and each once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
_LEAST = 18


def broken() -> Sequence[str]:
    """The rows that name no test, or one that another row names."""
    listed = (TESTS / "README.md").read_text("utf-8").partition("## Worked examples")[2]
    rows = re.findall(r"^\| 00\d.*$", listed, re.MULTILINE)
    named = [re.search(r"\| `([\w/.]+)::(\w+)` \|$", row) for row in rows]
    found = [
        f"tests/README.md: {row!r} names no test that exists"
        for row, name in zip(rows, named, strict=True)
        if name is None or not re.search(rf"def {name[2]}\(", (TESTS / name[1]).read_text("utf-8"))
    ]
    names = [name[0] for name in named if name]
    if len(rows) < _LEAST or len(set(names)) < len(names):
        found.append(f"tests/README.md: list at least {_LEAST} worked examples, each once")
    return found
