"""An integration's extra brings what its page imports; an error without it names the extra."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PAGE = (ROOT / "docs" / "integrations.md").read_text("utf-8")
PROGRAM = r"```python\n(.*?)```"
HERE = {extra for each in EXTRAS["dev"] for extra in Requirement(each).extras}
"""The extras that the environment of the tests has."""


def sections() -> dict[str, str]:
    """The text of each section, by the extra that the table names for it."""
    texts = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-"): text
        for title, text in re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE)
    }
    rows = re.findall(r"\]\(#([a-z0-9-]+)\).*\| `pip install 'hitherto\[(.+?)\]'` \|", PAGE)
    return {extra: texts[anchor] for anchor, extra in rows if extra in HERE}


def installed_with(wanted: list[str]) -> list[Distribution]:
    """Everything that pip installs for some requirements."""
    installed: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [Requirement(each) for each in wanted]
    while left:
        requirement = left.pop()
        for extra in {"", *requirement.extras}:
            if (key := (requirement.name.lower(), extra)) in seen:
                continue
            seen.add(key)
            try:
                found = distribution(requirement.name)
            except PackageNotFoundError:
                continue  # Of another platform.
            installed[requirement.name.lower()] = found
            needs = [Requirement(each) for each in found.requires or ()]
            left += [n for n in needs if not n.marker or n.marker.evaluate({"extra": extra})]
    return list(installed.values())


def has(found: Distribution, module: str) -> bool:
    """Whether a module is a file of an installed package."""
    spec = find_spec(module)
    folder = Path(str(found.locate_file("")))
    if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(folder):
        return False
    file = Path(spec.origin).relative_to(folder).as_posix()
    return f"\n{file}," in f"\n{found.read_text('RECORD')}"


def modules_of(program: str) -> set[str]:
    """What a program imports; a model that is named with its provider needs that package."""
    found = set(re.findall(r'"(\w+):[\w.-]+"', program))
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    own = {"hitherto_client", *sys.stdlib_module_names}
    return {module for module in found if module.split(".")[0] not in own}


SECTIONS = sections()


def test_the_extra_brings_what_its_program_imports() -> None:
    for extra in SECTIONS:
        text = SECTIONS[extra]
        programs = re.findall(PROGRAM, text, re.DOTALL)
        assert programs, extra
        also = re.findall(r"also needs\s`([^`]+)`", text)
        installed = installed_with([*PROJECT["dependencies"], *EXTRAS[extra], *also])
        modules = modules_of("\n".join(programs))
        assert {
            name for name in modules if not any(has(one, name) for one in installed)
        } == set(), extra


# An integration without its package says which extra brings it.


PACKAGES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "agents": "agents",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "pydantic-ai": "pydantic_ai",
    "agent-framework": "agent_framework",
    "llama-index": "llama_index",
    "strands": "strands",
    "google-adk": "google.adk",
    "litellm": "litellm",
    "crewai": "crewai",
}


@pytest.mark.parametrize("extra", PACKAGES)
def test_the_error_names_the_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, module = PACKAGES[extra], f"hitherto_client.integrations.{extra.replace('-', '_')}"
    for name in list(sys.modules):
        if name.startswith("hitherto_client.integrations.") or name.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'hitherto\[{extra}\]'"):
        importlib.import_module(module)
    assert module not in sys.modules
