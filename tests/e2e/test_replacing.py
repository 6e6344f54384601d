"""SaveMemory ends what the caller says it replaces, and tells what stands near."""

from __future__ import annotations

import grpc
import pytest

from hitherto.v1 import memory_pb2
from hitherto_client import AsyncHitherto
from tests.e2e.conftest import Services
from tests.e2e.curating import save
from tests.e2e.learning import ALL_STATUSES, memories
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING

STATUS = memory_pb2.MemoryStatus
NEAR = "Ana's favourite editor for long texts in the evening is called {}"
UNKNOWN = "01890000-0000-7000-8000-000000000000"


SERVICE_SETTINGS = {"dedupe_threshold": 0.6, **ENCRYPTING}
"""Spelling decides what is near: less of it is enough. With keys to encrypt with."""


async def test_b11_a_saved_statement_ends_what_it_replaces(services: Services) -> None:
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    new = (await save(services, "Ana's favourite editor is Zed", replaces=[old.id])).memory
    assert list(new.supersedes) == [old.id]
    ended, standing = await memories(services, statuses=ALL_STATUSES)
    assert (ended.id, ended.status) == (old.id, STATUS.MEMORY_STATUS_CONTRADICTED)
    assert (ended.superseded_by, ended.valid_to) == (new.id, new.valid_from)
    assert standing.status == STATUS.MEMORY_STATUS_ACTIVE


async def test_b8_nothing_is_saved_that_replaces_what_it_may_not(services: Services) -> None:
    """What nobody knows, too much, and, by an assistant, what the user said."""
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    for replaces, origin, code in (
        ([UNKNOWN], memory_pb2.ORIGIN_USER, grpc.StatusCode.NOT_FOUND),
        ([UNKNOWN] * 21, memory_pb2.ORIGIN_USER, grpc.StatusCode.INVALID_ARGUMENT),
        ([old.id], memory_pb2.ORIGIN_ASSISTANT, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await save(services, "Ana uses Zed", replaces=replaces, origin=origin)
        assert refused.value.code() == code, (replaces, origin)
    assert await memories(services, statuses=ALL_STATUSES) == [old]


async def test_b11_what_is_near_and_other_is_told(services: Services) -> None:
    """Of sealed memories too."""
    await choose(services, mask=["encrypt_sensitive"], encrypt_sensitive=True)
    clear = (await save(services, NEAR.format("Vim"))).memory
    await save(services, "Ana has two greyhounds")
    sealed = await save(services, NEAR.format("Zed"), sensitive=True)
    assert [each.id for each in sealed.near] == [clear.id]
    told = await save(services, NEAR.format("Emacs"))
    assert sealed.memory.id in {each.id for each in told.near}
    assert NEAR.format("Zed") in {each.content for each in told.near}
    for content, sensitive in (("Ana goes rowing", True), ("It rains in Hue", False)):
        assert not (await save(services, content, sensitive=sensitive)).near


async def test_the_client_says_what_a_statement_replaces(services: Services) -> None:
    addresses = (services.retrieval_address, services.extraction_address)
    async with AsyncHitherto(*addresses, token=services.token, timeout=60) as client:
        old = await client.save_memory("ana", NEAR.format("Vim"))
        near = await client.save_memory("ana", NEAR.format("Zed"))
        assert [each.id for each in near.near] == [old.memory.id]
        both = [old.memory.id, near.memory.id]
        new = await client.save_memory("ana", NEAR.format("Helix"), replaces=both)
        assert set(new.memory.supersedes) == set(both)
        assert [each.id async for each in client.memories("ana")] == [new.memory.id]
