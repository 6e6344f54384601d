"""Parts of statements that several of them share: the SQL files in `fragments/`.

A statement names one with an at sign, as in `FROM @filtered_memories AS m`, and gets its text in
parentheses. A fragment uses the parameters of the statement, such as `%(tenant_id)s`; what differs
within one statement is an argument: `@sealed_of_memory(m.memory_id, …)` stands for `:memory` in its
text. Postgres sees whole statements, and so does an engine that routes them to a shard by the
tenant and user in each of their queries: it does not look into functions and views.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

_NAMED = re.compile(r"(?<![\w@])@([a-z]\w+)")
_ARGUMENT = re.compile(r"(?<!:):([a-z]\w*)")


@dataclass(frozen=True)
class Fragment:
    """A query or a condition, and the names of what it takes in parentheses."""

    arguments: tuple[str, ...]
    text: str


@cache
def fragments() -> dict[str, Fragment]:
    """All fragments, by name. Each begins with a comment: `-- @name(its arguments): what it is`."""
    found = {}
    for file in resources.files(__package__).joinpath("fragments").iterdir():
        for part in file.read_text("utf-8").split("\n-- @")[1:]:
            head, _, rest = part.partition(":")
            name, _, arguments = head.rstrip(")").partition("(")
            lines = [line for line in rest.splitlines()[1:] if not line.startswith("--")]
            text = "\n".join(lines).strip().removesuffix(";")
            found[name] = Fragment(tuple(filter(None, arguments.split(", "))), text)
    return found


def expanded(statement: str) -> str:
    """A statement with the text of the fragments that it names.

    Raises:
        ValueError: It names one that there is not, or gives it other arguments than it takes.
    """
    return "".join(_pieces(statement))


def _pieces(statement: str) -> Iterator[str]:
    place = 0
    while named := _NAMED.search(statement, place):
        yield statement[place : named.start()]
        given, place = _given(statement, named.end())
        fragment = fragments().get(named[1])
        if fragment is None or len(given) != len(fragment.arguments):
            raise ValueError(f"no fragment @{named[1]} takes {len(given)} arguments")
        values = dict(zip(fragment.arguments, given, strict=True))
        text = _ARGUMENT.sub(lambda found, to=values: to[found[1]], fragment.text)  # type: ignore[misc]
        yield f"({expanded(text)})"
    yield statement[place:]


def _given(statement: str, start: int) -> tuple[list[str], int]:
    """The arguments in the parentheses that open here, if any do, and where what follows begins."""
    if statement[start : start + 1] != "(":
        return [], start
    given, depth, begin = [], 0, start + 1
    for place in range(start, len(statement)):
        character = statement[place]
        depth += (character in "([") - (character in ")]")
        if depth == 0 or (depth == 1 and character == ","):
            given.append(statement[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return given, begin
    raise ValueError(f"no parenthesis closes: {statement[start:]}")
