"""Watches over the server and brings it back when it died; runs in every holder.

A thread and not an asyncio task: it goes on while an event loop is busy or blocked, serves command
lines and tests that have no loop, and its waits (locks, process starts) may simply block. Being a
daemon it never keeps a process from ending. Several holders watch at once: the startup lock lets
one of them act, and the others find the server alive again.
"""

from __future__ import annotations

import logging
import threading

from hitherto_shared.database.embedded.cluster import Cluster
from hitherto_shared.database.embedded.failure import Interrupted
from hitherto_shared.database.embedded.holders import Holders

logger = logging.getLogger("hitherto.database.embedded")

_INTERVAL_SECONDS = 0.5
_AFTER_FAILURE_SECONDS = 2.0
_JOIN_SECONDS = 30.0


class Supervisor:
    """Restarts a dead server until told to stop. A slow or frozen one is left alone."""

    def __init__(self, cluster: Cluster, holders: Holders) -> None:
        self._cluster = cluster
        self._holders = holders
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="embedded-postgres-supervisor", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch, and a restart that is going on; returns when no more will happen."""
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
                # Whatever it is (disk full, a lock kept for too long), it may be over next time.
                logger.error("the embedded Postgres is down and was not restarted: %s", error)
                pause = _AFTER_FAILURE_SECONDS

    def _restart(self) -> None:
        with self._holders.startup(self._stop):
            if self._cluster.alive():
                return
            logger.warning("the embedded Postgres died; restarting it")
            if self._cluster.ensure_running(self._stop):
                logger.warning("restarted the embedded Postgres (process %s)", self._cluster.pid)
