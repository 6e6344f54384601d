"""Generates the synchronous client from the asynchronous one: `hitherto_client/_sync`.

`python -m tools.unasync write` writes the files, `check` fails if they differ from their source.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools import generated
from tools.generated import ROOT

_SOURCE = Path("shared/hitherto_client/_async")
_GENERATED = _SOURCE.with_name("_sync")
_HEADER = "# Generated from ../_async/{name} by tools/unasync.py. Do not edit.\n"

_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|for|with)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\bAwaitable\[(\w+(?:\[\w+\])?)\]", r"\1"),
        (r"\b__a(enter|exit|next)__\b", r"__\1__"),
        (r"\bStopAsyncIteration\b", "StopIteration"),
        (r"\bAsync([A-Z]\w+)", r"\1"),
        (r"\bgrpc\.aio\.", "grpc."),
        (r"\bhitherto_client\._async\b", "hitherto_client._sync"),
        (r"\basyncio\.sleep\b", "time.sleep"),
        (r"(?m)^import asyncio\n", ""),
        (r"\basyncio\.run\((.+)\)", r"\1"),
        (r"\b([Aa])n? asynchronous\b", r"\1 synchronous"),
        (r"\basynchronous\b", "synchronous"),
    )
)


def generate() -> dict[Path, str]:
    """The synchronous modules by their path in the repository."""
    sources = sorted((ROOT / _SOURCE).glob("*.py"))
    return {_GENERATED / source.name: _format(_translate(source)) for source in sources}


def committed() -> set[Path]:
    """Paths of the generated files that are in the repository now."""
    return {_GENERATED / path.name for path in (ROOT / _GENERATED).glob("*.py")}


def _translate(source: Path) -> str:
    text = source.read_text("utf-8")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _HEADER.format(name=source.name) + text


def _format(text: str) -> str:
    """The text as `make format` leaves it: shorter lines may be joined, names sort anew."""
    for command in (("check", "--select", "I,F401", "--fix", "--quiet"), ("format", "--quiet")):
        name = str(ROOT / _GENERATED / "generated.py")
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    generated.main(generate, committed, _SOURCE.as_posix(), "make unasync")
