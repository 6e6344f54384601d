"""Whether a folder outlives the container that a process runs in.

An embedded database in a container's own layer is gone with the container: nobody loses memories
that way without having said so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_MOUNTS = Path("/proc/self/mountinfo")
_LAYERS = frozenset({"overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs", "unionfs"})
"""File systems of which a container's own files are made."""
_FLEETING = _LAYERS | {"tmpfs", "ramfs"}
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """What is mounted where."""

    point: Path
    kind: str


def in_container() -> bool:
    """Whether this process runs in a container, as far as it can tell."""
    return any(marker.exists() for marker in _MARKERS) or bool(
        os.environ.get("KUBERNETES_SERVICE_HOST") or os.environ.get("container")  # noqa: SIM112 - so systemd and podman name it
    )


def mount_of(folder: Path) -> Mount | None:
    """What holds a folder, which need not exist yet; None where that cannot be told."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    where = Path(os.path.realpath(folder))
    above = {where, *where.parents}
    # Of two at one point, the later one hides the other.
    return max(
        (mount for mount in _mounts(lines) if mount.point in above),
        key=lambda mount: len(mount.point.parts),
        default=None,
    )


def _mounts(lines: Iterable[str]) -> list[Mount]:
    """The mounts that the system lists, the last one first."""
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) > 4:
            point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])
            found.append(Mount(Path(point), kinds[0]))
    return found[::-1]


def vanishes(folder: Path, *, required: bool | None) -> bool:
    """Whether an embedded database in this folder is to be refused.

    `required` True: it must be a volume, a file system of its own that lasts. False: anything will
    do. None: in a container, it must not be in the container's own layer.
    """
    if required is None:
        mount = mount_of(folder) if in_container() else None
        return mount is not None and mount.kind in _LAYERS
    if not required:
        return False
    mount = mount_of(folder)
    return mount is None or mount.point == Path("/") or mount.kind in _FLEETING


def would_vanish(folder: Path) -> tuple[str, str]:
    """What is wrong with such a folder, and what to set."""
    return (
        f"DATABASE_URL is not set, and {folder} is no volume: an embedded database there would be"
        " lost with this container",
        f"Set DATABASE_URL, or mount a volume at {folder} (HITHERTO_DATA_DIR); only to try things"
        " out, set HITHERTO_REQUIRE_DATABASE_URL=false",
    )
