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


def test_no_run_of_ten_lines_stands_twice() -> None:
    files = dict(product())
    assert len(files) > 500
    assert not repeated(files), "give each of these runs one home"


def test_a_run_is_found_whatever_its_indentation_and_blank_lines() -> None:
    text = "\n".join(f"step_{number}()" for number in range(LONGEST + 1))
    spread = "def run():\n" + "\n\n".join(f"    {line}" for line in text.splitlines())
    files = {"a.py": lines_of(text, python=True), "b.py": lines_of(spread, python=True)}
    assert repeated(files) == ["a.py:1 and b.py:2"]
    assert not repeated({**files, "b.py": files["b.py"][:LONGEST]})


def test_imports_do_not_count() -> None:
    names = "\n".join(f"    name_{number}," for number in range(LONGEST + 1))
    text = f"from somewhere import (\n{names}\n)\n"
    assert not repeated({name: lines_of(text, python=True) for name in ("a.py", "b.py")})
