"""How a row of `jobs` becomes a `Job`."""

from __future__ import annotations

from typing import Any

from hitherto_shared.models import Job


def job_of(row: tuple[Any, ...]) -> Job:
    """The job in a row whose columns stand in the order of `Job`'s fields."""
    return Job(*row)
