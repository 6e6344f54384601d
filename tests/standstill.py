"""Repeat, once, a test that failed while the machine stood still.

If a host suspends its virtual machine for half a minute, every deadline and lease of that time
passes at once, and what fails then says nothing about the product. A test that fails without such a
moment is never repeated.
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

_REPEATED = pytest.StashKey[bool]()
_PROPERTY = "repeated"


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


def pytest_sessionstart() -> None:
    """Begin to watch."""
    _watch.start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Run the test; if it fails and the machine stood still, run it again with new fixtures."""
    if item.stash.get(_REPEATED, False):
        return None
    started = time.monotonic()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = any(report.failed for report in reports)
    if failed:
        # The thread notes a standstill only when it wakes.
        time.sleep(2 * _SLEEP_SECONDS)
    if failed and _watch.ended >= started - _AFTERMATH_SECONDS:
        # What it shares with other tests may have suffered as well.
        with suppress(Exception):
            item.session._setupstate.teardown_exact(None)
        item.stash[_REPEATED] = True
        item.user_properties.append((_PROPERTY, f"{_watch.seconds:.0f}"))
        return item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was repeated."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "setup":
                for name, seconds in report.user_properties:
                    if name == _PROPERTY:
                        terminalreporter.write_line(
                            f"{report.nodeid} was repeated: the machine stood still for {seconds} s"
                        )
