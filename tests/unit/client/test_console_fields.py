"""The console: what it takes from forms and addresses, what it refuses, its charts, its wording."""

from __future__ import annotations

from datetime import date

import pytest

from hitherto_client.console.charts import usage_charts
from hitherto_client.console.fields import FieldRefused, Fields
from hitherto_client.console.second_person import to_second_person
from hitherto_client.console.visits import only_here
from hitherto_client.results import Usage, UsageRow
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
        ("/memories?q=tea", "/memories?q=tea"), ("", "/"), ("memories", "/"),
        ("//evil.example", "/"), ("/\\evil.example", "/"), ("/a\r\nset-cookie: x", "/"),
        ("https://evil.example", "/"),
    ]:  # fmt: skip
        assert only_here(target) == kept


# Usage as columns of days.


def used(day: str, kind: str, calls: int) -> UsageRow:
    """A row of a report."""
    usage = Usage(
        llm_calls=calls,
        input_tokens=0,
        output_tokens=0,
        embedding_calls=0,
        embedding_tokens=0,
        cost_usd=0.0,
    )
    return UsageRow("", kind, day, "", usage)


def test_a_day_is_one_column_of_all_kinds_drawn_to_the_highest() -> None:
    rows = [
        used("2026-08-22", "preview", 1),
        used("2026-08-22", "memory-extraction", 3),
        used("2026-08-21", "memory-extraction", 2),
        used("2026-01-01", "decay", 9),
    ]
    drawn = usage_charts(rows, date(2026, 8, 20), date(2026, 8, 22))
    assert (drawn.days, drawn.kinds) == (3, ("memory-extraction", "preview"))
    [chart] = drawn.charts
    assert (chart.title, chart.total, chart.most) == ("Calls of the model", "6", "4")
    shown = [(piece.x, piece.y, piece.height, piece.colour) for piece in chart.pieces]
    assert shown == [(1, 30.0, 30.0, 0), (2, 15.0, 45.0, 0), (2, 0.0, 15.0, 1)]
    assert usage_charts([], date(2026, 8, 1), date(2026, 8, 2)).charts == ()


# Statements about a person, as the console says them to that person.


def test_only_what_is_certain_is_turned() -> None:
    for stored, told in [
        ("User lives in Leith.", "You live in Leith."),
        (
            "User moved to Glasgow and lives in Glasgow.",
            "You moved to Glasgow and live in Glasgow.",
        ),
        ("User's sister Ilse lives in Lyon.", "Your sister Ilse lives in Lyon."),
        ("The user bakes their own oat bars.", "You bake your own oat bars."),
        (
            "User has a cat who tries to steal and hides.",
            "You have a cat who tries to steal and hides.",
        ),
        ("User studies law. User doesn't drive.", "You study law. You don't drive."),
        ("User asked: Does User run? He does.", "You asked: Does User run? He does."),
        ("User is tired; wants to rest", "You are tired; want to rest"),
        ("Người dùng sống ở Huế.", "Bạn sống ở Huế."),
        # What is unsure stays as it is.
        ("User interests include cooking.", "User interests include cooking."),
        ("User met Anna and her husband.", "User met Anna and her husband."),
        ("User rows. Maren sings.", "User rows. Maren sings."),
        ("Maren lives in Leith.", "Maren lives in Leith."),
        ("User", "User"),
        ("مريم تحب الشاي", "مريم تحب الشاي"),
    ]:
        assert to_second_person(stored) == told
