"""A peer's process: started with a task, heard until it has told its figures."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.installing import PeerUnavailable
from benchmarks.peers.known import Peer
from benchmarks.peers.loop import FOUND, LOADED, Task
from benchmarks.processes import ROOT
from benchmarks.retrieval.figures import percentile

RUN_SECONDS = 900.0
_LINE_BYTES = 1 << 26
_TOLD = 400


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: by whom, of users with so many memories, with so many callers.

    `results` is how many a search had on average.
    """

    name: str
    size: int
    callers: int
    p50: float
    p95: float
    per_second: float
    results: float


async def run(
    peer: Peer, python: Path, folder: Path, task: Task, loaded: Callable[[int], None]
) -> Sequence[Measured]:
    """Let a peer load and search.

    Args:
        peer: Which one.
        python: Of its environment.
        folder: For its files.
        task: What to do.
        loaded: Is told now and then how many memories are stored.

    Raises:
        PeerUnavailable: It ended without figures, or took too long.
    """
    file = folder / "task.json"
    file.write_text(json.dumps(asdict(task)), "utf-8")
    log = folder / "log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            str(python),
            "-m",
            peer.module,
            str(file),
            cwd=ROOT,
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(folder),
                "MEM0_TELEMETRY": "False",
                "OPENAI_API_KEY": "none",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=_LINE_BYTES,
        )
        try:
            async with asyncio.timeout(RUN_SECONDS):
                found = await _heard(process, loaded)
                await process.wait()
        except TimeoutError:
            raise PeerUnavailable(f"it was not done within {RUN_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if found is None:
        said = " ".join(log.read_text("utf-8", "replace").split())
        raise PeerUnavailable(f"it ended without figures: {said[-_TOLD:]}")
    return [
        Measured(
            name=peer.name,
            size=each["size"],
            callers=each["callers"],
            p50=round(percentile(each["ms"], 0.50), 3),
            p95=round(percentile(each["ms"], 0.95), 3),
            per_second=round(len(each["ms"]) / each["seconds"], 1),
            results=round(each["results"], 1),
        )
        for each in json.loads(found)
    ]


async def _heard(process: asyncio.subprocess.Process, loaded: Callable[[int], None]) -> str | None:
    assert process.stdout is not None
    found = None
    async for line in process.stdout:
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text.startswith(LOADED):
            loaded(int(text.removeprefix(LOADED)))
        elif text.startswith(FOUND):
            found = text.removeprefix(FOUND)
    return found
