"""Every regular expression of the product, found without a list of them.

Run as a program it imports all modules of the product, with an eye on `re.compile`, and reads their
sources for calls such as `re.sub("x", ...)`; it prints one JSON object. A program of its own,
because a pattern is only seen by who watches its module being imported.
"""

from __future__ import annotations

import ast
import fcntl
import gc
import importlib.util
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = (
    "hitherto_shared",
    "hitherto_client",
    "hitherto_local",
    "hitherto_retrieval",
    "hitherto_extraction",
)
_INTEGRATIONS = "hitherto_client.integrations."
"""Modules that import frameworks. It takes seconds, and some frameworks have environments of their
own: only those are imported whose source has regular expressions."""
_IMPORTS_RE = re.compile(rb"^(?:import re$|from re import)", re.MULTILINE)
_FLAGS_AT = {"compile": 1, "search": 2, "match": 2, "fullmatch": 2, "findall": 2, "finditer": 2}
_FLAGS_AT |= {"split": 3, "sub": 4, "subn": 4}


@dataclass(frozen=True, slots=True)
class Expression:
    """One pattern where it is written.

    Attributes:
        methods: How it is used (`search`, `match`, ...) where that can be read from the source;
            empty where it cannot.
    """

    place: str
    pattern: str
    flags: int
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """What was found, and where a pattern is made while the service runs, of more than escaped
    words."""

    expressions: list[Expression]
    made_later: list[str]


def take(kept: Path) -> Census:
    """The census, by a process of its own; once for all who name the same file to keep it in."""
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            command = [sys.executable, "-m", "tests.unit.linear.census"]
            done = subprocess.run(command, capture_output=True, check=True)
            kept.write_bytes(done.stdout)
    found: dict[str, Any] = json.loads(kept.read_bytes())
    return Census(
        [Expression(**one | {"methods": tuple(one["methods"])}) for one in found["expressions"]],
        found["made_later"],
    )


def _watched_import() -> tuple[list[ModuleType], dict[tuple[str, int], set[tuple[str, int]]]]:
    compile_ = re.compile
    seen: dict[tuple[str, int], set[tuple[str, int]]] = {}

    def watching(pattern: Any, flags: Any = 0) -> Any:
        compiled = compile_(pattern, flags)
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        caller = frame.f_back
        pattern = compiled.pattern
        if isinstance(pattern, bytes):
            pattern = pattern.decode("ascii")
        at = (caller.f_code.co_filename, caller.f_lineno)
        seen.setdefault(at, set()).add((pattern, compiled.flags))
        return compiled

    re.compile = watching
    modules = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        modules.append(package)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith("__main__") and _may_have_some(found.name):
                modules.append(importlib.import_module(found.name))
    re.compile = compile_
    return modules, seen


def _may_have_some(module: str) -> bool:
    spec = importlib.util.find_spec(module) if module.startswith(_INTEGRATIONS) else None
    return spec is None or bool(_IMPORTS_RE.search(Path(str(spec.origin)).read_bytes()))


def _calls(nodes: list[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _FLAGS_AT
        ):
            yield node


def _evaluated(node: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(node), module.__name__, "eval"), dict(vars(module)))


def _inline(node: ast.Call, module: ModuleType) -> tuple[str, int] | None:
    """Pattern and flags of a call, if they are made of what the module has; else None."""
    assert isinstance(node.func, ast.Attribute)
    at = _FLAGS_AT[node.func.attr]
    flags = [word.value for word in node.keywords if word.arg == "flags"] + node.args[at : at + 1]
    try:
        compiled = re.compile(
            _evaluated(node.args[0], module), _evaluated(flags[0], module) if flags else 0
        )
    except NameError:
        return None
    return compiled.pattern, compiled.flags


def _escapes(nodes: list[ast.AST], call: ast.Call) -> bool:
    """Whether the function around a call takes words literally, by `re.escape`."""
    return any(
        isinstance(function, ast.FunctionDef)
        and any(node is call for node in ast.walk(function))
        and any(
            isinstance(node, ast.Attribute) and node.attr == "escape" for node in ast.walk(function)
        )
        for function in nodes
    )


def _methods_of_names(modules: list[list[ast.AST]]) -> dict[str, set[str]]:
    """For each name that stands for a pattern somewhere: its methods that are called anywhere.

    A name that is also passed on, or put into something, may be used in any way: `search`.
    """
    used: dict[str, set[str]] = {}
    for nodes in modules:
        called = set()
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
                called.add(id(node.value))
        for node in nodes:
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and id(node) not in called
            ):
                used.setdefault(node.id, set()).add("search")
    return used


def _assigned_name(nodes: list[ast.AST], call: ast.Call) -> str | None:
    for node in nodes:
        if isinstance(node, ast.Assign) and node.value is call:
            (target,) = node.targets
            return target.id if isinstance(target, ast.Name) else None
    return None


def _main() -> None:
    # What is imported and parsed stays: a collection of garbage finds none.
    gc.disable()
    modules, seen = _watched_import()
    sources = [(module, str(module.__file__)) for module in modules if module.__file__]
    parsed = {path: list(ast.walk(ast.parse(Path(path).read_text("utf-8")))) for _, path in sources}
    uses = _methods_of_names(list(parsed.values()))
    expressions, made_later = [], []
    for module, path in sources:
        for call in _calls(parsed[path]):
            assert isinstance(call.func, ast.Attribute)
            place = f"{module.__name__}:{call.lineno}"
            if call.func.attr == "compile":
                lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
                found = {one for line in lines for one in seen.get((path, line), ())}
                name = _assigned_name(parsed[path], call)
                methods = uses.get(name, {"search"}) if name else {"search"}
            else:
                inline = _inline(call, module)
                found = {inline} if inline else set()
                methods = {call.func.attr}
            if not found and not _escapes(parsed[path], call):
                made_later.append(place)
            for pattern, flags in sorted(found):
                expressions.append(Expression(place, pattern, flags, tuple(sorted(methods))))
    json.dump(
        {"expressions": [asdict(one) for one in expressions], "made_later": made_later}, sys.stdout
    )


if __name__ == "__main__":
    _main()
