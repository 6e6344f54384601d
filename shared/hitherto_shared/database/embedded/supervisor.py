"""Watches the server and restarts it if it dies; runs in every holder.

It is a daemon thread and no asyncio task: it continues while an event loop is blocked, and serves
commands without one. Of several holders, the startup lock lets one act.
"""

from __future__ import annotations

import logging
import threading

from hitherto_shared.database.embedded.cluster import Cluster
from hitherto_shared.database.embedded.holders import Holders
from hitherto_shared.database.embedded.layout import Interrupted

logger = logging.getLogger("hitherto.database.embedded")

_INTERVAL_SECONDS = 0.5
_AFTER_FAILURE_SECONDS = 2.0
_JOIN_SECONDS = 30.0


class Supervisor:
    """Restarts a dead server until stopped. A slow or frozen one is left alone."""

    def __init__(self, cluster: Cluster, holders: Holders) -> None:
        self._cluster = cluster
        self._holders = holders
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="embedded-postgres-supervisor", daemon=True
        )

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and any restart in progress; returns when no more will happen."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def _watch(self) -> None:
        pause = _INTERVAL_SECONDS
        while not self._stop.wait(pause):
            pause = _INTERVAL_SECONDS
            try:
                if self._cluster.alive():
                    self._cluster.rotate_log()
                else:
                    self._restart()
            except Interrupted:
                return
            except Exception as error:
                # Whatever the error (disk full, a lock held for too long), it may be gone next
                # time.
                logger.error("the embedded Postgres is down and was not restarted: %s", error)
                pause = _AFTER_FAILURE_SECONDS

    def _restart(self) -> None:
        with self._holders.startup(self._stop):
            if self._cluster.alive():
                return
            logger.warning("the embedded Postgres died; restarting it")
            if self._cluster.ensure_running(self._stop):
                logger.warning("restarted the embedded Postgres (process %s)", self._cluster.pid)
