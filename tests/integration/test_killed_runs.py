"""A run of the tests that is killed leaves no Postgres behind, and none ignores an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
_WAITS = """
import time
def test_waits(postgres):
    print("pid", postgres.pid, flush=True)
    time.sleep(300)
"""
pytestmark = pytest.mark.faults


@pytest.fixture
def temporary() -> Iterator[dict[str, str]]:
    """An environment in which a run has a folder of its own.

    At its start, a run closes the folder above its own to others. In the folder of this run, the
    Postgres of other tests could not read its own files for a moment.
    """
    beside = Path(os.environ["PYTEST_DEBUG_TEMPROOT"]).parent
    with TemporaryDirectory(prefix="rt-", dir=beside, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield {**os.environ, "PYTEST_DEBUG_TEMPROOT": folder}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_postgres_ends_with_the_run(
    number: signal.Signals, tmp_path: Path, temporary: dict[str, str]
) -> None:
    """Also one that a shell started in the background, where interrupts are ignored at first."""
    written = tmp_path / "written"
    script = tmp_path / "test_waiting.py"
    script.write_text(_WAITS)
    command = [sys.executable, "-m", "pytest", "-s", "-n", "0", "-p", "tests.conftest"]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    with (
        written.open("w") as output,
        subprocess.Popen(
            ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, str(script)],
            cwd=ROOT,
            env=temporary,
            stdout=output,
            stderr=output,
        ) as run,
    ):
        wait_until(lambda: "pid " in written.read_text() or run.poll() is not None)
        postmaster = int(written.read_text().partition("pid ")[2].split()[0])
        assert psutil.pid_exists(postmaster)
        run.send_signal(number)
        run.wait(180)
    wait_until(lambda: not psutil.pid_exists(postmaster))
