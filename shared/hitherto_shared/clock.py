"""The one clock of a process.

Leases, order, decay and all other decisions use the database's time (`clock_timestamp()`), so that
a wrong clock on one machine cannot reorder anything. This clock serves only a process's statements
about itself and the default reference time of a question.
"""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present moment, with its zone."""
    return datetime.now(UTC)
