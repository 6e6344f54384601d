"""Builds a release and checks it; uploads nothing.

python -m tools.release [--into dist] [--without-images]

The folder receives:

- the wheel and the source archive,
- `sbom.cdx.json`: every package that a full installation brings, with its licence (CycloneDX),
- `SHA256SUMS`.

The release is refused if CHANGELOG.md has no section for the version, if a command of the installed
wheel does not start, or if a dependency has a licence that is not on the list below. Images are
built where Docker runs. Needs a package index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What operators install: both services with every optional part.
EXTRAS = "up,retrieval,extraction,onnx,tokens,cli,mcp,console,otel"
COMMANDS = (
    "hitherto",
    "hitherto-retrieval",
    "hitherto-extraction",
    "hitherto-migrate",
    "hitherto-keys",
)
IMAGES = ("retrieval", "extraction", "console", "migrate")
_SBOM_TOOL = "cyclonedx-bom>=7.5,<8"

# Licences that allow an Apache-2.0 work to depend on theirs. The LGPL and the MPL cover the library
# itself, which we import and do not change.
ALLOWED = frozenset(
    """
    0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CNRI-Python ISC LGPL-3.0-only
    LGPL-3.0-or-later MIT MIT-0 MIT-CMU MPL-2.0 PostgreSQL PSF-2.0 Python-2.0 Python-2.0.1
    Unicode-3.0 Unlicense Zlib
    """.split()
)

# What metadata says in other words than SPDX's.
SPDX_OF = {"License :: OSI Approved :: Apache Software License": "Apache-2.0"}

# Packages whose metadata names none, or not which: the licence file in their wheel.
DECLARED = {"Jinja2": "BSD-3-Clause", "protobuf": "BSD-3-Clause"}


class NotReleasable(Exception):
    """The release cannot be made; the text says what to change."""


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def check_changelog(released: str) -> None:
    """Raise NotReleasable unless CHANGELOG.md has a section for the version."""
    headings = [
        line.removeprefix("## ").split(" ")[0].strip("[]")
        for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
        if line.startswith("## ")
    ]
    if released not in headings:
        raise NotReleasable(
            f"CHANGELOG.md has no section '## {released}': write what changed for users"
        )


def licences(component: dict[str, object]) -> Iterator[str]:
    """The SPDX ids, expressions or names that a component of the SBOM declares."""
    declared = component.get("licenses", [])
    assert isinstance(declared, list)
    for entry in declared:
        if "expression" in entry:
            yield str(entry["expression"])
        else:
            named = str(entry["license"].get("id") or entry["license"].get("name"))
            yield SPDX_OF.get(named, named)


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied with allowed licences alone.

    Alternatives (`A OR B`) need one allowed side, combinations (`A AND B`) need both; an exception
    (`WITH …`) only widens a licence.
    """
    flat = expression.replace("(", " ").replace(")", " ")
    if "(" in expression and " OR " in expression and " AND " in expression:
        # Mixed and nested: every licence in it must be allowed.
        names = flat.replace(" OR ", " AND ").split(" AND ")
        return all(name.split(" WITH ")[0].strip() in ALLOWED for name in names)
    return any(
        all(name.split(" WITH ")[0].strip() in ALLOWED for name in side.split(" AND "))
        for side in flat.split(" OR ")
    )


def check_licences(sbom: Path) -> int:
    """Raise NotReleasable for a package without an allowed licence.

    Returns:
        The number of packages checked.
    """
    components = json.loads(sbom.read_text("utf-8"))["components"]
    refused = []
    for component in components:
        name = str(component["name"])
        named = [DECLARED[name]] if name in DECLARED else list(licences(component))
        if not any(is_allowed(one) for one in named):
            refused.append(
                f"{name} {component.get('version', '')}: {', '.join(named) or 'none named'}"
            )
    if refused:
        raise NotReleasable(
            "these packages have no licence on the list of tools/release.py:\n  "
            + "\n  ".join(refused)
        )
    return len(components)


def build(into: Path) -> Path:
    """Build wheel and source archive; return the wheel."""
    _run("uv", "build", "--quiet", "--out-dir", str(into), str(ROOT))
    (into / ".gitignore").unlink(missing_ok=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def install(wheel: Path, environment: Path) -> None:
    """Install the wheel alone, with the locked versions, and start each of its commands."""
    _run("uv", "venv", "--quiet", "--python", sys.executable, str(environment))
    _run(
        "uv", "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"),
        "--constraint", str(ROOT / "requirements.lock"), f"{wheel}[{EXTRAS}]",
    )  # fmt: skip
    for command in COMMANDS:
        # From another folder: nothing of the checkout may be needed.
        _run(str(environment / "bin" / command), "--help", cwd=environment)


def write_sbom(environment: Path, sbom: Path) -> None:
    """Write the packages of the environment, with licences, as CycloneDX JSON."""
    _run(
        "uv", "tool", "run", "--quiet", "--from", _SBOM_TOOL, "cyclonedx-py", "environment",
        "--output-reproducible", "--output-format", "JSON", "--output-file", str(sbom),
        str(environment / "bin" / "python"),
    )  # fmt: skip


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS over the files of the folder, in the form that `sha256sum -c` reads."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n", "utf-8")


def build_images(released: str) -> bool:
    """Build the images where a Docker engine answers; return whether they were built."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], check=False, capture_output=True).returncode
    ):
        return False
    for target in IMAGES:
        _run(
            "docker", "build", "--file", "docker/Dockerfile", "--target", target,
            "--tag", f"hitherto-{target}:{released}", ".",
        )  # fmt: skip
    return True


def _run(command: str, *arguments: str, cwd: Path = ROOT) -> None:
    here = Path(sys.executable).parent / command
    program = str(here) if here.exists() else command
    done = subprocess.run(
        [program, *arguments], check=False, capture_output=True, text=True, cwd=cwd
    )
    if done.returncode:
        raise NotReleasable(f"{command} {arguments[0]} failed:\n{done.stdout}{done.stderr}")


def main(arguments: list[str] | None = None) -> int:
    """Build, check, say what was made; 1 if the release is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "dist", help="folder of the results, made anew"
    )
    parser.add_argument("--without-images", action="store_true", help="build no images")
    asked = parser.parse_args(arguments)
    released = version()
    try:
        check_changelog(released)
        shutil.rmtree(asked.into, ignore_errors=True)
        asked.into.mkdir(parents=True)
        print(f"building hitherto {released} …", flush=True)
        wheel = build(asked.into)
        with tempfile.TemporaryDirectory(prefix="hitherto-release-") as temporary:
            print("installing the wheel in an empty environment …", flush=True)
            install(wheel, Path(temporary) / "environment")
            print("listing its packages and their licences …", flush=True)
            write_sbom(Path(temporary) / "environment", asked.into / "sbom.cdx.json")
        checked = check_licences(asked.into / "sbom.cdx.json")
        write_sums(asked.into)
        images = not asked.without_images and build_images(released)
    except NotReleasable as refused:
        print(f"no release: {refused}", file=sys.stderr)
        return 1
    print(f"{checked} packages, every licence allowed; images {'built' if images else 'not built'}")
    print(f"{asked.into}:")
    for path in sorted(asked.into.iterdir()):
        print(f"  {path.stat().st_size:>10,}  {path.name}")
    print("Nothing was uploaded.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
