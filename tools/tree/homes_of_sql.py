"""Which folder may write which table: a promise about jobs is kept in one place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SERVICES = Path(__file__).resolve().parents[2] / "services"
WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) jobs\b")


def broken() -> Sequence[str]:
    """The folders that write jobs beside the queue."""
    writing = {
        file.relative_to(SERVICES).parent.as_posix()
        for file in SERVICES.rglob("*.py")
        if WRITES.search(file.read_text("utf-8"))
    }
    beside = sorted(writing ^ {"extraction/hitherto_extraction/queue"})
    return [f"services/{folder}: only the queue writes jobs" for folder in beside]
