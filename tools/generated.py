"""Files that are generated and committed: written anew, or compared with their source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(
    generate: Callable[[], Mapping[Path, str]],
    committed: Callable[[], Set[Path]],
    source: str,
    command: str,
) -> None:
    """Write or check, as the argument of the process says.

    Args:
        generate: The texts by their path in the repository.
        committed: The paths of those that are in the repository now.
        source: What they are made from.
        command: What a person runs to write them.

    Raises:
        SystemExit: The argument is another one, or a file differs.
    """
    if sys.argv[1:] == ["write"]:
        write(generate(), committed())
    elif sys.argv[1:] == ["check"]:
        check(generate(), committed(), source, command)
    else:
        raise SystemExit(f"usage: {sys.argv[0]} write|check")


def write(texts: Mapping[Path, str], present: Set[Path]) -> None:
    """Make the repository hold exactly these generated files."""
    for path in present - texts.keys():
        (ROOT / path).unlink()
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")
    print(f"Wrote {len(texts)} files.")


def check(texts: Mapping[Path, str], present: Set[Path], source: str, command: str) -> None:
    """End the process with what differs between the repository and its source."""
    problems = [f"  missing: {path}" for path in sorted(texts.keys() - present)]
    problems += [f"  no longer generated: {path}" for path in sorted(present - texts.keys())]
    problems += [
        f"  out of date: {path}"
        for path in sorted(present & texts.keys())
        if (ROOT / path).read_text("utf-8") != texts[path]
    ]
    if problems:
        listed = "\n".join(problems)
        raise SystemExit(
            f"Generated files do not match {source}:\n{listed}\n"
            f"Run `{command}` and commit the result."
        )
    print(f"{len(texts)} generated files match {source}.")
