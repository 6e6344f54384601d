"""A row becomes an object by position: the columns of its statement bear the fields' names."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from tools.tree.whole_statements import module_at, product

FETCHES = {"fetch", "fetch_one"}
BEGINS = re.compile(r"\b(?:SELECT(?:\s+DISTINCT)?|RETURNING)\b")
ENDS = re.compile(r"\b(?:FROM|WHERE|ORDER BY|LIMIT)\b|$")
NAME = re.compile(r"(?:.*\sAS\s+|\w+\.)?(\w+)", re.DOTALL)


def outside_brackets(statement: str) -> str:
    """The statement with everything in brackets replaced by dots."""
    depth, shown = 0, []
    for letter in re.sub(r"--[^\n]*", " ", statement):
        depth += letter == "("
        shown.append("." if depth else letter)
        depth -= letter == ")"
    return "".join(shown)


def columns(statement: str) -> list[str | None]:
    """The names of the columns of the rows; None for an expression without a name."""
    text = outside_brackets(statement)
    *_, begin = BEGINS.finditer(text)
    end = ENDS.search(text, begin.end())
    assert end is not None
    listed = text[begin.end() : end.start()].split(",")
    return [named[1] if (named := NAME.fullmatch(each.strip())) else None for each in listed]


def calls_in(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of a function in a tree."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) == name]


def fetched() -> Iterator[tuple[str, type[Any], str]]:
    """The class and the statement of each call that makes objects, by its place."""
    for path, tree in product().items():
        calls = [
            call
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in FETCHES
        ]
        if not calls or path.endswith("database/pipeline_connection.py"):
            continue
        module = module_at(path)
        for call in calls:
            named = [each.id for each in call.args if isinstance(each, ast.Name)]
            match [getattr(module, each, None) for each in named]:
                case [type() as made, str() as statement, *_]:
                    yield f"{path}:{call.lineno}", made, statement


def converted() -> Iterator[tuple[str, type[Any], str, int]]:
    """The same of each function that makes objects of a `Statement`, and the columns it skips."""
    for path, tree in product().items():
        for function in tree.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            asked = [ast.unparse(call.args[0]) for call in calls_in(function, "Statement")]
            if asked == ["sql"]:
                asked = [ast.unparse(call.args[0]) for call in calls_in(tree, function.name)]
            for call in ast.walk(function) if asked else ():
                match call:
                    case ast.Call(func=ast.Name(id=name), args=[ast.Starred(value=row)]):
                        made = getattr(module_at(path), name, None)
                        skips = re.fullmatch(r"(?:row|rows\[0\])(?:\[(\d+):\])?", ast.unparse(row))
                        if isinstance(made, type) and skips:
                            for sql in asked:
                                statement = getattr(module_at(path), sql)
                                yield f"{path}:{call.lineno}", made, statement, int(skips[1] or 0)


def broken() -> Iterator[str]:
    """The statements whose columns are no fields of what is made of a row."""
    for place, made, statement, skipped in [*((*call, 0) for call in fetched()), *converted()]:
        fields = [each.name for each in dataclasses.fields(made)]
        names = columns(statement)[skipped:]
        if len(names) > len(fields) or any(
            name not in (None, field) for name, field in zip(names, fields, strict=False)
        ):
            yield f"{place}: {made.__name__} has {fields[: len(names)]}, and not {names}"
