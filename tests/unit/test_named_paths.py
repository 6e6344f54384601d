"""CONTRIBUTING.md and the map of the tree in docs/design.md name files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ".ci",
    "benchmarks",
    "clients",
    "deploy",
    "docs",
    "examples",
    "protos",
    "services",
    "shared",
    "tests",
    "tools",
)
NAMED = re.compile(r"`([\w.][\w./-]*)`")
"""A file or folder as a text names it; commands, placeholders and options have other characters."""
ENDINGS = (".json", ".lock", ".md", ".proto", ".py", ".sql", ".toml")


def section(path: str, heading: str | None) -> str:
    text = (ROOT / path).read_text("utf-8")
    if heading is None:
        return text
    _, found, after = text.partition(f"\n## {heading}\n")
    assert found, f"{path} has no section {heading!r}"
    return after.partition("\n## ")[0]


@pytest.fixture(scope="module")
def tree() -> frozenset[str]:
    """Every file and folder by each end of its path; folders end in a slash."""
    found = {path.name for path in ROOT.iterdir() if path.is_file()}
    for folder in FOLDERS:
        top = ROOT / folder
        for path in (top, *top.rglob("*")):
            if "__pycache__" in path.parts:
                continue
            parts = path.relative_to(ROOT).parts
            end = "/" if path.is_dir() else ""
            found.update("/".join(parts[i:]) + end for i in range(len(parts)))
    return frozenset(found)


@pytest.mark.parametrize(
    ("path", "heading"),
    [("CONTRIBUTING.md", None), ("docs/design.md", "Where things are")],
)
def test_what_is_named_exists(tree: frozenset[str], path: str, heading: str | None) -> None:
    named = {
        name
        for name in NAMED.findall(section(path, heading))
        if "/" in name or name.endswith(ENDINGS)
    }
    assert len(named) > 10
    missing = {name for name in named if name not in tree and f"{name}/" not in tree}
    assert not missing, f"{path} names what does not exist: {sorted(missing)}"
