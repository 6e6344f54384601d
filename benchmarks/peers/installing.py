"""An environment for a peer, made for one run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks.peers.known import Peer

INSTALL_SECONDS = 300.0
_TOLD = 300


class PeerUnavailable(RuntimeError):
    """A peer cannot be compared with; the message says why."""


async def install(peer: Peer, folder: Path) -> tuple[Path, str]:
    """Install a peer into a new environment in `folder`.

    Returns:
        Its Python, and the version that was installed.

    Raises:
        PeerUnavailable: It is left out, or it cannot be installed in time.
    """
    if peer.left_out:
        raise PeerUnavailable(f"left out: {peer.left_out}")
    python = folder / "environment" / "bin" / "python"
    try:
        async with asyncio.timeout(INSTALL_SECONDS):
            uv = (sys.executable, "-m", "uv")
            await _run(*uv, "venv", "--quiet", "--python", sys.executable, str(python.parents[1]))
            await _run(
                *uv, "pip", "install", "--quiet", "--python", str(python), *peer.requirements
            )
            version = await _run(
                str(python),
                "-c",
                f"from importlib.metadata import version; print(version({peer.name!r}))",
            )
    except TimeoutError:
        raise PeerUnavailable(f"it was not installed within {INSTALL_SECONDS:.0f} s") from None
    return python, version.strip()


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    text = output.decode("utf-8", "replace")
    if process.returncode != 0:
        raise PeerUnavailable(f"it cannot be installed: {' '.join(text.split())[-_TOLD:]}")
    return text
