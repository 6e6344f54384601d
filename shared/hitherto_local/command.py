"""`hitherto up` and `hitherto down` as the command line calls them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import psutil
from pydantic import ValidationError

from hitherto_local.state_file import find_running
from hitherto_local.up import NotStarted, Up
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.embedded import EmbeddedPostgresError

_END_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class LocalRefused(Exception):
    """It cannot be done; the message says why and what to do."""


def run_up(say: Callable[[str], None], ready: Callable[[dict[str, Any]], None]) -> bool:
    """Run everything until somebody asks for the end; False if a part ended by itself.

    `ready` is called with what runs, once everything serves.

    Raises:
        LocalRefused: Nothing was started.
    """
    if sys.platform == "win32":
        raise LocalRefused("`hitherto up` needs Linux or macOS: start both services by themselves")
    try:
        up = Up(SharedSettings(), os.environ, say)
        return up.run(lambda running: ready(asdict(running)))
    except ValidationError as error:
        raise LocalRefused(describe(error)) from None
    except (NotStarted, EmbeddedPostgresError) as error:
        raise LocalRefused(str(error)) from None


def run_down(say: Callable[[str], None]) -> bool:
    """End what runs on the data folder; False if nothing does.

    Raises:
        LocalRefused: It does not end, or belongs to another user.
    """
    try:
        folder = SharedSettings().data_dir
    except ValidationError as error:
        raise LocalRefused(describe(error)) from None
    running = find_running(folder)
    process = running.process() if running else None
    if running is None or process is None:
        say(f"nothing runs on {folder}")
        return False
    try:
        process.send_signal(signal.SIGTERM)
        give_up = time.monotonic() + _END_SECONDS
        while running.process() is not None and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > give_up:
                raise LocalRefused(f"process {running.pid} has not ended in {_END_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        raise LocalRefused(f"process {running.pid} belongs to another user") from None
    say(f"ended process {running.pid}, which ran on {folder}")
    return True
