"""`make run`: two processes that live and end together."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Ends at the first SIGTERM with a note that it drained, and hard at a second signal.
PATIENT = """
import pathlib, signal, sys, threading
note = pathlib.Path(sys.argv[1])
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9) if told.is_set() else told.set())
signal.signal(signal.SIGINT, lambda *_: sys.exit(9))
note.with_suffix(".up").touch()
while not told.wait(0.05): pass
note.write_text("drained")
"""
ENDS_AT_ONCE = "import sys; sys.exit(3)"
# Our own runner around test programs, told apart from the real services by its arguments.
RUNNER = (
    "import json, sys; from tools.run_services import run; sys.exit(run(json.loads(sys.argv[1])))"
)


def start(*commands: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUNNER, json.dumps(commands)], cwd=ROOT)


def wait_for(*files: Path, process: subprocess.Popen[bytes]) -> None:
    while not all(file.exists() for file in files):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_both(tmp_path: Path, number: signal.Signals) -> None:
    notes = [tmp_path / "a.txt", tmp_path / "b.txt"]
    runner = start(*([sys.executable, "-c", PATIENT, str(note)] for note in notes))
    wait_for(*(note.with_suffix(".up") for note in notes), process=runner)
    runner.send_signal(number)
    assert runner.wait(180) == 0
    assert [note.read_text() for note in notes] == ["drained", "drained"]


def test_when_one_ends_the_other_is_drained(tmp_path: Path) -> None:
    note = tmp_path / "a.txt"
    waits_for_it = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\n" + ENDS_AT_ONCE
    )
    runner = start(
        [sys.executable, "-c", PATIENT, str(note)],
        [sys.executable, "-c", waits_for_it, str(note.with_suffix(".up"))],
    )
    assert runner.wait(180) == 3
    assert note.read_text() == "drained"
