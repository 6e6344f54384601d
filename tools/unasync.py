"""Generates the synchronous client from the asynchronous one: `hitherto_client/_sync`.

`python -m tools.unasync write` writes the files, `check` fails if they differ from their source.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).parents[1] / "shared" / "hitherto_client"
_SOURCE, _GENERATED = _CLIENT / "_async", _CLIENT / "_sync"
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


def main(given: list[str]) -> int:
    """Write or check; the exit code."""
    if given not in (["write"], ["check"]):
        print("usage: python -m tools.unasync write|check", file=sys.stderr)
        return 2
    made = {source.name: _format(_translate(source)) for source in sorted(_SOURCE.glob("*.py"))}
    stale = [file.name for file in _GENERATED.glob("*.py") if file.name not in made]
    if given == ["write"]:
        _GENERATED.mkdir(exist_ok=True)
        for name, text in made.items():
            (_GENERATED / name).write_text(text, "utf-8")
        for name in stale:
            (_GENERATED / name).unlink()
        return 0
    wrong = stale + [name for name, text in made.items() if _current(name) != text]
    for name in wrong:
        print(f"{_GENERATED / name} differs from its source: run `make unasync`", file=sys.stderr)
    return 1 if wrong else 0


def _translate(source: Path) -> str:
    text = source.read_text("utf-8")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _HEADER.format(name=source.name) + text


def _format(text: str) -> str:
    """The text as `make format` leaves it: shorter lines may be joined, names sort anew."""
    for command in (("check", "--select", "I,F401", "--fix", "--quiet"), ("format", "--quiet")):
        name = str(_GENERATED / "generated.py")
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


def _current(name: str) -> str | None:
    file = _GENERATED / name
    return file.read_text("utf-8") if file.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
