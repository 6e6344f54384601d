"""Which folder may write which table: a promise about jobs is kept in one place."""

from __future__ import annotations

import re
from pathlib import Path

SERVICES = Path(__file__).resolve().parents[2] / "services"
WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) jobs\b")


def test_only_the_queue_writes_jobs() -> None:
    writing = {
        file.relative_to(SERVICES).parent.as_posix()
        for file in SERVICES.rglob("*.py")
        if WRITES.search(file.read_text("utf-8"))
    }
    assert writing == {"extraction/hitherto_extraction/queue"}
