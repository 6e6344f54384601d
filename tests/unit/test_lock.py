"""requirements.lock fits pyproject.toml and names packages and versions, never a place.

What images install is the same, with the hash of every file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
LOCKED_EXTRAS = ("service", "retrieval", "extraction", "onnx", "cli", "otel", "dev")


IMAGES = sorted((ROOT / "docker").glob("requirements*.txt"))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_one_exact_version() -> None:
    assert LOCK
    for line in LOCK:
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.+]*( ; [^@:/]+)?", line), line


def test_everything_the_project_asks_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in LOCKED_EXTRAS:
        wanted += project["optional-dependencies"][extra]
    names = {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in wanted} - {"hitherto"}
    assert names <= {line.partition("==")[0] for line in LOCK}


def needed(extras: Iterable[str]) -> set[str]:
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
            found.add(normal(requirement.name))
            for each in ("", *requirement.extras):
                if (wanted := (requirement.name, each)) not in seen:
                    seen.add(wanted)
                    waiting.append(wanted)
    return found - {"hitherto"}


IN_IMAGES = ("retrieval", "extraction", "cli", "console", "otel")


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_images_install_what_is_locked_by_hash(path: Path) -> None:
    entries = re.split(r"\n(?=\S)", path.read_text("utf-8").strip())
    versions = {line.partition(" ")[0] for line in LOCK}
    locked = {line.partition("==")[0] for line in LOCK}
    for entry in entries:
        pinned, *hashes = entry.replace("\\\n", "").split(" --hash=")
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^@:/]+)?", pinned.strip()), pinned
        assert hashes, pinned
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64} *", each) for each in hashes), pinned
        name = pinned.partition("==")[0]
        if path.stem != "requirements-build" or name in locked:
            assert pinned.split()[0] in versions, f"{pinned}: run make lock-images"


@pytest.mark.parametrize(
    ("name", "extras"),
    [("requirements", IN_IMAGES), ("requirements-onnx", (*IN_IMAGES, "onnx", "tokens"))],
)
def test_images_install_all_that_is_needed(name: str, extras: tuple[str, ...]) -> None:
    text = (ROOT / "docker" / f"{name}.txt").read_text("utf-8")
    listed = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    assert needed(extras) <= listed
