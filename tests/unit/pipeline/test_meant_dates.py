"""A day that stands for "yesterday" is borne out by the message that says so, in its own zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hitherto_extraction.pipeline.guards.refinement import refinement

from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.storage.conversations import StoredMessage
from tests.unit.pipeline.situations import LATER, known, planned, update

# A Monday in Europe, Tuesday already in Tokyo.
LATE = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)


def objections(
    words: str, old: str, new: str, zone: str = "UTC", at: datetime = LATE
) -> tuple[str, ...]:
    said = StoredMessage(1, "c1", "user", "", words, at)
    witnesses = Witnesses("talk", {"m1": said}, zone)
    evidence = witnesses.for_new(["m1"], None)
    return refinement(old, new, witnesses.heard(evidence)).objections


@pytest.mark.parametrize(
    ("words", "date", "zone"),
    [
        ("I have lived in Lisbon since yesterday", "2026-03-01", "UTC"),
        ("I have lived in Lisbon since yesterday", "2026-03-02", "Asia/Tokyo"),
        ("Two weeks ago I came to live in Lisbon", "2026-02-16", "UTC"),
        ("I came to live in Lisbon last month", "2026-02", "UTC"),
        ("Tôi sống ở Lisbon từ hôm qua", "2026-03-01", "UTC"),
        ("Lisbon, since today", "2026-03-02", "Not/AZone"),
        ("昨日からLisbonに住んでいます", "2026-03-01", "UTC"),
        ("我三天前搬到了Lisbon", "2026-02-27", "UTC"),
        ("지난달부터 Lisbon에 살아요", "2026-02", "UTC"),
        ("Vivo en Lisbon desde hace dos semanas", "2026-02-16", "UTC"),
        ("Je vis à Lisbon depuis hier", "2026-03-01", "UTC"),
        ("Seit gestern wohne ich in Lisbon", "2026-03-01", "UTC"),
        ("Я живу в Lisbon со вчера, то есть вчера", "2026-03-01", "UTC"),
        ("أعيش في Lisbon منذ أمس", "2026-03-01", "UTC"),
    ],
)
def test_an_update_may_tell_the_day_that_was_meant(words: str, date: str, zone: str) -> None:
    old = "Ana lives in Lisbon"
    assert objections(words, old, f"{old} since {date}", zone) == ()


@pytest.mark.parametrize(
    ("words", "date"),
    [
        ("I have lived in Lisbon since yesterday", "2026-02-19"),
        ("I live in Lisbon", "2026-03-01"),
        ("Two weeks ago I came to live in Lisbon", "2025-02-16"),
        ("昨日からLisbonに住んでいます", "2026-02-19"),
    ],
)
def test_any_other_day_is_an_invention(words: str, date: str) -> None:
    old = "Ana lives in Lisbon"
    assert objections(words, old, f"{old} since {date}") != ()


def test_a_day_at_the_end_of_the_calendar_is_no_fault() -> None:
    end = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    assert objections("since tomorrow", "Ana lives", "Ana lives", "Asia/Tokyo", end) == ()


def test_a_plan_takes_an_update_with_the_day_that_was_meant() -> None:
    day = LATER.date().isoformat()
    plan = planned(
        known(content="Ana lives in Lisbon"),
        words="I live in Lisbon since today",
        updated=[update(content=f"Ana lives in Lisbon since {day}")],
    )
    (change,) = plan.rewrites
    assert change.after.content == f"Ana lives in Lisbon since {day}"
