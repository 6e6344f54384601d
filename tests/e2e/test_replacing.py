"""SaveMemory ends what the caller says it replaces, and tells what stands near."""

from __future__ import annotations

import grpc
import pytest

from hitherto.v1 import memory_pb2, memory_service_pb2
from hitherto_client import AsyncHitherto
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, memories
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING

STATUS = memory_pb2.MemoryStatus
NEAR = "Ana's favourite editor for long texts in the evening is called {}"
UNKNOWN = "01890000-0000-7000-8000-000000000000"


SERVICE_SETTINGS = {"dedupe_threshold": 0.6, **ENCRYPTING}
"""Spelling decides what is near: less of it is enough. With keys to encrypt with."""


async def save(
    services: Services, content: str, **more: object
) -> memory_service_pb2.SaveMemoryResponse:
    """Save a statement of the user's own."""
    saved: memory_service_pb2.SaveMemoryResponse = await services.memory.SaveMemory(
        memory_service_pb2.SaveMemoryRequest(user_id="ana", content=content, **more)  # type: ignore[arg-type]
    )
    return saved


async def test_b11_a_saved_statement_ends_what_it_replaces(services: Services) -> None:
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    new = (await save(services, "Ana's favourite editor is Zed", replaces=[old.id])).memory
    assert list(new.supersedes) == [old.id]
    ended, standing = await memories(services, statuses=ALL_STATUSES)
    assert (ended.id, ended.status) == (old.id, STATUS.MEMORY_STATUS_CONTRADICTED)
    assert (ended.superseded_by, ended.valid_to) == (new.id, new.valid_from)
    assert standing.status == STATUS.MEMORY_STATUS_ACTIVE


async def test_b11_what_is_near_and_other_is_told(services: Services) -> None:
    old = (await save(services, NEAR.format("Vim"))).memory
    await save(services, "Ana has two greyhounds")
    told = await save(services, NEAR.format("Zed"))
    assert [each.id for each in told.near] == [old.id]
    assert not (await save(services, "Ana goes rowing")).near


async def test_b11_what_is_near_is_told_of_sealed_memories_too(services: Services) -> None:
    await choose(services, mask=["encrypt_sensitive"], encrypt_sensitive=True)
    clear = (await save(services, NEAR.format("Vim"))).memory
    sealed = await save(services, NEAR.format("Zed"), sensitive=True)
    assert [each.id for each in sealed.near] == [clear.id]
    told = await save(services, NEAR.format("Helix"), sensitive=True)
    assert {each.id for each in told.near} == {clear.id, sealed.memory.id}
    told = await save(services, NEAR.format("Emacs"))
    assert sealed.memory.id in {each.id for each in told.near}
    assert NEAR.format("Zed") in {each.content for each in told.near}
    assert not (await save(services, "Ana goes rowing", sensitive=True)).near


async def test_b11_an_unknown_memory_is_not_found_and_nothing_is_saved(
    services: Services,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await save(services, "Ana uses Zed", replaces=[UNKNOWN])
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await save(services, "Ana uses Zed", replaces=[UNKNOWN] * 21)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert await memories(services, statuses=ALL_STATUSES) == []


async def test_b8_an_assistant_replaces_nothing_that_the_user_said(services: Services) -> None:
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await save(
            services,
            "Ana's favourite editor is Zed",
            replaces=[old.id],
            origin=memory_pb2.ORIGIN_ASSISTANT,
        )
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    (standing,) = await memories(services, statuses=ALL_STATUSES)
    assert standing.status == STATUS.MEMORY_STATUS_ACTIVE


async def test_the_client_says_what_a_statement_replaces(services: Services) -> None:
    addresses = (services.retrieval_address, services.extraction_address)
    async with AsyncHitherto(*addresses, token=services.token, timeout=60) as client:
        old = await client.save_memory("ana", NEAR.format("Vim"))
        near = await client.save_memory("ana", NEAR.format("Zed"))
        assert [each.id for each in near.near] == [old.memory.id]
        new = await client.save_memory(
            "ana", NEAR.format("Helix"), replaces=[old.memory.id, near.memory.id]
        )
        assert set(new.memory.supersedes) == {old.memory.id, near.memory.id}
        assert [each.id async for each in client.memories("ana")] == [new.memory.id]
