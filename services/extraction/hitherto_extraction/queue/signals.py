"""Wakes workers and watchers when a job was queued or changed.

A signal names the job that changed.
"""

from __future__ import annotations

from hitherto_shared.database.signals import Signals

CHANNEL = "hitherto_jobs"
RETRIED = "retried"
"""Signalled in place of a job's id when jobs were retried by hand."""


class JobSignals(Signals):
    """Listens for changes of jobs while it runs.

    Args:
        conninfo: See `Signals`.
    """

    def __init__(self, conninfo: str | None) -> None:
        super().__init__(CHANNEL, conninfo, later="jobs that another process accepted start")
