"""The number of the version, in every place that bears it.

    python -m tools.version          prints it; fails if two places differ
    python -m tools.version 1.2.3    writes another one everywhere

pyproject.toml decides. Before it is released, CHANGELOG.md needs a section with the number.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_NUMBER = r"(?P<number>\d+\.\d+\.\d+[\w.+-]*)"
PLACES: tuple[tuple[str, str], ...] = (
    ("pyproject.toml", rf'^version = "{_NUMBER}"$'),
    ("clients/typescript/package.json", rf'^  "version": "{_NUMBER}"'),
    ("clients/typescript/package-lock.json", rf'^  "version": "{_NUMBER}"'),
    (
        "clients/typescript/package-lock.json",
        rf'"name": "@hitherto/client",\n      "version": "{_NUMBER}"',
    ),
    ("clients/java/pom.xml", rf"<artifactId>hitherto-client</artifactId>\s+<version>{_NUMBER}<"),
    ("clients/go/version.go", rf'^const Version = "{_NUMBER}"$'),
    ("shared/hitherto_client/http_door/openapi.json", rf'^  "version": "{_NUMBER}"'),
    ("deploy/kubernetes/kustomization.yaml", rf"newTag: {_NUMBER}}}"),
    ("docs/kubernetes.md", rf"/hitherto-\w+:{_NUMBER} "),
    ("docs/quick-start.md", rf"hitherto-client:{_NUMBER}`"),
    ("clients/java/README.md", rf"hitherto-client:{_NUMBER}`"),
)
"""Files, and what stands around the number in them, as often as it does."""


def numbers() -> dict[str, set[str]]:
    """The numbers in each file; ValueError if a file bears none where it should."""
    found: dict[str, set[str]] = {}
    for file, pattern in PLACES:
        text = (ROOT / file).read_text("utf-8")
        here = {match["number"] for match in re.finditer(pattern, text, re.MULTILINE)}
        if not here:
            raise ValueError(f"{file} bears no version where tools/version.py looks for it")
        found.setdefault(file, set()).update(here)
    return found


def version() -> str:
    """The one number of all places; ValueError if a place has another one, or none."""
    found = numbers()
    (number,) = found["pyproject.toml"]
    others = [
        f"{file} {', '.join(sorted(here))}" for file, here in found.items() if here != {number}
    ]
    if others:
        raise ValueError(f"pyproject.toml has the version {number}, and {'; '.join(others)}")
    return number


def write(number: str) -> None:
    """Write the number in every place; ValueError if it is none."""
    if re.fullmatch(_NUMBER, number) is None:
        raise ValueError(f"{number!r} is no version such as 1.2.3")
    for file, pattern in PLACES:
        path = ROOT / file
        text = path.read_text("utf-8")

        def renumbered(match: re.Match[str]) -> str:
            start, end = (place - match.start() for place in match.span("number"))
            return match[0][:start] + number + match[0][end:]

        path.write_text(re.sub(pattern, renumbered, text, flags=re.MULTILINE), "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Print the version, or write another one; 1 if the places differ."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        for number in given[:1]:
            write(number)
        print(version())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
