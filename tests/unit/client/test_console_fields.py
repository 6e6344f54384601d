"""What the console takes from forms and addresses, and what it refuses."""

from __future__ import annotations

from datetime import date
from unicodedata import normalize

import pytest

from hitherto_client.command import main
from hitherto_client.console.charts import usage_charts
from hitherto_client.console.fields import FieldRefused, Fields
from hitherto_client.console.visits import only_here
from hitherto_client.results import Usage, UsageRow
from tests.refusing import refusing
from tests.unit.client.fake_services import Fakes


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


# What a table shows where the terminal is too narrow for it.


ID = "0198c0de-7a11-7000-8000-000000000001"
SAID = normalize("NFC", "Người dùng thích uống cà phê sữa đá và không ăn được hải sản 🦐.")


@pytest.mark.parametrize("width", [160, 80, 50])
def test_words_and_ids_stay_whole_at_any_usual_width(
    fakes: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fakes.answer(
        "ListMemories",
        {
            "memories": [
                {
                    "id": ID,
                    "type": "MEMORY_TYPE_PREFERENCE",
                    "status": "MEMORY_STATUS_SUPERSEDED",
                    "content": SAID,
                    "validFrom": "2026-08-17T00:00:00Z",
                }
            ]
        },
    )
    assert main(["memories", "ana"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    assert {ID, "preference", "superseded", "importance", "2026-08-17", *SAID.split()} <= set(words)
    # Not a column with a word on each line.
    assert len(lines) <= 6
