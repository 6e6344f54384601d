"""No two classes of the product share a name, so that a name finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ("shared/hitherto_client",)
"""A product of its own: to those who import it, its results are the nouns of the contract."""
SERVICES = ("services", "shared/hitherto_shared", "benchmarks", "examples", "tools")
GENERATED = ROOT / "shared/hitherto_client/_sync"


@pytest.mark.parametrize("folders", [CLIENT, SERVICES], ids=["client", "services"])
def test_no_class_name_is_defined_twice(folders: tuple[str, ...]) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files, f"{folder} holds no Python"
        for file in files:
            if GENERATED in file.parents:
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert not twice, f"give each of these classes a name of its own: {twice}"
