"""What the console takes from forms and addresses, and what it refuses."""

from __future__ import annotations

import pytest

from hitherto_client.console.fields import FieldRefused, Fields
from hitherto_client.console.visits import only_here
from tests.refusing import refusing


def fields(text: str) -> Fields:
    return Fields({"x": [text]})


def test_what_is_no_whole_number() -> None:
    for text in ["-1", "201", "1.5", "²", "٣", "1e3", "9" * 5_000, "one"]:
        with pytest.raises(FieldRefused, match="from 0 to 200"), refusing(text):
            fields(text).whole("x", least=0, most=200)


def test_what_is_no_share() -> None:
    for text in ["nan", "inf", "-0.1", "1.1", "1e400", "one"]:
        with pytest.raises(FieldRefused, match="from 0 to 1"), refusing(text):
            fields(text).share("x")


def test_what_is_no_day() -> None:
    for text in [
        "2026-13-45",
        "yesterday",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
    ]:
        with pytest.raises(FieldRefused, match="2026-08-21"), refusing(text):
            fields(text).day("x")


def test_words_are_those_that_there_are() -> None:
    assert Fields({"x": ["a", "", "b"]}).words("x", ("a", "b")) == ["a", "b"]
    for read in (fields("c").word, fields("c").words):
        with pytest.raises(FieldRefused, match="unknown: c"):
            read("x", ("a", "b"))


def test_redirects_stay_here() -> None:
    for target, kept in [
        ("/memories?q=tea", "/memories?q=tea"),
        ("", "/"),
        ("memories", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("https://evil.example", "/"),
    ]:
        assert only_here(target) == kept
