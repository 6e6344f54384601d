"""Parts of statements that several of them share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hitherto_shared.database.fragments import Fragment, expanded, fragments
from tools.tree.scope_of_statements import statements

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
