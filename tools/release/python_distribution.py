"""The Python distribution: wheel and source archive, installed and tried."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.release.running import ROOT, run

# What operators install: both services with every optional part.
EXTRAS = "up,retrieval,extraction,onnx,tokens,cli,mcp,console,http,otel"
COMMANDS = (
    "hitherto",
    "hitherto-retrieval",
    "hitherto-extraction",
    "hitherto-migrate",
    "hitherto-keys",
)


def build(into: Path) -> Path:
    """Build wheel and source archive; return the wheel."""
    run("uv", "build", "--quiet", "--out-dir", str(into), str(ROOT))
    (into / ".gitignore").unlink(missing_ok=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def install(wheel: Path, environment: Path) -> None:
    """Install the wheel alone, with the locked versions, and start each of its commands."""
    run("uv", "venv", "--quiet", "--python", sys.executable, str(environment))
    run(
        "uv", "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"),
        "--constraint", str(ROOT / "requirements.lock"), f"{wheel}[{EXTRAS}]",
    )  # fmt: skip
    for command in COMMANDS:
        # From another folder: nothing of the checkout may be needed.
        run(str(environment / "bin" / command), "--help", cwd=environment)
