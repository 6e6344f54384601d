"""Every statement of the services has a name by which logs and traces call it."""

from __future__ import annotations

import ast
import importlib

from hitherto_shared.database.statement_names import name_of, name_of_trip
from tools.tree.whole_statements import SQL, product


def statements() -> dict[str, str]:
    """The statements in the constants of the services' storage and queue, by name."""
    found = {}
    for path, tree in product().items():
        folder, _, file = path.rpartition("/")
        if not folder.endswith(("/storage", "/queue")):
            continue
        importlib.import_module(path.removesuffix(".py").split("/", 2)[2].replace("/", "."))
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
                and SQL.search(node.value.value)
            ):
                name = node.targets[0].id.strip("_").lower()
                found[f"{file.removesuffix('.py')}.{name}"] = node.value.value
    return found


def test_a_statement_has_the_name_of_its_constant() -> None:
    found = statements()
    assert len(found) > 100
    names = {name: name_of(text) for name, text in found.items()}
    # One that stands in several modules has the name of one of them.
    others = {name: told for name, told in names.items() if told != name}
    assert all(told.endswith(name.partition(".")[2]) for name, told in others.items())
    assert len(others) < 10
    assert name_of(found["claims.claim"].encode()) == "claims.claim"


def test_a_trip_names_its_statements_without_the_frame_of_the_transaction() -> None:
    found = statements()
    claim, hold = found["claims.claim"], found["claims.hold"]
    assert name_of_trip(("BEGIN", claim, hold, hold, "COMMIT")) == "claims.claim + claims.hold"
    assert name_of_trip(("COMMIT",)) == "exchange.commit"
    many = tuple(found.values())[:7]
    assert name_of_trip(many).endswith(" + 2 more")
