"""Builds a release and checks it; uploads nothing.

python -m tools.release [--into dist] [--only PART …] [--complete]

The folder receives the wheel and the source archive, the npm package, the Java artifact with its
sources, javadoc and pom, each image for two architectures, `sbom.cdx.json` with every package of a
full installation and its licence, and `SHA256SUMS`. A tag publishes the Go module.

The release is refused if two places bear different versions, if CHANGELOG.md has no section for it,
if a package does not work where it is installed alone, or if a dependency has a licence that is not
on the list. What this machine cannot build for want of a tool is left out and named; with
`--complete` that refuses the release too. Needs the package indexes of the languages.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools import version as versions
from tools.release.client_packages import build_java, build_npm, check_go
from tools.release.images import build_images
from tools.release.licences import check_licences, write_sbom
from tools.release.python_distribution import build, install
from tools.release.running import ROOT, LeftOut, NotReleasable


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


def build_python(_version: str, into: Path, work: Path) -> None:
    """Build the distribution, install it alone, and list its packages and their licences."""
    install(build(into), work / "environment")
    write_sbom(work / "environment", into / "sbom.cdx.json")
    print(f"  {check_licences(into / 'sbom.cdx.json')} packages, every licence allowed")


PARTS: dict[str, Callable[[str, Path, Path], None]] = {
    "python": build_python,
    "npm": build_npm,
    "java": build_java,
    "go": check_go,
    "images": build_images,
}
"""What is published, by name; each is given the version, the folder of results, one to work in."""


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS over the files of the folder, in the form that `sha256sum -c` reads."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "SHA256SUMS":
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), "utf-8")


def release(into: Path, parts: list[str]) -> list[str]:
    """Build the parts into a new folder, and return what was left out, with the reasons.

    Raises:
        NotReleasable: The release cannot be made.
    """
    try:
        released = versions.version()
    except ValueError as error:
        raise NotReleasable(f"{error}: `make version VERSION=…` writes one everywhere") from None
    check_changelog(released)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    left_out = []
    for part in parts:
        print(f"{part} {released} …", flush=True)
        with tempfile.TemporaryDirectory(prefix="hitherto-release-") as work:
            try:
                PARTS[part](released, into, Path(work))
            except LeftOut as lacking:
                left_out.append(f"{part}: {lacking}")
                print(f"  left out: {lacking}", flush=True)
    write_sums(into)
    return left_out


def main(arguments: list[str] | None = None) -> int:
    """Build, check, say what was made; 1 if the release is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "dist", help="folder of the results, made anew"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART")
    parser.add_argument("--complete", action="store_true", help="refuse to leave a part out")
    asked = parser.parse_args(arguments)
    into = asked.into.resolve()
    try:
        left_out = release(into, asked.only)
        if left_out and asked.complete:
            raise NotReleasable(f"left out: {'; '.join(left_out)}")
    except NotReleasable as refused:
        print(f"no release: {refused}", file=sys.stderr)
        return 1
    print(f"{into}:")
    for path in sorted(into.iterdir()):
        print(f"  {path.stat().st_size:>11,}  {path.name}")
    for part in left_out:
        print(f"Left out: {part}")
    print("Nothing was uploaded.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
