"""Turns protos/ into everything that is generated from it.

    python -m tools.generate_protos write    writes the Python stubs, docs/api.md and openapi.json
    python -m tools.generate_protos check    writes nothing; fails if a committed file differs

Runs in the environment that `make proto` builds (grpcio-tools and mypy-protobuf at fixed versions,
so that the output is the same everywhere). Needs neither git nor a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from google.protobuf import descriptor_pb2

from tools import generated, openapi
from tools.api_docs import ApiPage, Contract
from tools.http_examples import ExampleRequests

PROTOS = generated.ROOT / "protos"
STUBS = Path("shared")
PACKAGE = Path("hitherto/v1")
API_DOCS = Path("docs/api.md")
OPENAPI = Path("shared/hitherto_client/http_door/openapi.json")
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
    described = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    contract = Contract(described)
    texts[API_DOCS] = ApiPage(contract, ExampleRequests(contract).curl).render()
    project = tomllib.loads((generated.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts[OPENAPI] = openapi.render(contract, project["version"])
    return texts


def committed() -> set[Path]:
    """Paths of the generated files that are in the repository now."""
    stubs = {
        STUBS / PACKAGE / path.name
        for path in (generated.ROOT / STUBS / PACKAGE).iterdir()
        if path.name.endswith(STUB_SUFFIXES)
    }
    return stubs | {path for path in (API_DOCS, OPENAPI) if (generated.ROOT / path).exists()}


def main() -> None:
    """Entry point; see the module docstring for the two commands."""
    with tempfile.TemporaryDirectory() as folder:
        generated.main(lambda: generate(Path(folder)), committed, "protos/", "make proto")


if __name__ == "__main__":
    main()
