"""requirements.lock fits pyproject.toml and names packages and versions, never a place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
LOCKED_EXTRAS = ("service", "retrieval", "extraction", "onnx", "cli", "otel", "dev")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_one_exact_version() -> None:
    assert LOCK
    for line in LOCK:
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.+]*( ; [^@:/]+)?", line), line


def test_everything_the_project_asks_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in LOCKED_EXTRAS:
        wanted += project["optional-dependencies"][extra]
    names = {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in wanted} - {"hitherto"}
    assert names <= {line.partition("==")[0] for line in LOCK}
