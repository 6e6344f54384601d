"""No two classes share a name, so that a name finds one thing.

The client is a product of its own: its results are the nouns of the contract, as those of the
generated stubs are. The services may use these nouns too, for what they store of them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import hitherto.v1

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ("shared/hitherto_client",)
SERVICES = (
    "services",
    "shared/hitherto_shared",
    "shared/hitherto_local",
    "benchmarks",
    "examples",
    "tools",
)


def homes_in(folders: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Where each class is defined, by its name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files, f"{folder} holds no Python"
        for file in files:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    return homes


def nouns_of_the_contract() -> frozenset[str]:
    """The names of its messages."""
    modules = [each.name for each in iter_modules(hitherto.v1.__path__)]
    return frozenset(
        name
        for module in modules
        if module.endswith("_pb2")
        for name in import_module(f"hitherto.v1.{module}").DESCRIPTOR.message_types_by_name
    )


def broken() -> Sequence[str]:
    """The classes that have the name of another one."""
    client, services = homes_in(CLIENT), homes_in(SERVICES)
    found = [homes for each in (client, services) for homes in each.values() if len(homes) > 1]
    shared = {name for name in client if name in services} - nouns_of_the_contract()
    found += [(*client[name], *services[name]) for name in shared]
    return [f"{' and '.join(homes)}: give each of these classes its own name" for homes in found]
