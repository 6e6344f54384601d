"""Cron lines of the schedules (requirement C4): which moments they name, which are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.upkeep.schedules import Cron, read_line
from hitherto_shared.config import describe

SUNDAY = datetime(2026, 3, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_latest_and_the_next_moment() -> None:
    for line, until, latest, after in [
        ("0 3 * * *", "2026-03-01 03:00:00", "2026-03-01 03:00", "2026-03-02 03:00"),
        ("0 3 * * *", "2026-03-01 02:59:59.999999", "2026-02-28 03:00", "2026-03-01 03:00"),
        ("* * * * *", "2026-03-01 12:34:56", "2026-03-01 12:34", "2026-03-01 12:35"),
        ("*/15 8-9 * * *", "2026-03-01 12:00", "2026-03-01 09:45", "2026-03-02 08:00"),
        ("30 3 1 jan *", "2026-03-01 00:00", "2026-01-01 03:30", "2027-01-01 03:30"),
        ("0 0 29 2 *", "2026-03-01 00:00", "2024-02-29 00:00", "2028-02-29 00:00"),
    ]:
        cron = Cron(line)
        assert (cron.latest(at(until)), cron.next(at(until))) == (at(latest), at(after))


def test_off_is_never() -> None:
    assert [read_line(line) for line in ("off", " OFF ", "")] == [None] * 3
    assert read_line("0 3 * * *") is not None


def test_days_of_the_week_begin_on_sunday() -> None:
    """As in every crontab, whatever the library counts from."""
    for field, days in [
        ("*", "0123456"), ("0", "0"), ("7", "0"), ("sun", "0"), ("1-5", "12345"),
        ("MON-fri", "12345"), ("5-7", "056"), ("fri-mon", "0156"), ("0,3", "03"), ("*/2", "0246"),
        ("2/2", "246"), ("0-7", "0123456"), ("7-7", "0"),
    ]:  # fmt: skip
        cron = Cron(f"0 3 * * {field}")
        fired = "".join(
            str(day)
            for day in range(7)
            if cron.next(SUNDAY + timedelta(days=day)) == SUNDAY + timedelta(days=day, hours=3)
        )
        assert fired == days


@pytest.mark.parametrize(
    "line",
    ["0 3 * *", "0 3 * * * *", "60 3 * * *", "x 3 * * *", "0 3 * * 8", "0 0 30 2 *", "0 3 * * 1-"],
)
def test_what_is_no_cron_line_is_refused_at_the_start_by_name(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HITHERTO_SCHEDULE_DECAY", line)
    with pytest.raises(ValidationError) as refused:
        ExtractionSettings()
    told = describe(refused.value)
    assert told.startswith("HITHERTO_SCHEDULE_DECAY: ")
    assert line in told


def test_the_lines_in_force_unless_configured() -> None:
    """details.md C4; the days of the audit log are closed after midnight."""
    assert ExtractionSettings().schedule_lines == {
        "decay": "0 3 * * *",
        "consolidation": "30 3 * * *",
        "retention": "0 4 * * *",
        "idle": "* * * * *",
        "audit": "30 0 * * *",
    }
