"""Each statement of the product is one literal: no text of SQL is put together from pieces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The name of a table, a role or a database cannot be a parameter. psycopg quotes it as an
# identifier; each of these statements is about any table that holds data of a user, or of its
# memories, or sets up roles and databases.
IDENTIFIERS_ONLY = {
    "services/extraction/hitherto_extraction/storage/erasure.py",
    "services/extraction/hitherto_extraction/storage/exports.py",
    "services/extraction/hitherto_extraction/storage/holdings.py",
    "services/extraction/hitherto_extraction/storage/imported.py",
    "services/extraction/hitherto_extraction/storage/removal.py",
    "services/extraction/hitherto_extraction/storage/sealing.py",
    "shared/hitherto_shared/database/bootstrap.py",
    "shared/hitherto_shared/database/embedded/preparation.py",
    "shared/hitherto_shared/database/migrate.py",
}

SQL = re.compile(
    r"%\(\w+\)s|\b(?:SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET|RETURNING|GROUP BY|ORDER BY"
    r"|LEFT JOIN|WHERE \w+(?:\.\w+)? (?:=|IS|IN)\b)"
)
COMPOSING = {"format", "format_map", "join", "replace", "safe_substitute", "substitute"}


@cache
def product() -> dict[str, ast.Module]:
    """The modules of both services and of what they share, by path."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
        for top in ("services", "shared/hitherto_shared")
        for path in sorted((ROOT / top).rglob("*.py"))
    }


def is_sql(node: ast.AST, named: set[str]) -> bool:
    """Whether text of SQL stands in an expression, or a name of such text."""
    for part in ast.walk(node):  # From the outside inwards.
        if isinstance(part, ast.Await):
            return False  # Its answer, and not the text.
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            if SQL.search(part.value):
                return True
        elif isinstance(part, ast.Name | ast.Attribute):
            name = part.id if isinstance(part, ast.Name) else part.attr
            if name in named:
                return True
    return False


def composed_by(node: ast.AST) -> list[ast.AST]:
    """What a text is put together from here; nothing if this composes no text."""
    if isinstance(node, ast.JoinedStr):
        return list(node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod | ast.Mult):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Mod):
        return [node.target, node.value]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in COMPOSING
    ):
        return [node.func.value, *node.args, *(given.value for given in node.keywords)]
    return []


def composed(tree: ast.Module) -> list[int]:
    """The lines in which text of SQL is composed."""
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and SQL.search(node.value.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node.lineno  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if any(is_sql(part, named) for part in composed_by(node))
    ]


def broken() -> Iterator[str]:
    """The lines in which a statement is put together, but for identifiers where these may be.

    There psycopg composes, whose `SQL.format` refuses text.
    """
    for path, tree in product().items():
        by_psycopg = {
            node.lineno
            for node in ast.walk(tree)
            if path in IDENTIFIERS_ONLY
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("format", "join")
            and ast.unparse(node.func.value).startswith("sql.SQL(")
        }
        for line in sorted(set(composed(tree)) - by_psycopg):
            yield f"{path}:{line}: write the statement whole"
