"""Determines whether the server is alive.

A pid alone does not: it may be a zombie's or another program's. A server is dead only if its pid
file names no postmaster of this very cluster and nothing listens on its socket. The second sign
also works across containers that share the data folder, and for a frozen server.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

_CONNECT_SECONDS = 1.0
_STATUS_LINE = 7


@dataclass(frozen=True, slots=True)
class PidFile:
    """The contents of `postmaster.pid`, which may be long out of date.

    Attributes:
        status: `starting`, `ready`, `standby`, `stopping`, or empty while the file is written.
    """

    pid: int
    status: str


def read_pid_file(cluster: Path) -> PidFile | None:
    """The content of the pid file; None if there is none or it is incomplete."""
    try:
        lines = (cluster / "postmaster.pid").read_text("utf-8", errors="replace").splitlines()
        pid = abs(int(lines[0]))
    except (OSError, ValueError, IndexError):
        return None
    return PidFile(pid, lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else "")


def live_pid(cluster: Path) -> int | None:
    """Pid of the living postmaster of `cluster`, or None; a frozen one counts as living."""
    found = read_pid_file(cluster)
    return found.pid if found is not None and is_postmaster(found.pid, cluster) else None


def is_postmaster(pid: int, cluster: Path) -> bool:
    """True when `pid` is a running postmaster of this cluster."""
    try:
        process = psutil.Process(pid)
        if process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
            _reap(pid)
            return False
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return False  # a postmaster of ours runs as ourselves, or we are root
    if not command or Path(command[0]).name != "postgres":
        return False
    return str(cluster) in command or _works_in(process, cluster)


def listens(socket_path: Path) -> bool:
    """Whether a server holds the socket, however slowly it answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(socket_path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError:
            return True  # its queue is full, or it is frozen: a server is there
    return True


def end_orphans(cluster: Path) -> list[int]:
    """Kill the orphans of a dead postmaster and return their pids.

    Busy backends notice its death only after their statement, and none of their work can be
    acknowledged any more; while one of them lives, no new server can start.
    """
    ended = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if command and command[0].startswith("postgres:") and _works_in(process, cluster):
                process.kill()
                ended.append(process.pid)
        except psutil.Error:
            continue
    return ended


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()) == folder
    except psutil.Error:
        return False


def _reap(pid: int) -> None:
    # If we are process 1 of a container, the dead server has become our child.
    try:
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        return
