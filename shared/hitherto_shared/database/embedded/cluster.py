"""Creates, starts, checks and stops one cluster. Callers hold the startup lock."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

from hitherto_shared.database.embedded import postmaster
from hitherto_shared.database.embedded.account import SystemAccount
from hitherto_shared.database.embedded.binaries import MAJOR, programs
from hitherto_shared.database.embedded.credentials import Credentials
from hitherto_shared.database.embedded.layout import (
    SOCKET_NAME,
    DataFolderLayout,
    EmbeddedPostgresError,
    Interrupted,
)

logger = logging.getLogger("hitherto.database.embedded")

_START_SECONDS = 30.0  # for a server that does not come up because an old one is still in the way
_REFUSED_SECONDS = 2.0  # for one that does not come up for any other reason
_RECOVERY_SECONDS = 120.0  # for one that is alive and not ready yet
_STOP_SECONDS = 20.0
_LOG_LIMIT_BYTES = 8 << 20

# Written into postgresql.conf once, where an administrator may change them.
CHANGEABLE = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "timezone": "UTC",
    # The passwords are random and too long to guess. To hash them 4,096 times, the default, costs
    # every new connection 4 ms of CPU and protects nothing.
    "scram_iterations": "1",
}

# Passed at each start: socket, durability, and logs without user data.
_FIXED = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "synchronous_commit": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_timezone": "UTC",
    "log_error_verbosity": "terse",
    # The sender of a refused statement gets its error, which can quote a value, terse or not.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
}

# Transient reasons: the remains of a killed server.
_PASSING = ("still in use", "already exists", "Is another postmaster")


class Cluster:
    """The server of one data folder."""

    def __init__(
        self, layout: DataFolderLayout, account: SystemAccount, credentials: Credentials
    ) -> None:
        self._layout = layout
        self._account = account
        self._credentials = credentials
        self.socket_folder = layout.socket_folder(account.uid)

    @property
    def pid(self) -> int | None:
        """Pid of the living postmaster, or None."""
        return postmaster.live_pid(self._layout.cluster)

    def alive(self) -> bool:
        """Whether a server runs, even a slow or frozen one. Cheap, and needs no lock."""
        return self.pid is not None or postmaster.listens(self.socket_folder / SOCKET_NAME)

    def ensure_exists(self) -> None:
        """Create the cluster at the first start; a crash midway leaves nothing usable."""
        found = self._layout.cluster / "PG_VERSION"
        if self._layout.cluster.exists():
            version = found.read_text("utf-8").strip() if found.exists() else "unknown"
            if version != str(MAJOR):
                raise EmbeddedPostgresError(
                    f"{self._layout.cluster} was created by PostgreSQL {version}, but this program"
                    f" has {MAJOR}; move it away, or use it with its own version by DATABASE_URL"
                )
            return
        for remains in self._layout.folder.glob("postgres.new-*"):
            shutil.rmtree(remains, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._layout.folder))
        try:
            self._account.own(draft)
            self._initdb(draft)
            (draft / "cluster").rename(self._layout.cluster)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _initdb(self, draft: Path) -> None:
        password = draft / "password"
        password.touch(mode=0o600)
        password.write_text(self._credentials.superuser_password, "utf-8")
        self._account.own(password)
        command = [str(programs(self._layout, self._account) / "initdb")]
        command += ["--pgdata", str(draft / "cluster"), "--username", "postgres"]
        command += ["--pwfile", str(password), "--auth", "scram-sha-256", "--data-checksums"]
        # The built-in locale is the same on every system and never changes under an index.
        command += ["--encoding", "UTF8", "--locale-provider", "builtin"]
        command += ["--builtin-locale", "C.UTF-8", "--locale", "C"]
        for name, value in CHANGEABLE.items():
            command += ["--set", f"{name}={value}"]
        done = self._account.run(command)
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip()
            raise EmbeddedPostgresError(
                f"cannot create a database in {self._layout.folder}: {reason}"
            )

    def ensure_running(self, stop: threading.Event) -> bool:
        """Start the server unless it runs (True: it did not), and wait until it takes connections.

        Raises:
            EmbeddedPostgresError: It does not start, or runs without becoming ready.
            Interrupted: `stop` was set.
        """
        began = time.monotonic()
        launched: int | None = None
        attempts = 0
        mark = 0
        while True:
            waited = time.monotonic() - began
            found = postmaster.read_pid_file(self._layout.cluster)
            if self.alive():
                if found is not None and found.status in {"ready", "standby"}:
                    return attempts > 0
                if waited > _RECOVERY_SECONDS:
                    raise EmbeddedPostgresError(
                        f"the embedded Postgres (process {found.pid if found else 'unknown'}) has"
                        f" been {(found.status if found else '') or 'silent'} for {waited:.0f} s;"
                        f" see {self._layout.log}"
                    )
            elif launched is None or not postmaster.is_postmaster(launched, self._layout.cluster):
                if launched is not None:
                    self._check_patience(waited, mark)
                    _pause(stop, 0.2)
                attempts += 1
                mark = self._log_size()
                launched = self._launch(found)
            _pause(stop, 0.02)

    def _check_patience(self, waited: float, mark: int) -> None:
        """Raise if a failed start is not worth another attempt."""
        said = self._log_since(mark)
        passing = any(text in said for text in _PASSING)
        if waited > (_START_SECONDS if passing else _REFUSED_SECONDS):
            reason = said.strip().splitlines()[-1] if said.strip() else "it ended without a word"
            raise EmbeddedPostgresError(
                f"the embedded Postgres does not start: {reason} (see {self._layout.log})"
            )

    def _launch(self, stale: postmaster.PidFile | None) -> int:
        """Start `postgres` as nobody's child and in a session of its own; returns its pid or 0."""
        if stale is not None:
            orphans = postmaster.end_orphans(self._layout.cluster)
            if orphans:
                logger.warning("ended %d processes of a dead Postgres", len(orphans))
        socket_folder = self._layout.make_socket_folder(self._account.uid, self._account.gid)
        for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
            (socket_folder / name).unlink(missing_ok=True)
        quoted = str(socket_folder).replace('"', '""')
        settings = _FIXED | {"unix_socket_directories": f'"{quoted}"'}
        program = programs(self._layout, self._account) / "postgres"
        command = [str(program), "-D", str(self._layout.cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        # Postgres considers a pid file valid if any process has its pid. This one is known not to
        # be a postmaster, and Postgres' own protection against orphans stays effective.
        environment = {"PG_GRANDPARENT_PID": str(stale.pid)} if stale is not None else {}
        self.rotate_log()
        log = self._layout.open_private(self._layout.log, os.O_WRONLY | os.O_APPEND)
        try:
            # Through a shell that ends at once: if the server were our child, its zombie would stay
            # as long as we do.
            done = self._account.run(
                ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
                environment=environment,
                errors_to=log,
                new_session=True,
            )
        finally:
            os.close(log)
        # A machine that is briefly out of processes lets the shell start nothing. That is an
        # ordinary failed attempt: 0 is never a postmaster.
        return int(done.stdout or 0)

    def stop(self) -> None:
        """Stop the server by a fast shutdown, then by an immediate one, which is crash-safe.

        A server that does not end (because it is frozen, for example) is logged, without an error.
        """
        for number in (signal.SIGINT, signal.SIGQUIT):
            pid = self.pid
            if pid is None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if self._wait_for_end(pid):
                break
        if self.alive():
            logger.error(
                "the embedded Postgres (process %s) did not stop; see %s",
                self.pid,
                self._layout.log,
            )
        elif self.socket_folder.parent != self._layout.folder:
            with contextlib.suppress(OSError):
                self.socket_folder.rmdir()

    def _wait_for_end(self, pid: int) -> bool:
        give_up = time.monotonic() + _STOP_SECONDS
        while postmaster.is_postmaster(pid, self._layout.cluster):
            if time.monotonic() > give_up:
                return False
            time.sleep(0.02)
        return True

    def rotate_log(self) -> None:
        """Limit the size of the log: beyond the limit it becomes `postgres.log.1`."""
        if self._log_size() <= _LOG_LIMIT_BYTES:
            return
        # Copied and truncated, not renamed: the server keeps writing to its open file.
        old = self._layout.log.with_name("postgres.log.1")
        source = self._layout.open_private(self._layout.log, os.O_RDWR)
        with os.fdopen(source, "r+b") as current:
            target = self._layout.open_private(old, os.O_WRONLY | os.O_TRUNC)
            with os.fdopen(target, "wb") as kept:
                shutil.copyfileobj(current, kept)
            current.truncate(0)

    def _log_size(self) -> int:
        try:
            return self._layout.log.stat().st_size
        except OSError:
            return 0

    def _log_since(self, mark: int) -> str:
        try:
            with self._layout.log.open("rb") as file:
                file.seek(mark)
                return file.read(1 << 16).decode(errors="replace")
        except OSError:
            return ""


def _pause(stop: threading.Event, seconds: float) -> None:
    if stop.wait(seconds):
        raise Interrupted
