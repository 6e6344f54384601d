"""Turns protos/ into the stubs of clients/go, committed because Go fetches modules as source.

    python -m tools.generate_go write    writes clients/go/v1
    python -m tools.generate_go check    writes nothing; fails if a committed file differs

The plugins come from clients/go/tools.mod, so that the output is the same everywhere. On a machine
without Go neither does anything and both say so; with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import generated
from tools.generated import ROOT

MODULE = Path("clients/go")
STUBS = MODULE / "v1"
PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


def generate(go: str, folder: Path) -> dict[Path, str]:
    """Generate into an empty folder and return the texts by their path in the repository."""
    plugins = folder / "plugins"
    plugins.mkdir()
    _run([go, "build", "-modfile=tools.mod", "-o", f"{plugins}{os.sep}", *PLUGINS])
    # buf looks for the plugins on the path; it stands beside this interpreter.
    path = os.pathsep.join([str(plugins), str(Path(sys.executable).parent), os.environ["PATH"]])
    _run(["buf", "generate", "--output", str(folder)], PATH=path)
    made = sorted((folder / STUBS.name).iterdir())
    return {STUBS / path.name: path.read_text("utf-8") for path in made}


def _run(command: list[str], **environment: str) -> None:
    env = {**os.environ, **environment}
    found = shutil.which(command[0], path=env["PATH"]) or command[0]
    if subprocess.run([found, *command[1:]], cwd=ROOT / MODULE, env=env, check=False).returncode:
        raise SystemExit(f"`{command[0]} {command[1]}` failed in clients/go; it says why above")


def committed() -> set[Path]:
    """Paths of the generated files that are in the repository now."""
    return {STUBS / path.name for path in (ROOT / STUBS).glob("*")}


def main() -> None:
    """Generate, then write or check."""
    go = shutil.which("go")
    if go is None:
        print("no Go on the path: the stubs of clients/go are left as they are and not checked")
        raise SystemExit(os.environ.get("CI", "").lower() in {"1", "true"})
    with tempfile.TemporaryDirectory() as folder:
        generated.main(lambda: generate(go, Path(folder)), committed, "protos/", "make proto")


if __name__ == "__main__":
    main()
