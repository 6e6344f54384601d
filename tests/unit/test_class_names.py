"""No two classes of the product share a name, so that a name finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "services",
    "shared/hitherto_client",
    "shared/hitherto_shared",
    "benchmarks",
    "examples",
    "tools",
)


def test_no_class_name_is_defined_twice() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files, f"{folder} holds no Python"
        for file in files:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert not twice, f"give each of these classes a name of its own: {twice}"
