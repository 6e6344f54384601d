"""Clients in other languages, made from protos/ alone, submit a transcript and read context."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.foreign_clients import echo
from tests.e2e.foreign_clients.toolchains import (
    CLIENT_OF,
    PROTOS,
    proto_files,
    protoc,
    unavailable,
)

RUN_SECONDS = 120
OWN_NAMESPACE = {
    "csharp": "namespace Hitherto.V1",
    "kotlin": "package com.hitherto.v1",
    "php": "namespace Hitherto\\V1;",
    "ruby": "module Hitherto",
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=CLIENT_OF, scope="module")
def client(request: pytest.FixtureRequest) -> list[str]:
    """The command line of the client in one language, with everything it needs installed."""
    return CLIENT_OF[request.param](Path(request.config.cache.mkdir("clients")))


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
            "HITHERTO_PROTOS": str(PROTOS),
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
        "conversation_id": f"abroad-{uuid.uuid4()}",
        "messages": [
            {
                "id": "m1",
                "role": "ROLE_USER",
                "content": "I live in Hà Nội and I work as a marine biologist 🐙.",
                "created_at": "2025-06-15T15:06:40Z",
            },
            {
                "id": "m2",
                "role": "ROLE_ASSISTANT",
                "content": "Noted.",
                "created_at": "2025-06-15T15:06:45Z",
            },
        ],
        "ended": True,
    }


@pytest.mark.usefixtures("conninfo")
async def test_a_client_submits_a_transcript_and_reads_the_context(
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
    assert told["job"]["state"] == "JOB_STATE_SUCCEEDED", told["job"]
    assert told["job"]["user_id"] == user_id
    assert told["states"][-1] == "JOB_STATE_SUCCEEDED"
    context = told["context"]
    assert any("Hà Nội" in memory["content"] for memory in context["memories"])
    assert {memory["user_id"] for memory in context["memories"]} == {user_id}
    assert "Hà Nội" in context["prompt_block"]
    assert context["prompt_tokens"] > 0


async def test_the_client_speaks_the_contract(client: list[str]) -> None:
    """Against handlers that only echo: what leaves the client arrives, both ways."""
    transcript = a_transcript("người dùng 🐙")
    async with echo.running() as services:
        done = await asyncio.to_thread(
            run_client, client, services.address, services.address, transcript, "ở đâu?"
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["states"] == ["JOB_STATE_QUEUED", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
    assert told["context"]["prompt_block"] == "người dùng 🐙: ở đâu?"
    received = services.submitted[0].transcripts[0]
    assert received.user_id == transcript["user_id"]
    assert received.ended
    assert [message.content for message in received.messages] == [
        message["content"] for message in transcript["messages"]
    ]
    assert received.messages[0].created_at.seconds == 1_750_000_000
    assert services.context_requests[0].consistency_token == "after-the-job"


async def test_the_client_fails_aloud_when_the_watch_ends_early(client: list[str]) -> None:
    async with echo.running(final=False) as services:
        done = await asyncio.to_thread(
            run_client, client, services.address, services.address, a_transcript("u"), ""
        )
    assert done.returncode == 1
    assert "WatchJob ended before the job did" in done.stderr
    assert not services.context_requests


def test_a_skip_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no network"):
        unavailable("no network")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no network"):
        unavailable("no network")


@pytest.mark.parametrize("language", ["csharp", "kotlin", "php", "ruby"])
def test_the_messages_can_be_generated(language: str, tmp_path: Path) -> None:
    command = [protoc(), f"-I{PROTOS}", f"--{language}_out={tmp_path}", *proto_files()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Warnings of a generator tell of names that the language cannot keep.
    assert not done.stderr
    generated = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file())
    assert OWN_NAMESPACE[language] in generated
