"""The list of worked examples names tests that exist (I7)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
_LIST = (TESTS / "README.md").read_text("utf-8").partition("## Worked examples")[2]
NAMED = re.findall(r"^\| 00\d.*\| `([\w/.]+)::(\w+)` \|$", _LIST, re.MULTILINE)


def test_every_row_names_one_test() -> None:
    assert len(NAMED) == len(re.findall(r"^\| 00\d", _LIST, re.MULTILINE)) >= 18
    assert len(set(NAMED)) == len(NAMED)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_exists(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (TESTS / file).read_text("utf-8"))
