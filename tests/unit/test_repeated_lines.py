"""Lines that calls repeat: the first of a kind, the number of the rest, and nothing of others."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hitherto_shared.rpc import repeated_lines
from hitherto_shared.rpc.repeated_lines import WHOLE_LINES, WINDOW_SECONDS, RepeatedLines

LOGGER = logging.getLogger("test.repeated")


class Clock:
    """Seconds that pass when told."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _level() -> None:
    LOGGER.setLevel(logging.INFO)


def told(caplog: pytest.LogCaptureFixture, tenant: str) -> list[dict[str, Any]]:
    lines = [vars(record) for record in caplog.records if record.name == LOGGER.name]
    return [line for line in lines if line["tenant"] == tenant]


def test_a_flood_of_one_hides_no_line_of_another(caplog: pytest.LogCaptureFixture) -> None:
    lines = RepeatedLines(LOGGER, Clock())
    for number in range(100):
        lines.say(logging.INFO, "refused", {"tenant": "loud"}, {"id": number})
        if number % 30 == 0:
            lines.say(logging.INFO, "refused", {"tenant": "quiet"}, {"id": number})
    lines.flush()
    *first, last = told(caplog, "loud")
    assert [line["id"] for line in first] == list(range(WHOLE_LINES))
    assert last["repeated"] == 100 - WHOLE_LINES
    assert "id" not in last
    assert [line["id"] for line in told(caplog, "quiet")] == [0, 30, 60, 90]


def test_every_window_begins_anew_even_where_no_timer_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    lines = RepeatedLines(LOGGER, clock)
    for _ in range(3):
        for _ in range(WHOLE_LINES + 5):
            lines.say(logging.INFO, "refused", {"tenant": "a"})
        clock.now += WINDOW_SECONDS
    lines.flush()
    numbers = [line.get("repeated") for line in told(caplog, "a")]
    assert numbers == [*([None] * WHOLE_LINES), 5] * 3


async def test_the_number_comes_when_the_flood_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_lines, "WINDOW_SECONDS", 0.05)
    over = asyncio.Event()

    def seen(line: logging.LogRecord) -> bool:
        if hasattr(line, "repeated"):
            over.set()
        return True

    monkeypatch.setattr(LOGGER, "filters", [seen])
    lines = RepeatedLines(LOGGER, Clock())
    for _ in range(WHOLE_LINES + 7):
        lines.say(logging.INFO, "refused", {"tenant": "a"})
    async with asyncio.timeout(30):
        await over.wait()
    assert told(caplog, "a")[-1]["repeated"] == 7
