"""Several processes share one server, however they die."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.integration.embedded.processes import Holder, postgres_processes, runs
from tests.waiting import wait_until

Hold = Callable[..., Holder]


def test_cold_start_then_a_second_process_adopts(hold: Hold, data_dir: Path) -> None:
    first, second = hold(), hold()
    ready = [first.answer(), second.answer()]
    assert ready[0]["postmaster"] == ready[1]["postmaster"]
    first.finish()
    assert runs(ready[0]["postmaster"])
    with psycopg.connect(ready[1]["conninfo"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    second.finish()
    assert postgres_processes(data_dir) == []


def test_a_newcomer_adopts_the_server_whose_holders_were_killed(hold: Hold, data_dir: Path) -> None:
    for victim in (0, 1):
        pair = [hold()]
        postmaster = pair[0].answer()["postmaster"]
        pair.append(hold())
        pair[1].answer()
        pair.pop(victim).kill()
        assert runs(postmaster)
        # The other one stops the server.
        pair[0].finish()
        assert postgres_processes(data_dir) == []
    holders = [hold(), hold()]
    postmaster = holders[0].answer()["postmaster"]
    holders[1].answer()
    for holder in holders:
        holder.kill()
    assert runs(postmaster)
    newcomer = hold()
    assert newcomer.answer()["postmaster"] == postmaster
    newcomer.finish()
    assert postgres_processes(data_dir) == []


def test_a_signal_to_the_holders_group_does_not_reach_postgres(hold: Hold) -> None:
    holder, other = hold(), hold()
    postmaster = holder.answer()["postmaster"]
    other.answer()
    for process in (holder, other):
        assert os.getsid(postmaster) != os.getsid(process.process.pid)
        assert os.getpgid(postmaster) != os.getpgid(process.process.pid)
    os.killpg(holder.process.pid, signal.SIGTERM)
    holder.process.wait(180)
    assert runs(postmaster)
    other.finish()
    assert not runs(postmaster)


def test_postgres_inherits_no_lock(hold: Hold, data_dir: Path) -> None:
    holder = hold()
    postmaster = holder.answer()["postmaster"]
    descriptors = Path(f"/proc/{postmaster}/fd")
    if descriptors.exists():
        targets = {os.readlink(entry) for entry in descriptors.iterdir()}
        assert not any(target.endswith(".lock") for target in targets)
    holder.kill()
    with EmbeddedPostgres.acquire(data_dir) as server:
        assert server.pid == postmaster
    assert not runs(postmaster)


def test_data_survive_a_stop_and_a_stale_pid_file(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        with psycopg.connect(server.superuser_conninfo("hitherto")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 'còn đây 🌱'::text AS words")
        pid_file = data_dir / "postgres" / "postmaster.pid"
        text = pid_file.read_text()
        first = server.pid
    # A process of Postgres's own user that lives and is no postmaster: the pid was used again.
    owner = (data_dir / "postgres").stat().st_uid
    with subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None) as other:
        try:
            pid_file.write_text(text.replace(str(first), str(other.pid), 1))
            os.chown(pid_file, owner, -1)
            with EmbeddedPostgres.acquire(data_dir) as server:
                assert server.pid not in {None, first, other.pid}
                with psycopg.connect(server.superuser_conninfo("hitherto")) as connection:
                    row = connection.execute("SELECT words FROM kept").fetchone()
            assert row == ("còn đây 🌱",)
            assert runs(other.pid)
        finally:
            other.kill()


def test_release_twice_does_nothing_more(data_dir: Path) -> None:
    one, two = EmbeddedPostgres.acquire(data_dir), EmbeddedPostgres.acquire(data_dir)
    one.release()
    one.release()
    assert two.pid is not None
    two.release()
    assert two.pid is None


def test_a_dead_holder_does_not_live_on_in_its_forked_child(data_dir: Path) -> None:
    read, write = os.pipe()
    holder = os.fork()
    if holder == 0:
        server = EmbeddedPostgres.acquire(data_dir, supervise=False)
        if os.fork() == 0:
            server.release()
            os.close(write)
            os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        assert os.waitpid(holder, 0)[1] == 0
        assert postgres_processes(data_dir) != []
        EmbeddedPostgres.acquire(data_dir).release()
        assert postgres_processes(data_dir) == []
    finally:
        os.close(write)


# Faults 13 and 14: the server dies and its holders live on.


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
