"""Repeat, once, a test that failed where chance may have played a part, and name it at the end.

If a host suspends its virtual machine for half a minute, every deadline and lease of that time
passes at once, and what fails then says nothing about the product: whatever fails beside such a
moment is repeated.

Tests of real processes race with them also on a machine that moves. One that fails is repeated too,
two in each worker at most, so that a product that fails at random still fails the run. What it said
at first is printed. It is a defect to be mended, of the test or of the product, and not a pass.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from _pytest.runner import runtestprotocol

NOTABLE_SECONDS = 5.0
"""How late a thread that sleeps must wake for the machine to have stood still."""
_SLEEP_SECONDS = 0.25
_AFTERMATH_SECONDS = 60.0
"""Connections and leases that a standstill has ended come back within this time."""

_MOST_BY_CHANCE = 2
"""How many tests a worker repeats on a machine that moves."""
_WITHOUT_PROCESSES = "tests/unit/"
"""Nothing here races with anything."""

_REPEATED = pytest.StashKey[bool]()
_WHY, _WHAT = "repeated", "failed at first"


class _Watch(threading.Thread):
    """Notes when the process last stood still, and for how long."""

    def __init__(self) -> None:
        super().__init__(name="standstill", daemon=True)
        self.ended = float("-inf")
        self.seconds = 0.0

    def run(self) -> None:
        seen = time.monotonic()
        while True:
            time.sleep(_SLEEP_SECONDS)
            now = time.monotonic()
            if now - seen >= NOTABLE_SECONDS:
                self.ended, self.seconds = now, now - seen
            seen = now


_watch = _Watch()
_by_chance: list[str] = []


def pytest_sessionstart() -> None:
    _watch.start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Run the test; if it fails and there is a reason to, run it again with new fixtures."""
    if item.stash.get(_REPEATED, False):
        return None
    started = time.monotonic()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = [report for report in reports if report.failed]
    why = _why_again(item, started) if failures else None
    if why is not None:
        # What it shares with other tests may have suffered as well.
        with suppress(Exception):
            item.session._setupstate.teardown_exact(None)
        item.stash[_REPEATED] = True
        item.user_properties.append((_WHY, why))
        item.user_properties.append((_WHAT, "\n".join(map(_told, failures))))
        return item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _why_again(item: pytest.Item, started: float) -> str | None:
    """Why a test that has failed deserves a second try, or None."""
    # The thread notes a standstill only when it wakes.
    time.sleep(2 * _SLEEP_SECONDS)
    if _watch.ended >= started - _AFTERMATH_SECONDS:
        return f"the machine stood still for {_watch.seconds:.0f} s"
    if item.nodeid.startswith(_WITHOUT_PROCESSES) or len(_by_chance) == _MOST_BY_CHANCE:
        return None
    _by_chance.append(item.nodeid)
    return "its first try failed; mend the cause"


def _told(report: pytest.TestReport) -> str:
    return f"{report.when}: {report.longreprtext}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was repeated, and print what it said at first."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            told = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", "") == "setup" and _WHY in told:
                terminalreporter.section(f"{report.nodeid} was repeated: {told[_WHY]}", "-")
                terminalreporter.write_line(told[_WHAT])
