"""The peers: which there are, installed and run as a process with a task, and held against us."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.loop import FOUND, LOADED, Task
from benchmarks.processes import ROOT
from benchmarks.report import JudgedBar, percentile
from benchmarks.retrieval.figures import SUBJECTS

INSTALL_SECONDS = 300.0
RUN_SECONDS = 900.0
_LINE_BYTES = 1 << 26
_TOLD = 400
SEARCH, SEMANTIC = SUBJECTS["search"], SUBJECTS["search_semantic"]
ONE, MANY = 1, 32
# By what is asked and how many memories a user has: times the speed of one call, and times the
# requests a second of many callers.
_BARS: Mapping[tuple[str, int], tuple[float, float]] = {
    (SEARCH, 200): (3.0, 6.0),
    (SEMANTIC, 200): (5.0, 10.0),
    (SEARCH, 2_000): (4.0, 8.0),
}


@dataclass(frozen=True, slots=True)
class Peer:
    """Another memory store.

    Attributes:
        name: Its package.
        requirements: What is installed.
        module: Runs it; empty for one that is left out.
        left_out: Why.
    """

    name: str
    requirements: Sequence[str]
    module: str = ""
    left_out: str = ""


PEERS = (
    Peer(
        "mem0ai",
        ("mem0ai>=2.2,<2.3", "psycopg[binary,pool]>=3.2,<4"),
        "benchmarks.peers.mem0_peer",
    ),
    Peer(
        "langgraph-checkpoint-postgres",
        ("langgraph-checkpoint-postgres>=3.2,<3.3", "langgraph", "psycopg[binary,pool]>=3.2,<4"),
        "benchmarks.peers.langgraph_peer",
    ),
    Peer(
        "hindsight-api",
        (),
        left_out="its package brings PyTorch with the CUDA libraries, several gigabytes",
    ),
)


class PeerUnavailable(RuntimeError):
    """A peer cannot be compared with; the message says why."""


async def install(peer: Peer, folder: Path) -> tuple[Path, str]:
    """Install a peer into a new environment in `folder`.

    Returns:
        Its Python, and its name with the version that was installed.

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
    return python, f"{peer.name} {version.strip()}"


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


async def run_peer(
    peer: Peer,
    named: str,
    python: Path,
    folder: Path,
    task: Task,
    loaded: Callable[[int], None],
) -> Sequence[Measured]:
    """Let a peer load and search.

    Args:
        peer: Which one.
        named: What it is called, with its version.
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
            name=named,
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


def bars(ours: Sequence[Measured], peers: Sequence[Measured]) -> Iterator[JudgedBar]:
    """Every bar for which both sides were measured; the peer is the fastest one at that figure."""
    for (name, size), (p50_bar, rate_bar) in _BARS.items():
        mine, others = _of(ours, size, ONE, name), _of(peers, size, ONE)
        if mine and others:
            fastest = min(others, key=lambda each: each.p50)
            yield _bar(mine[0], "p50", fastest, fastest.p50 / mine[0].p50, p50_bar)
        mine, others = _of(ours, size, MANY, name), _of(peers, size, MANY)
        if mine and others:
            fastest = max(others, key=lambda each: each.per_second)
            times = mine[0].per_second / fastest.per_second
            yield _bar(mine[0], "requests/s", fastest, times, rate_bar)


def _bar(mine: Measured, figure: str, peer: Measured, times: float, least: float) -> JudgedBar:
    return JudgedBar(
        mine.name,
        f"{figure}, {mine.size:,} memories a user, by {peer.name}",
        f"{times:.1f} times as fast",
        f"≥ {least:g}",
        round(times, 2) >= least,
    )


def _of(
    measured: Sequence[Measured], size: int, callers: int, name: str | None = None
) -> list[Measured]:
    return [
        each
        for each in measured
        if each.size == size and each.callers == callers and name in {None, each.name}
    ]
