"""No command and no service repeats a connection string, however it is written (row 63)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import DatabaseUnreachable, connected, with_role

SECRET = "hunter2"

MALFORMED = [
    f"postgresql//boss:{SECRET}@h/x",
    f"postgresql://boss:{SECRET}%zz@h/x",
    f"postgresql://boss:{SECRET}/more@h/x",
    f"postgresql://boss:{SECRET}@more@nowhere.invalid/x",
    f"host=h password='{SECRET}",
    f"host=h password={SECRET}\udcff",
]
OUT_OF_REACH = f"postgresql://boss:{SECRET}@127.0.0.1:1/x"
COMMANDS = [
    ["hitherto_shared.database.migrate"],
    ["hitherto_shared.database.migrate", "--check"],
    ["hitherto_shared.database.migrate", "--help"],
    ["hitherto_retrieval"],
    ["hitherto_extraction"],
]


@pytest.mark.parametrize("url", MALFORMED)
def test_a_string_that_cannot_be_read_is_not_quoted(url: str) -> None:
    for work in (
        lambda: connected(with_role(url, "hitherto_read", application="test")),
        lambda: connected(with_role(url, "hitherto_owner", application="test")),
        lambda: bootstrap(url),
    ):
        with pytest.raises(DatabaseUnreachable) as caught:
            work()
        assert SECRET not in str(caught.value)
        assert "percent-encode" in str(caught.value)


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_printed_has_no_password(command: list[str], tmp_path: Path) -> None:
    # Each as a process: what matters is what stands on the terminal, whoever wrote it there.
    one_each = [MALFORMED[3], OUT_OF_REACH]
    for url in one_each:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(tmp_path),
                "DATABASE_URL": url,
                "HITHERTO_LOG_LEVEL": "DEBUG",
            },
            capture_output=True,
            check=False,
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == (command[-1] == "--help")
        assert SECRET.encode() not in said, (url, said)
        assert b"boss:" not in said, (url, said)
        if url in MALFORMED and command[-1] != "--help":
            assert b"Traceback" not in said
            assert b"DATABASE_URL" in said
            assert b"percent-encode" in said
