"""Usage as columns of days."""

from __future__ import annotations

from datetime import date

from hitherto_client.console.charts import usage_charts
from hitherto_client.results import Usage, UsageRow


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
