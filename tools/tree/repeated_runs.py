"""No run of ten lines stands in two places of the product: each idea has one home.

Imports state no idea, generated code is written by tools, and a migration stays as it was applied.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "services",
    "shared/hitherto_shared",
    "shared/hitherto_client",
    "shared/hitherto_local",
    "benchmarks",
    "examples",
    "tools",
    "docker",
)
GENERATED = ROOT / "shared/hitherto_client/_sync"
KINDS = {".py", ".js", ".css", ".html"}
LONGEST = 9
"""Lines that two places may share, not counting blank ones."""

Line = tuple[int, str]


def lines_of(text: str, *, python: bool) -> Sequence[Line]:
    """The lines that say something, with their numbers."""
    imports = {
        number
        for node in (ast.walk(ast.parse(text)) if python else ())
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and number not in imports
    ]


def product() -> Iterator[tuple[str, Sequence[Line]]]:
    """The files of the product with their lines."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in KINDS and GENERATED not in file.parents and file.is_file():
                yield (
                    file.relative_to(ROOT).as_posix(),
                    lines_of(file.read_text("utf-8"), python=file.suffix == ".py"),
                )


def repeated(files: Mapping[str, Sequence[Line]]) -> Sequence[str]:
    """The places that share more than `LONGEST` lines, the first place of each run."""
    found: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in files.items():
        for start in range(len(lines) - LONGEST):
            run = tuple(line for _, line in lines[start : start + LONGEST + 1])
            found[run].append((name, lines[start][0]))
    return [
        " and ".join(f"{name}:{number}" for name, number in places)
        for places in found.values()
        if len(places) > 1
    ]


def broken() -> Sequence[str]:
    """The runs that stand in several places."""
    return [f"{places}: give this run one home" for places in repeated(dict(product()))]
