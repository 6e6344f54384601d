"""The rules about the tree find what breaks them; `make lint` holds the product against them."""

from __future__ import annotations

import ast

from tools.tree.columns_of_rows import columns, converted, fetched
from tools.tree.repeated_runs import LONGEST, lines_of, product, repeated
from tools.tree.scope_of_statements import missing, tables
from tools.tree.whole_statements import composed


def test_a_run_is_found_whatever_its_indentation_and_blank_lines() -> None:
    text = "\n".join(f"step_{number}()" for number in range(LONGEST + 1))
    spread = "def run():\n" + "\n\n".join(f"    {line}" for line in text.splitlines())
    files = {"a.py": lines_of(text, python=True), "b.py": lines_of(spread, python=True)}
    assert repeated(files) == ["a.py:1 and b.py:2"]
    assert not repeated({**files, "b.py": files["b.py"][:LONGEST]})
    names = "\n".join(f"    name_{number}," for number in range(LONGEST + 1))
    imports = lines_of(f"from somewhere import (\n{names}\n)\n", python=True)
    assert not repeated({"a.py": imports, "b.py": imports})
    assert len(dict(product())) > 500


def test_every_way_to_compose_is_seen() -> None:
    ways = """
A = "SELECT 1"
B = A + " WHERE x = 1"
C = f"{A} LIMIT 1"
D = "SELECT {}".format("x")
E = A.replace("1", "2")
F = " ".join(["SELECT 1", "FROM t"])
G = "SELECT %s FROM t" % "x"
H = storage.A
H += " ORDER BY 1"
"""
    assert sorted(set(composed(ast.parse(ways)))) == [3, 4, 5, 6, 7, 8, 10]


def test_columns_are_found() -> None:
    for statement, names in [
        ("SELECT a, t.b, (SELECT x FROM y) AS c, count(*) FROM t", ["a", "b", "c", None]),
        ("WITH w AS (SELECT z FROM t)\nSELECT DISTINCT w.z FROM w", ["z"]),
        ("UPDATE t SET a = 1 WHERE b RETURNING a, coalesce(b, 'x, y') AS d", ["a", "d"]),
    ]:
        assert columns(statement) == names


def test_rows_that_become_objects_are_found() -> None:
    assert len([*fetched(), *converted()]) > 40


def test_a_statement_without_tenant_or_user_is_found() -> None:
    for statement in [
        "SELECT content FROM memories WHERE tenant_id = %(tenant_id)s",
        "SELECT content FROM memories WHERE user_id = %(user_id)s",
        "SELECT m.content FROM memories AS m WHERE m.tenant_id = %(tenant_id)s"
        " AND m.user_id = %(user_id)s AND EXISTS (SELECT FROM history AS h"
        " WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.memory_id)",
        "SELECT m.content FROM messages AS g JOIN memories AS m ON m.memory_id = g.memory_id"
        " WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s",
        "WITH old AS (SELECT memory_id FROM memories) SELECT content FROM memories"
        " WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s",
        "SELECT content FROM memories WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s"
        " UNION SELECT content FROM messages WHERE tenant_id = %(tenant_id)s",
        "UPDATE memories SET tags = %(tags)s WHERE memory_id = %(memory_id)s",
        "DELETE FROM memories AS m USING users AS u WHERE u.tenant_id = %(tenant_id)s"
        " AND u.user_id = %(user_id)s",
        "INSERT INTO memories (tenant_id, memory_id) VALUES (%(tenant_id)s, %(memory_id)s)",
    ]:
        assert missing(statement, tables())
