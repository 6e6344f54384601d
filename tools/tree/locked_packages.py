"""requirements.lock fits pyproject.toml and names packages and versions, never a place.

What images install is the same, with the hash of every file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
_EXTRAS = ("service", "retrieval", "extraction", "onnx", "cli", "otel", "dev")
_IN_IMAGES = ("retrieval", "extraction", "cli", "console", "otel")
_IMAGES = {"requirements": _IN_IMAGES, "requirements-onnx": (*_IN_IMAGES, "onnx", "tokens")}
_LINE = r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.+]*( ; [^@:/]+)?"
_HASH = r"sha256:[0-9a-f]{64} *"


def broken() -> Sequence[str]:
    """The lines and packages that are not as they should be."""
    lock = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    locked = {line.partition("==")[0] for line in lock}
    found = [
        f"requirements.lock: {line!r} is not one exact version"
        for line in lock
        if not re.fullmatch(_LINE, line)
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in _EXTRAS:
        wanted += project["optional-dependencies"][extra]
    names = {_normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in wanted} - {"hitherto"}
    found += [f"requirements.lock lacks {name}: run make lock" for name in sorted(names - locked)]
    for path in sorted((ROOT / "docker").glob("requirements*.txt")):
        found += _unlike(path, lock)
    for name, extras in _IMAGES.items():
        text = (ROOT / "docker" / f"{name}.txt").read_text("utf-8")
        listed = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
        found += [
            f"docker/{name}.txt lacks {missing}: run make lock-images"
            for missing in sorted(_needed(extras) - listed)
        ]
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _unlike(path: Path, lock: Sequence[str]) -> Iterator[str]:
    """The entries of an image that lack a hash, or have another version than the lock."""
    versions = {line.partition(" ")[0] for line in lock}
    locked = {line.partition("==")[0] for line in lock}
    for entry in re.split(r"\n(?=\S)", path.read_text("utf-8").strip()):
        pinned, *hashes = entry.replace("\\\n", "").split(" --hash=")
        exact = re.fullmatch(_LINE, pinned.strip())
        if not (exact and hashes and all(re.fullmatch(_HASH, each) for each in hashes)):
            yield f"{path.relative_to(ROOT)}: {pinned!r} is not one version with its hashes"
        # What builds the wheels need not be installed anywhere else.
        known = path.stem != "requirements-build" or pinned.partition("==")[0] in locked
        if known and pinned.split()[0] not in versions:
            yield f"{path.relative_to(ROOT)}: {pinned!r} is not locked: run make lock-images"


def _needed(extras: Iterable[str]) -> set[str]:
    """What this machine would install for some extras, with all that it needs in turn."""
    found: set[str] = set()
    waiting = [("hitherto", extra) for extra in ("", *extras)]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            found.add(_normal(requirement.name))
            for each in ("", *requirement.extras):
                if (wanted := (requirement.name, each)) not in seen:
                    seen.add(wanted)
                    waiting.append(wanted)
    return found - {"hitherto"}
