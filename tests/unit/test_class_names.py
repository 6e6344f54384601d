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

import pytest

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
    modules = [each.name for each in iter_modules(hitherto.v1.__path__)]
    return frozenset(
        name
        for module in modules
        if module.endswith("_pb2")
        for name in import_module(f"hitherto.v1.{module}").DESCRIPTOR.message_types_by_name
    )


@pytest.mark.parametrize("folders", [CLIENT, SERVICES], ids=["client", "services"])
def test_no_class_name_is_defined_twice(folders: tuple[str, ...]) -> None:
    twice = {name: found for name, found in homes_in(folders).items() if len(found) > 1}
    assert not twice, f"give each of these classes a name of its own: {twice}"


def test_client_and_services_share_the_nouns_of_the_contract_only() -> None:
    client, services = homes_in(CLIENT), homes_in(SERVICES)
    shared = {name for name in client if name in services}
    found = {name: (*client[name], *services[name]) for name in shared - nouns_of_the_contract()}
    assert not found, f"give each of these classes a name of its own: {found}"
