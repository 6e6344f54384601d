"""mypy accepts what is right about the client and refuses a wrong name or type."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
RIGHT = (Path(__file__).parent / "typed_use.py").read_text("utf-8")

WRONG = {
    'type="fact"': 'type="gaol"',
    "max_tokens=500": 'max_tokens="500"',
    "max_tokens=500).": "max_token=500).",
    '"role": "user"': '"role": "boss"',
    '"content": "Hello!"': '"text": "Hello!"',
    'conversation="c1")\n    m.add': 'chat="c1")\n    m.add',
    'scopes=["memories"]': 'scopes=["memory"]',
    "as_of=datetime(2026, 1, 1)": 'as_of="2026-01-01"',
    "saved.id": "saved",
    "result.score": "result.rank",
    "assert profile.summary": "profile.summary = 'x'",
    'if profile := m.get_profile("ana"):\n        assert profile.summary': (
        'assert m.get_profile("ana").summary'
    ),
    'memory.status == "achieved"': 'memory.status == "done"',
    "await m.end_conversation": "m.end_conversation",
    "return job.error": "return job.failure",
    'states=["dead"]': 'states=["died"]',
    'group_by=["day"]': 'group_by=["week"]',
    "total: int | None": "total: int",
    "first.items[0].content": "first.items[0].text",
    'await m.memories("ana").page()': 'm.memories("ana").page()',
}
"""Parts of the right program, and what each is replaced by."""


def test_mypy_refuses_a_wrong_name_or_type(tmp_path: Path) -> None:
    """All in one run, in which each version is a module."""
    versions = {"right": RIGHT}
    for number, (right, wrong) in enumerate(WRONG.items()):
        assert right in RIGHT, right
        versions[f"wrong_{number:02}"] = RIGHT.replace(right, wrong, 1)
    for name, text in versions.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file="),
            f"--cache-dir={tmp_path / 'cache'}",
            *(str(tmp_path / f"{name}.py") for name in versions),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "shared"), "PATH": ""},
        timeout=280,
    )
    refused = set(re.findall(r"(?m)^(\w+)\.py:\d+: error:", done.stdout))
    assert refused == set(versions) - {"right"}, done.stdout + done.stderr
