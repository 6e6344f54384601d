"""The processes that work on a data folder: services, their database, and what keeps them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil


def alive(folder: Path) -> list[str]:
    """Processes that work on a data folder: services by their environment, Postgres by its line."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            line = " ".join(process.info["cmdline"] or [])
            mine = str(folder) in line or process.environ().get("HITHERTO_DATA_DIR") == str(folder)
            if mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(line)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
