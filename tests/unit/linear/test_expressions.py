"""Every regular expression of the product takes time in proportion to the text it reads.

The expressions are found, not listed (`census.py`), and so are the texts that might be slow for one
(`probes.py`): a new expression is covered once it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.growth import cpu_seconds, filled, more_than_linear
from tests.unit.linear.census import PACKAGES, Census, Expression, take
from tests.unit.linear.probes import probes

_SCREENS = ((64, 0.02), (256, 0.05))
"""Characters, and the seconds that no linear expression needs for them: what is exponential or
cubic must not be tried at length."""

_RULES = "hitherto_extraction.provider.offline"
_CLAUSE = 500
_CLAUSE_SECONDS = 0.15
_CLAUSE_SCREENS = (60, 120, 240, _CLAUSE)
"""The offline rules read one clause at a time, with single spaces and of bounded length. Of that
they may need the square; for all of a message they are linear."""
_WHOLE_MESSAGES = (f"{_RULES}.text",)
"""Modules of the offline rules that read more than a clause."""

_SHAPES = ("\n", " ", "a", "a ", "忽", "1", "- ", ". ", "\u0301", "_", "🙂", "<", "“", "'a ")


@pytest.fixture(scope="module")
def census(data_dir: Path) -> Census:
    return take(data_dir.with_name("census.json"))


def test_the_census_finds_expressions_wherever_they_are(census: Census) -> None:
    places = {one.place.partition(":")[0] for one in census.expressions}
    assert {place.partition(".")[0] for place in places} == set(PACKAGES)
    assert f"{_RULES}.language" in places  # compiled by a function for a table
    assert f"{_RULES}.reading" in places  # written where it is used
    assert len(census.expressions) > 300


def test_an_expression_is_known_before_the_service_runs(census: Census) -> None:
    assert not census.made_later


@pytest.mark.parametrize("package", [*PACKAGES, _RULES])
def test_row_69_an_expression_reads_in_linear_time(census: Census, package: str) -> None:
    slow = {}
    for one in census.expressions:
        in_rules = one.place.startswith(_RULES)
        if one.place.startswith(package) and in_rules == (package == _RULES):
            whole = not in_rules or one.place.partition(":")[0] in _WHOLE_MESSAGES
            if measured := (_slow(one) if whole else _slow_on_a_clause(one)):
                slow[f"{one.place} {one.pattern[:80]}"] = measured
    assert not slow


def _texts(one: Expression) -> Iterator[tuple[str, Callable[[int], str]]]:
    yield from ((repr(shape), partial(filled, shape)) for shape in _SHAPES)
    yield from probes(one.pattern, one.flags)


def _slow(one: Expression) -> str | None:
    work = _use(one)
    for name, text in _texts(one):
        for length, most in _SCREENS:
            given = text(length)
            if _takes_more(partial(work, given), most):
                return f"{name}: {length} characters take more than {most} s"
        if measured := more_than_linear(work, text):
            return f"{name}: {measured}"
    return None


def _slow_on_a_clause(one: Expression) -> str | None:
    work = _use(one)
    for name, text in _texts(one):
        given = " ".join(text(_CLAUSE).split())
        for length in _CLAUSE_SCREENS:
            if _takes_more(partial(work, given[:length]), _CLAUSE_SECONDS):
                return f"{name}: {length} characters take more than {_CLAUSE_SECONDS} s"
    return None


def _takes_more(work: Callable[[], object], seconds: float) -> bool:
    # A busy machine inflates single measurements: look again before judging.
    return cpu_seconds(work, runs=1) > seconds and cpu_seconds(work, runs=9) > seconds


def _use(one: Expression) -> Callable[[str], object]:
    expression = re.compile(one.pattern, one.flags)
    if set(one.methods) <= {"match", "fullmatch"}:
        return lambda text: (expression.match(text), expression.fullmatch(text))
    # It searches, and goes on behind what it has found.
    return lambda text: expression.sub("", text)
