"""Turns protos/ into everything that is generated from it.

    python -m tools.generate_protos write    writes the Python stubs and docs/api.md
    python -m tools.generate_protos check    writes nothing; fails if a committed file differs

Runs in the environment that `make proto` builds (grpcio-tools and mypy-protobuf at fixed versions,
so that the output is the same everywhere). Needs neither git nor a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2

from tools import api_docs

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
STUBS = Path("shared")
PACKAGE = Path("hitherto/v1")
API_DOCS = Path("docs/api.md")
STUB_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def run_protoc(*options: str, files: list[str]) -> None:
    """Run the protoc inside grpcio-tools, which brings google/protobuf/*.proto along.

    Raises:
        SystemExit: protoc refused; it has said why on stderr.
    """
    # protoc looks for the mypy plugins on the path; they stand beside this interpreter.
    path = str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", "")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", *options, *files]
    if subprocess.run(command, env={**os.environ, "PATH": path}, check=False).returncode:
        raise SystemExit("protoc failed: correct the .proto file that it names above")


def generate(destination: Path) -> dict[Path, str]:
    """Generate into an empty folder and return the texts by their path in the repository."""
    files = sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto"))
    services = [name for name in files if name.endswith("_service.proto")]
    descriptors = destination / "descriptors.binpb"
    run_protoc(
        f"--python_out={destination}",
        f"--mypy_out=quiet:{destination}",
        f"--descriptor_set_out={descriptors}",
        "--include_source_info",
        "--include_imports",
        files=files,
    )
    # For files without a service these plugins would write empty modules.
    run_protoc(
        f"--grpc_python_out={destination}", f"--mypy_grpc_out=quiet:{destination}", files=services
    )
    texts = {
        STUBS / PACKAGE / stub.name: stub.read_text("utf-8")
        for stub in sorted((destination / PACKAGE).iterdir())
    }
    texts[API_DOCS] = api_docs.render(
        descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    )
    return texts


def committed() -> set[Path]:
    """Paths of the generated files that are in the repository now."""
    stubs = {
        path.relative_to(ROOT)
        for path in (ROOT / STUBS / PACKAGE).iterdir()
        if path.name.endswith(STUB_SUFFIXES)
    }
    return stubs | ({API_DOCS} if (ROOT / API_DOCS).exists() else set())


def write(texts: dict[Path, str]) -> None:
    """Make the repository hold exactly these generated files."""
    for path in committed() - texts.keys():
        (ROOT / path).unlink()
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")
    print(f"Wrote {len(texts)} files from protos/.")


def check(texts: dict[Path, str]) -> None:
    """Compare the repository with what protos/ says.

    Raises:
        SystemExit: Something differs.
    """
    present = committed()
    problems = [f"  missing: {path}" for path in sorted(texts.keys() - present)]
    problems += [f"  no longer generated: {path}" for path in sorted(present - texts.keys())]
    problems += [
        f"  out of date: {path}"
        for path in sorted(present & texts.keys())
        if (ROOT / path).read_text("utf-8") != texts[path]
    ]
    if problems:
        raise SystemExit(
            "Generated files do not match protos/:\n"
            + "\n".join(problems)
            + "\nRun `make proto` and commit the result."
        )
    print(f"{len(texts)} generated files match protos/.")


def main() -> None:
    """Entry point; see the module docstring for the two commands."""
    commands = {"write": write, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit("usage: python -m tools.generate_protos write|check")
    with tempfile.TemporaryDirectory() as folder:
        commands[sys.argv[1]](generate(Path(folder)))


if __name__ == "__main__":
    main()
