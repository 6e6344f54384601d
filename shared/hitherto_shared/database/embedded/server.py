"""The public interface of the embedded Postgres: acquire, connect, release."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from hitherto_shared.database.embedded.account import account_for
from hitherto_shared.database.embedded.binaries import require_platform
from hitherto_shared.database.embedded.cluster import Cluster
from hitherto_shared.database.embedded.credentials import Credentials, credentials_of
from hitherto_shared.database.embedded.holders import Holders
from hitherto_shared.database.embedded.layout import DataFolderLayout, EmbeddedPostgresError
from hitherto_shared.database.embedded.preparation import DATABASE, LOGIN_ROLE, prepare
from hitherto_shared.database.embedded.supervisor import Supervisor

logger = logging.getLogger("hitherto.database.embedded")

_ANSWER_SECONDS = 15.0


class EmbeddedPostgres:
    """This process's hold on the server of a data folder. Created only by `acquire`.

    All calls block; from an event loop run them in a thread. The hold ends with `release`, with the
    `with` block, at the interpreter's end, or with the process, however it ends.
    """

    def __init__(
        self, cluster: Cluster, holders: Holders, credentials: Credentials, *, supervise: bool
    ) -> None:
        self._cluster = cluster
        self._holders = holders
        self._credentials = credentials
        self._supervisor = Supervisor(cluster, holders) if supervise else None
        self._release_lock = threading.Lock()
        self._released = False
        self._process = os.getpid()

    @classmethod
    def acquire(cls, data_dir: Path, *, supervise: bool = True) -> EmbeddedPostgres:
        """Hold the server of `data_dir`: created, started or adopted as needed, and ready.

        If `supervise`, it is restarted if it dies while it is held.

        Raises:
            EmbeddedPostgresError: It is unavailable; the text gives the remedy.
        """
        require_platform()
        layout = DataFolderLayout.prepare(data_dir)
        holders = Holders(layout)
        with holders.startup():
            account = account_for(layout)
            account.require_entry(layout.folder)
            credentials = credentials_of(layout)
            cluster = Cluster(layout, account, credentials)
            held = cls(cluster, holders, credentials, supervise=supervise)
            holders.join()
            try:
                cluster.ensure_exists()
                if not cluster.ensure_running(threading.Event()):
                    logger.debug("adopted the running Postgres in %s", layout.folder)
                held._prepare()
            except BaseException:
                if holders.leave():
                    cluster.stop()
                raise
        if held._supervisor is not None:
            held._supervisor.start()
        atexit.register(held.release)
        return held

    def conninfo(self, database: str = DATABASE) -> str:
        """The services' connection string; `connect.with_role` adds a role."""
        return self._conninfo(database, LOGIN_ROLE, self._credentials.login_password)

    def superuser_conninfo(self, database: str = "postgres") -> str:
        """An administrator's connection string, for tests and repairs, never for a service."""
        return self._conninfo(database, "postgres", self._credentials.superuser_password)

    @property
    def pid(self) -> int | None:
        """Pid of the postmaster, or None while it is down."""
        return self._cluster.pid

    def release(self) -> None:
        """Release the server; the last holder stops it. Further calls do nothing.

        Raises:
            EmbeddedPostgresError: Another process keeps the startup lock; the hold then ends with
                this process.
        """
        if os.getpid() != self._process:
            return  # a forked child is no holder
        with self._release_lock:
            if self._released:
                return
            if self._supervisor is not None:
                self._supervisor.stop()
            with self._holders.startup():
                if self._holders.leave():
                    self._cluster.stop()
            self._released = True
        atexit.unregister(self.release)

    def __enter__(self) -> EmbeddedPostgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _conninfo(self, database: str, user: str, password: str) -> str:
        return make_conninfo(
            host=str(self._cluster.socket_folder),
            port=5432,
            dbname=database,
            user=user,
            password=password,
        )

    def _prepare(self) -> None:
        """Prepare the database; this also proves that the server answers."""
        give_up = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                prepare(
                    lambda database: make_conninfo(
                        self.superuser_conninfo(database), connect_timeout=5
                    ),
                    self._credentials,
                )
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > give_up:
                    raise EmbeddedPostgresError(
                        f"the embedded Postgres (process {self.pid}) does not answer: {error}"
                    ) from error
                time.sleep(0.1)
