"""Every RPC over HTTP with JSON (G6), through a real door in front of both services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.conftest import Services
from tests.e2e.doors import Caller, door_over


@pytest.fixture
async def caller(services: Services) -> AsyncIterator[Caller]:
    async with door_over(services) as address:
        found = Caller(address, services.token)
        async with found.http:
            yield found


async def test_a_memory_is_saved_and_found(caller: Caller) -> None:
    saved = await caller.ask(
        "MemoryService/SaveMemory",
        {"user_id": "ana", "content": "Tôi sống ở Hà Nội 👩🏽‍🚀", "type": "MEMORY_TYPE_FACT"},
    )
    print(saved)
    found = await caller.ask(
        "RetrievalService/SearchMemories",
        {"userId": "ana", "query": "Hà Nội", "consistencyToken": saved["consistencyToken"]},
    )
    print(found)
    r = await caller.post("RetrievalService/SearchMemories", {"userId": "ana", "qery": 1, "limit": "x", "types": ["A", "MEMORY_TYPE_FACT"]})
    print(r.status_code, r.headers, r.text)
    r = await caller.post("RetrievalService/SearchMemories", {})
    print(r.status_code, r.headers, r.text)
    r = await caller.post("RetrievalService/SearchMemorie", {})
    print(r.status_code, r.text)
    print(await caller.stream("ExtractionService/WatchJob", {"jobId": "nope"}))
    print(await caller.stream("MemoryService/StreamMemories", {"item": {"userId":"ana","content":"Likes tea"}}, {"item": {"userId":"ana","content":""}}))
    print(await caller.stream("PrivacyService/ExportUser", {"userId": "ana"}))
