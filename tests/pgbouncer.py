"""A real PgBouncer in front of the tests' Postgres, lending servers for one transaction."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto_shared.database.connect import LOGINS, service_passwords
from hitherto_shared.database.embedded import EmbeddedPostgres

_PATIENCE_SECONDS = 180.0
# As docs/poolers.md has it.
_SECRETS = """
SELECT format('"%%s" "%%s"', rolname, rolpassword) FROM pg_authid WHERE rolname = ANY (%s)
"""


class PgBouncer:
    """A pooler for the services' logins; runs within a `with` block.

    Args:
        postgres: The server behind it.
        conninfo: A database there, as the services log in.
        servers: How many connections to Postgres each login has.
        settings: Further lines of its configuration.
    """

    def __init__(
        self, postgres: EmbeddedPostgres, conninfo: str, *, servers: int = 2, settings: str = ""
    ) -> None:
        self._program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if self._program is None:
            why = "there is no pgbouncer here (Debian's package is called pgbouncer)"
            if os.environ.get("CI"):
                pytest.fail(why)
            pytest.skip(why)
        # Not a folder of pytest's: it runs as the account of Postgres, whose socket it needs.
        self._folder = Path(tempfile.mkdtemp(prefix="pgb-"))
        self._account = psutil.Process(postgres.pid).uids().real
        self._parts = conninfo_to_dict(conninfo)
        with psycopg.connect(postgres.superuser_conninfo()) as connection:
            secrets = connection.execute(_SECRETS, [list(LOGINS)]).fetchall()
        (self._folder / "users.txt").write_text("".join(f"{line}\n" for (line,) in secrets))
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={self._parts['host']} port={self._parts['port']}\n"
            f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {self._folder}\n"
            f"logfile = {self._folder}/log\npidfile = {self._folder}/pid\n"
            f"auth_type = scram-sha-256\nauth_file = {self._folder}/users.txt\n"
            f"pool_mode = transaction\ndefault_pool_size = {servers}\nmax_client_conn = 1000\n"
            f"{settings}\n"
        )
        for path in (self._folder, *self._folder.iterdir()):
            os.chown(path, self._account, -1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        """The same database through the pooler."""
        return make_conninfo("", **{**self._parts, "host": str(self._folder), "port": 6432})

    @property
    def log(self) -> str:
        """What it has said."""
        return (self._folder / "log").read_text("utf-8", errors="replace")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert self._program is not None
        self._process = subprocess.Popen(
            [self._program, str(self._folder / "pgbouncer.ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._account if os.geteuid() == 0 else None,
        )
        give_up = time.monotonic() + _PATIENCE_SECONDS
        login = make_conninfo(
            self.conninfo,
            user="hitherto_read",
            password=service_passwords(self.conninfo)["hitherto_read"],
        )
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(login).close()
                return
            assert self._process.poll() is None, self.log
            assert time.monotonic() < give_up, self.log
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it; its clients lose their connections, and Postgres its own."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        (self._folder / "pid").unlink(missing_ok=True)

    def __enter__(self) -> PgBouncer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
