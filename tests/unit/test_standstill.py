"""The repetition of tests that failed while the machine stood still (tests/standstill.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
STILL_SECONDS = 5.0
NOTABLE_SECONDS = 3.0

CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests import standstill
from tests.standstill import (
    pytest_runtest_protocol, pytest_sessionstart, pytest_terminal_summary
)
standstill.NOTABLE_SECONDS = {notable}
standstill._AFTERMATH_SECONDS = 0
"""

TESTS = """
import os, signal, time
from pathlib import Path
import pytest

def stand_still():
    os.kill(os.getpid(), signal.SIGSTOP)

def first_time(name):
    seen = Path(__file__).with_name(name)
    try:
        return not seen.exists()
    finally:
        seen.touch()

@pytest.fixture(scope="module")
def began():
    return time.monotonic()

def test_fails_without_a_standstill():
    assert not first_time("plain")

def test_fails_in_a_standstill_and_is_repeated_with_new_fixtures(began):
    assert time.monotonic() - began < {notable}
    if first_time("once"):
        stand_still()
        assert time.monotonic() - began < {notable}

def test_fails_in_two_standstills():
    stand_still()
    assert False
"""


@pytest.mark.faults
def test_only_what_failed_in_a_standstill_is_repeated_once(tmp_path: Path) -> None:
    conftest = CONFTEST.format(root=str(ROOT), notable=NOTABLE_SECONDS)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_some.py").write_text(TESTS.format(notable=NOTABLE_SECONDS))
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
                    time.sleep(STILL_SECONDS)
                    process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        assert process.stdout is not None
        said = process.stdout.read()
    assert "2 failed, 1 passed" in said, said
    assert "FAILED test_some.py::test_fails_without_a_standstill" in said
    assert "FAILED test_some.py::test_fails_in_two_standstills" in said
    assert said.count("was repeated: the machine stood still") == 2
