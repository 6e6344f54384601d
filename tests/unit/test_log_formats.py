"""How log lines look: JSON for machines, text for a person at a terminal, or as a setting says."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from hitherto_shared.rpc.observed_call import ObservedCall
from hitherto_shared.telemetry import TextFormatter

SAY = """
import logging, sys
from hitherto_shared.telemetry import configure_logging
configure_logging("a-service", "INFO", sys.argv[1])
logging.getLogger("hitherto.test").warning("heard %s", "it", extra={"kind": "x y", "count": 2})
"""


def said(form: str, *, terminal: bool) -> str:
    """What a process writes to its stderr, which is a terminal or a pipe."""
    command = [sys.executable, "-c", SAY, form]
    if not terminal:
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, stderr=theirs, check=True)
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_terminal_gets_text_and_everything_else_json() -> None:
    for form, terminal, text in [
        ("auto", True, True),
        ("auto", False, False),
        ("json", True, False),
        ("text", False, True),
    ]:
        line = said(form, terminal=terminal).strip()
        if text:
            assert line.endswith('WARNING heard it kind="x y" count=2'), form
        else:
            told = json.loads(line)
            assert (told["service"], told["message"], told["count"]) == (
                "a-service",
                "heard it",
                2,
            ), form


def formatted(message: str, **extra: Any) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", **extra})
    return TextFormatter("test").format(record)


def test_text_cannot_change_what_a_terminal_shows_elsewhere() -> None:
    line = formatted("up\x1b[2A and\nfaked \u202eline", request_id="a\u009bb", name_of="tiếng việt")
    assert line.endswith(
        'up\\x1b[2A and\\nfaked \\u202eline request_id=a\\x9bb name_of="tiếng việt"'
    )


def test_an_exception_follows_without_its_message() -> None:
    text = "secr" + "et"
    try:
        raise ValueError(text)
    except ValueError:
        told = formatted("failed", exc_info=sys.exc_info())
    first, *others = told.splitlines()
    assert (first.endswith("failed"), others[-1]) == (True, "ValueError")
    assert "secret" not in told


@pytest.mark.parametrize(("slow_seconds", "lines"), [(0.0, 1), (3600.0, 0)])
async def test_only_a_slow_call_is_logged(
    caplog: pytest.LogCaptureFixture, slow_seconds: float, lines: int
) -> None:
    with ObservedCall("/hitherto.v1.Tests/Call", "r-1", slow_seconds, {}, traced=False):
        pass
    found = [vars(line) for line in caplog.records if line.msg == "slow call"]
    assert len(found) == lines
    assert all(line["method"] == "Tests/Call" and line["code"] == "OK" for line in found)
