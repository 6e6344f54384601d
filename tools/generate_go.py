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

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "clients" / "go"
STUBS = "v1"
PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


def generate(go: str, folder: Path) -> dict[str, bytes]:
    """Generate into an empty folder and return the files by their names.

    Raises:
        SystemExit: A step failed; it has said why on stderr.
    """
    plugins = folder / "plugins"
    plugins.mkdir()
    _run([go, "build", "-modfile=tools.mod", "-o", f"{plugins}{os.sep}", *PLUGINS])
    # buf looks for the plugins on the path; it stands beside this interpreter.
    path = os.pathsep.join([str(plugins), str(Path(sys.executable).parent), os.environ["PATH"]])
    _run(["buf", "generate", "--output", str(folder)], PATH=path)
    return {path.name: path.read_bytes() for path in sorted((folder / STUBS).iterdir())}


def _run(command: list[str], **environment: str) -> None:
    env = {**os.environ, **environment}
    found = shutil.which(command[0], path=env["PATH"]) or command[0]
    if subprocess.run([found, *command[1:]], cwd=MODULE, env=env, check=False).returncode:
        raise SystemExit(f"`{command[0]} {command[1]}` failed in clients/go; it says why above")


def committed() -> dict[str, bytes]:
    """The generated files that are in the repository now."""
    folder = MODULE / STUBS
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def write(files: dict[str, bytes]) -> None:
    """Make the repository hold exactly these generated files."""
    (MODULE / STUBS).mkdir(exist_ok=True)
    for name in committed().keys() - files.keys():
        (MODULE / STUBS / name).unlink()
    for name, content in files.items():
        (MODULE / STUBS / name).write_bytes(content)
    print(f"Wrote {len(files)} Go files from protos/.")


def check(files: dict[str, bytes]) -> None:
    """Fail if the repository holds other files than these.

    Raises:
        SystemExit: Some differ; they are named.
    """
    known = committed()
    names = sorted(known.keys() | files.keys())
    if stale := [name for name in names if known.get(name) != files.get(name)]:
        listed = "\n  ".join(f"clients/go/{STUBS}/{name}" for name in stale)
        raise SystemExit(f"run `make proto` and commit; these do not match protos/:\n  {listed}")
    print(f"{len(files)} Go files match protos/.")


def main() -> None:
    """Generate, then write or check."""
    act = {"write": write, "check": check}[sys.argv[1]]
    go = shutil.which("go")
    if go is None:
        print("no Go on the path: the stubs of clients/go are left as they are and not checked")
        raise SystemExit(os.environ.get("CI", "").lower() in {"1", "true"})
    with tempfile.TemporaryDirectory() as folder:
        act(generate(go, Path(folder)))


if __name__ == "__main__":
    main()
