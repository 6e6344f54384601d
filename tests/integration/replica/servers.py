"""A primary of a test's own and hot standbys that stream from it, all to be stopped at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import psycopg.sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.embedded.account import account_for
from hitherto_shared.database.embedded.binaries import programs
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.database.migrate import migrate
from tests.waiting import wait_until

_SETTINGS = {
    "hot_standby": "on",
    "listen_addresses": "",
    "port": "5432",
    "log_error_verbosity": "terse",
    "wal_retrieve_retry_interval": "100ms",
    # What stands in the way of replay is ended at once.
    "max_standby_streaming_delay": "0",
    # What another standby needs to follow one that is promoted.
    "wal_keep_size": "256MB",
}


class Servers:
    """They are made in `place`: a folder with a short name that Postgres's account can enter."""

    def __init__(self, place: Path) -> None:
        self.primary = EmbeddedPostgres.acquire(place / "data", supervise=False)
        self._place = place
        self._standby: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None
        self._frozen: list[int] = []
        self._layout = DataFolderLayout.prepare(place / "data")
        self._account = account_for(self._layout)
        self._programs = programs(self._layout, self._account)
        try:
            migrate(self.primary.conninfo())
            self._copy()
            self.start_standby()
        except BaseException:
            self.close()
            raise

    @property
    def standby_conninfo(self) -> str:
        """How the services log in to the standby."""
        return make_conninfo(self.primary.conninfo(), host=str(self._place / "run"))

    @property
    def second_conninfo(self) -> str:
        """How the services log in to the second standby."""
        return make_conninfo(self.primary.conninfo(), host=str(self._place / "run2"))

    def administrator(self, *, standby: bool = False) -> psycopg.Connection[tuple[object, ...]]:
        """An administrator's connection to the primary or its standby, in autocommit."""
        conninfo = self.administrator_conninfo()
        if standby:
            conninfo = make_conninfo(conninfo, host=str(self._place / "run"))
        return psycopg.connect(conninfo, autocommit=True)

    def administrator_of_second(self) -> psycopg.Connection[tuple[object, ...]]:
        """An administrator's connection to the second standby, in autocommit."""
        conninfo = make_conninfo(self.administrator_conninfo(), host=str(self._place / "run2"))
        return psycopg.connect(conninfo, autocommit=True)

    def administrator_conninfo(self) -> str:
        """How an administrator logs in to the primary."""
        return make_conninfo(
            self.primary.superuser_conninfo("hitherto"),
            options="-c search_path=hitherto,public",
            connect_timeout=10,
        )

    @property
    def standby_said(self) -> str:
        return (self._place / "standby.log").read_text("utf-8", errors="replace")

    def _copy(self, number: str = "") -> None:
        run, copy = self._place / f"run{number}", self._place / f"copy{number}"
        run.mkdir(exist_ok=True)
        self._account.own(run)
        copy.mkdir(mode=0o700)
        self._account.own(copy)
        login = conninfo_to_dict(self.primary.superuser_conninfo())
        command = [str(self._programs / "pg_basebackup"), "--pgdata", str(copy)]
        command += ["--host", str(login["host"]), "--port", str(login["port"])]
        command += ["--username", str(login["user"]), "--write-recovery-conf"]
        command += ["--wal-method", "stream", "--checkpoint", "fast"]
        done = subprocess.run(
            self._as_account(command),
            capture_output=True,
            check=False,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "PGPASSWORD": str(login["password"])},
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def _as_account(self, command: list[str]) -> list[str]:
        """The command, run by Postgres's account.

        Not by Popen's `user`, for which Python forks: with gRPC's threads the child may crash.
        """
        if not self._account.switch:
            return command
        ids = [f"--reuid={self._account.uid}", f"--regid={self._account.gid}"]
        return ["setpriv", *ids, "--clear-groups", "--", *command]

    def start_standby(self) -> None:
        """Start it and wait until it takes connections."""
        self._standby = self._started()

        def up() -> bool:
            assert self._standby is not None
            assert self._standby.poll() is None, self.standby_said
            try:
                self.administrator(standby=True).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(up, "the standby to take connections")

    def add_second_standby(self) -> None:
        """Start another standby of the primary and wait until it takes connections."""
        self._copy("2")
        self._second = self._started("2")

        def up() -> bool:
            try:
                self.administrator_of_second().close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(up, "the second standby to take connections")

    def cut_off_second(self) -> None:
        """Have it receive nothing, as if the primary were dead; the other standby gets further."""
        self._let_second_receive_from("")
        with self.administrator_of_second() as connection:
            wait_until(
                lambda: connection.execute("SELECT FROM pg_stat_wal_receiver").fetchone() is None,
                "the second standby to receive nothing",
            )
        self.catch_up()

    def let_second_follow_standby(self) -> None:
        """Let it stream from the other standby, which was promoted."""
        login = self.primary.superuser_conninfo()
        self._let_second_receive_from(make_conninfo(login, host=str(self._place / "run")))

    def _let_second_receive_from(self, login: str) -> None:
        setting = psycopg.sql.Literal(login)
        with self.administrator_of_second() as connection:
            connection.execute(
                psycopg.sql.SQL("ALTER SYSTEM SET primary_conninfo = {}").format(setting)
            )
            connection.execute("SELECT pg_reload_conf()")

    def restart_point_of_second(self) -> None:
        """Have it write its control file, as it does every few minutes."""
        with self.administrator_of_second() as connection:
            connection.execute("CHECKPOINT")

    def _started(self, number: str = "") -> subprocess.Popen[bytes]:
        command = [str(self._programs / "postgres"), "-D", str(self._place / f"copy{number}")]
        settings = {**_SETTINGS, "unix_socket_directories": self._place / f"run{number}"}
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._place / f"standby{number}.log").open("ab") as log:
            return subprocess.Popen(
                self._as_account(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={"PATH": os.defpath, "LC_ALL": "C"},
            )

    def stop_standby(self) -> None:
        """Stop it; it may be frozen."""
        if self._standby is not None:
            self.thaw()
            self._standby.send_signal(signal.SIGQUIT)
            self._standby.wait(180)
            self._standby = None

    def freeze_standby(self) -> None:
        """Stop it in its tracks: it answers nothing and refuses nothing."""
        assert self._standby is not None
        postmaster = psutil.Process(self._standby.pid)
        # The postmaster first, so that it makes no child that is missed.
        os.kill(postmaster.pid, signal.SIGSTOP)
        self._frozen = [postmaster.pid, *(each.pid for each in postmaster.children())]
        for pid in self._frozen[1:]:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in reversed(self._frozen):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._frozen = []

    def pause_replay(self, *, caught_up: bool = True) -> None:
        """What is written from now on does not show at the standby; if caught up, all else does."""
        if caught_up:
            self.catch_up()
        self._order("SELECT pg_wal_replay_pause()")
        with self.administrator(standby=True) as connection:

            def paused() -> bool:
                row = connection.execute("SELECT pg_get_wal_replay_pause_state()").fetchone()
                return row == ("paused",)

            wait_until(paused, "the pause of replay")

    def promote_standby(self) -> None:
        """Make it a server of its own, which no longer follows the primary."""
        self._order("SELECT pg_promote()")

    def replace_standby(self) -> None:
        """Start a new one, copied from the primary as it is now."""
        self.stop_standby()
        shutil.rmtree(self._place / "copy")
        self._copy()
        self.start_standby()

    def resume_replay(self) -> None:
        self._order("SELECT pg_wal_replay_resume()")

    def _order(self, statement: str) -> None:
        """Have the standby do it; replay, which ends what stands in its way, may end that too."""

        def done() -> bool:
            try:
                with self.administrator(standby=True) as connection:
                    connection.execute(statement.encode())
            except psycopg.errors.SerializationFailure:
                return False
            return True

        wait_until(done, statement)

    def catch_up(self) -> None:
        """Wait until the standby shows all that is written so far."""
        with self.administrator() as primary, self.administrator(standby=True) as standby:
            self.flush(primary)
            row = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            wait_until(
                lambda: (
                    standby.execute("SELECT pg_last_wal_replay_lsn() >= %s", row).fetchone()
                    == (True,)
                ),
                "the standby to catch up",
            )

    def flush(self, primary: psycopg.Connection[tuple[object, ...]]) -> None:
        """Have all that was written so far sent, that of open transactions as well."""
        primary.execute("SELECT pg_logical_emit_message(true, 'test', '')")

    def stop_primary(self) -> None:
        """Stop it for good."""
        self.primary.release()

    def close(self) -> None:
        """Leave nothing running."""
        self.stop_standby()
        if self._second is not None:
            self._second.send_signal(signal.SIGQUIT)
            self._second.wait(180)
            self._second = None
        self.primary.release()
