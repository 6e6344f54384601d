"""Faults 13 and 14: the server dies and its holders live on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.integration.embedded.processes import Holder, postgres_processes, runs
from tests.waiting import wait_until


def answers(conninfo: str) -> bool:
    try:
        with psycopg.connect(conninfo, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_a_killed_postmaster_comes_back_while_the_holders_live(
    hold: Callable[..., Holder], data_dir: Path
) -> None:
    holders = [hold(), hold()]
    ready = holders[0].answer()
    holders[1].answer()
    with psycopg.connect(ready["superuser"], autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    os.kill(ready["postmaster"], signal.SIGKILL)
    wait_until(lambda: not runs(ready["postmaster"]), "the postmaster's end")
    wait_until(lambda: answers(ready["conninfo"]), "a new server")
    with psycopg.connect(ready["superuser"]) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    assert all(holder.process.poll() is None for holder in holders)
    logs = [holder.finish() for holder in holders]
    assert sum(log.count("restarted the embedded Postgres") for log in logs) == 1
    assert postgres_processes(data_dir) == []


def test_a_busy_orphan_does_not_keep_the_server_down(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        first = server.pid
        assert first is not None
        with psycopg.connect(server.superuser_conninfo(), autocommit=True) as connection:
            orphan = connection.info.backend_pid

            def burn() -> None:
                # Notices neither the postmaster's death nor a signal while it is stopped.
                with pytest.raises(psycopg.OperationalError):
                    connection.execute("SELECT pg_sleep(600)")

            busy = threading.Thread(target=burn)
            busy.start()
            os.kill(orphan, signal.SIGSTOP)
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: server.pid not in {None, first}, "a new server")
            wait_until(lambda: answers(server.conninfo()), "its answers")
            assert not runs(orphan)
            busy.join(180)
            assert not busy.is_alive()


def test_a_frozen_server_is_left_alone(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        first = server.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        try:
            # Several rounds of the supervisor: each of these waits for its time-out.
            assert not any(answers(f"{server.conninfo()} connect_timeout=2") for _ in range(2))
            assert server.pid == first
        finally:
            os.kill(first, signal.SIGCONT)
        wait_until(lambda: answers(server.conninfo()), "the server's return")
        assert server.pid == first


def test_without_supervision_a_dead_server_stays_dead_until_acquired(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir, supervise=False) as server:
        first = server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: server.pid is None, "its death")
        with EmbeddedPostgres.acquire(data_dir, supervise=False) as again:
            assert again.pid not in {None, first}
            assert server.pid == again.pid
