"""SaveMemory ends what the caller says it replaces, and tells what stands near."""

from __future__ import annotations

import grpc

from hitherto.v1 import memory_pb2, memory_service_pb2
from hitherto_client import AsyncHitherto
from tests.e2e.conftest import Services
from tests.e2e.curating import change, events, forget, restore, review, save
from tests.e2e.learning import ALL_STATUSES, memories, rows
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.sessions import refusal_of

STATUS = memory_pb2.MemoryStatus
NEAR = "Ana's favourite editor for long texts in the evening is called {}"
UNKNOWN = "01890000-0000-7000-8000-000000000000"
APPROVE = memory_service_pb2.REVIEW_DECISION_APPROVE
BY_ASSISTANT = {"origin": memory_pb2.ORIGIN_ASSISTANT}


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


async def test_c6_what_is_replaced_ends_as_the_statement_has_left_it(services: Services) -> None:
    """A statement that brings back the cause of a doubt brings back the doubt before."""
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    cause = (await save(services, "Ana has moved to Zed")).memory
    change(
        services.conninfo,
        "UPDATE memories SET doubt = jsonb_build_object('because', %(cause)s::text, 'reason', '',"
        " 'since', now()) WHERE memory_id = %(doubted)s::uuid",
        cause=cause.id,
        doubted=old.id,
    )
    await forget(services, cause.id)
    again = await save(services, cause.content, replaces=[old.id])
    assert again.memory.status == STATUS.MEMORY_STATUS_ACTIVE
    told = await events(services, old.id)
    assert [each.version for each in told] == [4, 3, 2, 1]


async def test_b8_nothing_is_saved_that_replaces_what_it_may_not(services: Services) -> None:
    """What nobody knows, and too much."""
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    for replaces, code in (
        ([UNKNOWN], grpc.StatusCode.NOT_FOUND),
        ([UNKNOWN] * 21, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        refusal = await refusal_of(save(services, "Ana uses Zed", replaces=replaces))
        assert refusal.code == code, replaces
    assert await memories(services, statuses=ALL_STATUSES) == [old]


async def test_b12_what_replaces_the_words_of_somebody_more_trusted_waits_for_review(
    services: Services,
) -> None:
    """New or saved before. What the assistant itself said ends with the review, too."""
    for saved_before in (False, True):
        said = (await save(services, f"Ana's editor is Vim, {saved_before}")).memory
        nano = f"Ana's editor is Nano, {saved_before}"
        noted = (await save(services, nano, **BY_ASSISTANT)).memory
        content, ids = f"Ana's editor is Zed, {saved_before}", [said.id, noted.id]
        if saved_before:
            await save(services, content, **BY_ASSISTANT)
        new = (await save(services, content, replaces=ids, **BY_ASSISTANT)).memory
        assert new.status == STATUS.MEMORY_STATUS_QUARANTINED, saved_before
        standing = {each.id for each in await memories(services)}
        assert standing >= set(ids), saved_before
        await review(services, new.id, APPROVE)
        ended = {each.id: each for each in await memories(services, statuses=ALL_STATUSES)}
        for each in ids:
            assert ended[each].status == STATUS.MEMORY_STATUS_CONTRADICTED, saved_before
            assert ended[each].superseded_by == new.id, saved_before


async def test_b12_what_the_user_said_too_may_replace_what_an_assistant_says_it_replaces(
    services: Services,
) -> None:
    old = (await save(services, "Ana's favourite editor is Vim")).memory
    new = (await save(services, "Ana's favourite editor is Zed")).memory
    again = await save(services, new.content, replaces=[old.id], **BY_ASSISTANT)
    assert again.deduplicated
    assert (again.memory.id, again.memory.status) == (new.id, STATUS.MEMORY_STATUS_ACTIVE)
    assert list(again.memory.may_replace) == [old.id]
    assert old.id in {each.id for each in await memories(services)}


async def test_c4_what_is_forgotten_replaces_nothing(services: Services) -> None:
    """An assistant repeats it, and does not bring it back."""
    noted = (await save(services, "Ana's editor is Nano", **BY_ASSISTANT)).memory
    said = (await save(services, "Ana's editor is Vim")).memory
    gone = (await save(services, "Ana's editor is Zed")).memory
    await forget(services, gone.id)
    for replaces in ([noted.id], [said.id]):
        refusal = await refusal_of(save(services, gone.content, replaces=replaces, **BY_ASSISTANT))
        assert refusal.code == grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "MEMORY_STATUS_CONFLICT"
    assert (await save(services, gone.content, **BY_ASSISTANT)).memory.id == gone.id
    back = await restore(services, gone.id)
    assert rows(services.conninfo, "SELECT 1 FROM memories WHERE challenges <> '{}'") == []
    assert await memories(services) == [noted, said, back]


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
