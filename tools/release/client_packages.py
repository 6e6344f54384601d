"""The packages in clients/, as npm, Maven Central and Go's module proxy take them.

Each is built from a copy, with its language's own tools; a machine without these leaves it out.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

from tools.release.running import NotReleasable, copied_package, fetch, run, tool

_TRY = 'import { Hitherto } from "@hitherto/client"; new Hitherto().close();'


def build_npm(version: str, into: Path, work: Path) -> None:
    """Build `hitherto-client-VERSION.tgz`."""
    tool("node", "npm")
    package = copied_package("typescript", work)
    fetch("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=package)
    run("npm", "run", "build", cwd=package)
    pack_npm(package, version, into, work)


def pack_npm(package: Path, version: str, into: Path, work: Path, **environment: str) -> None:
    """Pack a package that was built; install it alone, and import it."""
    run("npm", "pack", "--ignore-scripts", "--pack-destination", into, cwd=package, **environment)
    archive = into / f"hitherto-client-{version}.tgz"
    with tarfile.open(archive) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    _check(archive, names, {"dist/src/index.js", "dist/src/index.d.ts", "README.md", "LICENSE"})
    if strangers := [name for name in names if name.startswith(("dist/test", "test", "src"))]:
        raise NotReleasable(f"{archive.name} holds {strangers[0]}, which users do not need")
    project = work / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true}', "utf-8")
    fetch(
        "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", archive,
        cwd=project, **environment,
    )  # fmt: skip
    run("node", "--input-type=module", "--eval", _TRY, cwd=project, **environment)


def build_java(version: str, into: Path, work: Path) -> None:
    """Build the jar, its sources, its javadoc and its pom, as Maven Central asks for them."""
    tool("javac", "mvn")
    pack_java(copied_package("java", work), version, into)


def pack_java(package: Path, version: str, into: Path, *properties: str) -> None:
    """Pack a copy of the package; Maven compiles it unless the properties say otherwise."""
    told = ("-q", "-B", "-Prelease", "package", "-Dmaven.test.skip=true", *properties)
    fetch("mvn", *told, cwd=package)
    name = f"hitherto-client-{version}"
    for kind, holds in (
        ("", "com/hitherto/client/Hitherto.class"),
        ("-sources", "com/hitherto/client/Hitherto.java"),
        ("-javadoc", "com/hitherto/client/Hitherto.html"),
    ):
        jar = into / f"{name}{kind}.jar"
        shutil.copyfile(package / "target" / jar.name, jar)
        with zipfile.ZipFile(jar) as packed:
            _check(jar, set(packed.namelist()), {holds})
    with zipfile.ZipFile(into / f"{name}.jar") as packed:
        _check(into / f"{name}.jar", set(packed.namelist()), {"META-INF/LICENSE"})
    shutil.copyfile(package / "pom.xml", into / f"{name}.pom")


def check_go(_version: str, _into: Path, work: Path) -> None:
    """Build the module as it is fetched: a tag publishes it, so there is no archive."""
    tool("go")
    package = copied_package("go", work)
    run("go", "mod", "tidy", "-diff", cwd=package)
    run("go", "build", "-mod=readonly", "./...", cwd=package)


def _check(archive: Path, names: set[str], wanted: set[str]) -> None:
    if missing := wanted - names:
        raise NotReleasable(f"{archive.name} lacks {', '.join(sorted(missing))}")
