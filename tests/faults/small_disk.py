"""A folder on a file system of its own that can be made full, and have room again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_ROOM = 2 << 30
"""What it may hold; only what is used takes memory."""


class SmallDisk:
    """A file system in memory, mounted at a folder until `close`. Its owner must be root.

    Args:
        folder: Where; it is created.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        _mount(f"size={_ROOM},mode=711", folder)

    def fill(self, left: int) -> None:
        """Leave room for so many bytes."""
        found = os.statvfs(self._folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        # The kernel refuses less than is used, which may have grown meanwhile.
        with suppress(subprocess.CalledProcessError):
            _mount(f"remount,size={used + left}", self._folder)

    def clear(self) -> None:
        """Give it all of its room again."""
        _mount(f"remount,size={_ROOM}", self._folder)

    def close(self) -> None:
        """Take it away, with everything in it."""
        subprocess.run(["umount", "--lazy", self._folder], check=True)


@cache
def can_mount() -> bool:
    """Whether this account may mount a file system here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            SmallDisk(Path(folder) / "disk").close()
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


def _mount(options: str, folder: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
