"""Statements of the services: the parts that they share, and the names by which logs call them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from hitherto_shared.database.fragments import Fragment, expanded, fragments
from hitherto_shared.database.statement_names import name_of, name_of_trip
from tools.tree.scope_of_statements import statements
from tools.tree.whole_statements import SQL, product

# Parts of statements that several of them share.


SERVICES = Path(__file__).resolve().parents[2] / "services"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "ages": Fragment((), "SELECT id, age FROM people WHERE team = %(team)s"),
        "is_older": Fragment(("person", "than"), ":person.age > :than::int"),
        "elders": Fragment((), "SELECT id FROM @ages AS a WHERE @is_older(a, %(limit)s)"),
    }
    monkeypatch.setattr("hitherto_shared.database.fragments.fragments", lambda: found)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("statement", "whole"),
    [
        ("SELECT a @> b, 'x@yard.org' WHERE c = '@'", "SELECT a @> b, 'x@yard.org' WHERE c = '@'"),
        (
            "SELECT 1 FROM @ages AS a;",
            "SELECT 1 FROM (SELECT id, age FROM people WHERE team = %(team)s) AS a;",
        ),
        (
            "WHERE NOT @is_older(p, greatest(ages[1], (SELECT 2, 3)))",
            "WHERE NOT (p.age > greatest(ages[1], (SELECT 2, 3))::int)",
        ),
        (
            "FROM @elders AS e",
            "FROM (SELECT id FROM (SELECT id, age FROM people WHERE team = %(team)s) AS a"
            " WHERE (a.age > %(limit)s::int)) AS e",
        ),
    ],
)
def test_a_statement_gets_the_text_of_what_it_names(statement: str, whole: str) -> None:
    assert expanded(statement) == whole


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "statement",
    ["FROM @nothing AS n", "WHERE @is_older(p)", "FROM @ages(p) AS a", "WHERE @is_older(p, (1)"],
)
def test_what_cannot_be_expanded_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match=r"no fragment @\w+ takes \d|no parenthesis closes"):
        expanded(statement)


def test_every_fragment_is_used() -> None:
    """By a statement of a service, or by another fragment."""
    texts = [path.read_text("utf-8") for path in SERVICES.rglob("storage/**/*.py")]
    texts += [fragment.text for fragment in fragments().values()]
    named = set(re.findall(r"@(\w+)", "\n".join(texts)))
    assert sorted(set(fragments()) - named) == []


def test_every_statement_names_fragments_that_there_are() -> None:
    """`statements` expands each of them."""
    assert not any(re.search(r"(?<!\w)@[a-z]\w+", text) for _, _, text in statements())


# Every statement of the services has a name by which logs and traces call it.


def named_statements() -> dict[str, str]:
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
    found = named_statements()
    assert len(found) > 100
    names = {name: name_of(text) for name, text in found.items()}
    # One that stands in several modules has the name of one of them.
    others = {name: told for name, told in names.items() if told != name}
    assert all(told.endswith(name.partition(".")[2]) for name, told in others.items())
    assert len(others) < 10
    assert name_of(found["claims.claim"].encode()) == "claims.claim"


def test_a_trip_names_its_statements_without_the_frame_of_the_transaction() -> None:
    found = named_statements()
    claim, hold = found["claims.claim"], found["claims.hold"]
    assert name_of_trip(("BEGIN", claim, hold, hold, "COMMIT")) == "claims.claim + claims.hold"
    assert name_of_trip(("COMMIT",)) == "exchange.commit"
    many = tuple(found.values())[:7]
    assert name_of_trip(many).endswith(" + 2 more")
