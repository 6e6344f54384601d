"""ListMemories and ListConversations in pages (D14), and memories one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import conversation_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import change
from tests.e2e.learning import talk
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.e2e.test_search import refused
from tests.integration.retrieval.seed import Fact, remember, summarise
from tests.tenants import tenant_of

NOW = datetime.now(UTC)


@pytest.fixture
async def ana(tenant_conninfo: str) -> list[str]:
    """23 memories; several share their time, their importance and their last use."""
    facts = [
        Fact(
            f"memory {n}",
            importance=(n % 4) / 4 + (1e-12 if n == 3 else 0),
            created_at=NOW - timedelta(days=n // 5),
        )
        for n in range(23)
    ]
    ids = await remember(tenant_conninfo, "ana", facts)
    async with await psycopg.AsyncConnection.connect(tenant_conninfo) as connection:
        for n, memory_id in enumerate(ids[::3]):
            await connection.execute(
                "INSERT INTO memory_access VALUES (%s, 'ana', %s, 1, %s)",
                (tenant_of(tenant_conninfo), memory_id, NOW + timedelta(hours=n // 2)),
            )
    return [str(memory_id) for memory_id in ids]


async def pages(services: Services, size: int, **fields: Any) -> list[list[memory_pb2.Memory]]:
    found = []
    token = ""
    while True:
        page = await ask(services, "ListMemories", page_size=size, page_token=token, **fields)
        assert page.total_size == 23
        found.append(list(page.memories))
        token = page.next_page_token
        if not token:
            return found


async def test_pages_tell_everything_once_in_order(services: Services, ana: list[str]) -> None:
    for order_by in ("", "created_at", "importance", "last_accessed_at"):

        def key(memory: memory_pb2.Memory, order_by: str = order_by) -> Any:
            if order_by == "importance":
                return round(memory.importance, 9)
            if order_by == "last_accessed_at" and memory.HasField("last_accessed_at"):
                return memory.last_accessed_at.ToDatetime()
            return memory.created_at.ToDatetime()

        found = await pages(services, 4, order_by=order_by)
        assert [len(page) for page in found] == [4, 4, 4, 4, 4, 3]
        listed = [memory for page in found for memory in page]
        assert sorted(memory.id for memory in listed) == sorted(ana)
        keys = [key(memory) for memory in listed]
        assert keys == sorted(keys, reverse=True), order_by
        one_by_one = await pages(services, 1, order_by=order_by)
        assert [page[0].id for page in one_by_one] == [memory.id for memory in listed]

    page = await ask(services, "ListMemories")
    assert len(page.memories) == 10
    everything = await ask(services, "ListMemories", page_size=5_000)
    assert (len(everything.memories), everything.next_page_token) == (23, "")
    for fields, field in (
        ({"page_size": -1}, "page_size"),
        ({"order_by": "colour"}, "order_by"),
        ({"page_token": page.next_page_token[:-2]}, "page_token"),
        ({"page_token": page.next_page_token, "order_by": "importance"}, "page_token"),
    ):
        await refused(ask(services, "ListMemories", **fields), field)
    nobody = await ask(services, "ListMemories", user_id="nobody")
    assert (len(nobody.memories), nobody.total_size, nobody.next_page_token) == (0, 0, "")

    # They stay whole while memories come.
    change(
        services.conninfo,
        "INSERT INTO memories (tenant_id, user_id, memory_id, type, content, confidence, source,"
        " origin, valid_from, said_at, lexical_no, lexical_length) VALUES (%(tenant)s, 'ana',"
        " gen_random_uuid(), 'fact', 'new', 'high', 'explicit', 'user', now(), now(), 99, 1)",
        tenant=tenant_of(services.conninfo),
    )
    second = await ask(services, "ListMemories", page_size=100, page_token=page.next_page_token)
    told = [memory.id for memory in (*page.memories, *second.memories)]
    assert sorted(told) == sorted(ana)


async def test_a_memory_is_read_by_its_owner_whatever_its_status(services: Services) -> None:
    (mine,) = await remember(services.conninfo, "ana", [Fact("gone", status="forgotten")])
    (theirs,) = await remember(services.conninfo, "minh", [Fact("secret")])
    found = await ask(services, "GetMemory", memory_id=str(mine))
    assert found.memory.status == memory_pb2.MEMORY_STATUS_FORGOTTEN
    refusal = await refusal_of(ask(services, "GetMemory", memory_id=str(theirs)))
    assert refusal.code == grpc.StatusCode.NOT_FOUND
    await refused(ask(services, "GetMemory", memory_id="no id"), "memory_id")


async def test_conversations_in_pages_also_at_equal_times(services: Services) -> None:
    await remember(services.conninfo, "ana", [])
    for n in range(11):
        await summarise(
            services.conninfo,
            "ana",
            f"c{n:02}",
            "words",
            said_at=NOW - timedelta(days=n // 4),  # four at a time
            outcome="resolved" if n % 2 else "ongoing",
        )

    async def listed(size: int, **fields: Any) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            page = await ask(
                services, "ListConversations", page_size=size, page_token=token, **fields
            )
            assert len(page.conversations) <= size
            assert page.total_size == (5 if fields else 11)
            found += [conversation.conversation_id for conversation in page.conversations]
            token = page.next_page_token
            if not token:
                return found

    whole = await listed(200)
    assert whole == [f"c{n:02}" for n in (3, 2, 1, 0, 7, 6, 5, 4, 10, 9, 8)]
    for size in (1, 3, 4):
        assert await listed(size) == whole
    resolved = await listed(2, outcomes=[conversation_pb2.OUTCOME_RESOLVED])
    assert resolved == [name for name in whole if int(name[1:]) % 2]


@pytest.mark.parametrize("size", [1, 4])
async def test_pages_miss_no_conversation_that_goes_on_meanwhile(
    services: Services, size: int
) -> None:
    """One that rises above the page at hand comes at the end."""
    await remember(services.conninfo, "ana", [])
    names = {f"c{n}" for n in range(9)}
    for n, name in enumerate(sorted(names)):
        said_at = NOW - timedelta(days=1 + n)
        await summarise(services.conninfo, "ana", name, "words", said_at=said_at)
    seen: list[str] = []
    token = ""
    while True:
        page = await ask(services, "ListConversations", page_size=size, page_token=token)
        assert len(page.conversations) <= size
        assert page.total_size == len(names)
        seen += [each.conversation_id for each in page.conversations]
        token = page.next_page_token
        if not token:
            break
        for behind in sorted(names - set(seen))[-1:]:
            said = talk("One thing more", conversation=behind).messages
            await ask(services, "AppendMessages", conversation_id=behind, messages=said)
    assert set(seen) == names


@pytest.mark.parametrize("moment", [{}, {"known_at": NOW + timedelta(days=1)}])
async def test_pages_miss_nothing_while_memories_are_used(
    services: Services, ana: list[str], moment: dict[str, datetime]
) -> None:
    """Uses are those of the present, also in lists of another time."""
    seen: list[str] = []
    token = ""
    order = {"order_by": "last_accessed_at", **moment}
    use = (
        "INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count, last_accessed_at)"
        " SELECT tenant_id, user_id, memory_id, 1, clock_timestamp() FROM memories"
        " WHERE user_id = 'ana' AND NOT memory_id = ANY (%s) ORDER BY created_at LIMIT 1"
        " ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE SET last_accessed_at = now()"
    )
    async with await psycopg.AsyncConnection.connect(services.conninfo) as connection:
        while True:
            page = await ask(services, "ListMemories", page_size=2, page_token=token, **order)
            seen += [memory.id for memory in page.memories]
            token = page.next_page_token
            if not token:
                break
            await connection.execute(use, (seen,))
            await connection.commit()
    assert set(seen) == set(ana)


@pytest.mark.parametrize("size", [1, 4])
async def test_pages_miss_nothing_while_importances_change(
    services: Services, ana: list[str], size: int
) -> None:
    """A memory that rises above the page at hand comes at the end."""
    seen: list[str] = []
    token = ""
    least = "SELECT memory_id FROM memories WHERE user_id = 'ana' AND NOT memory_id = ANY (%s)"
    async with await psycopg.AsyncConnection.connect(services.conninfo) as connection:
        while True:
            page = await ask(
                services, "ListMemories", page_size=size, order_by="importance", page_token=token
            )
            seen += [memory.id for memory in page.memories]
            token = page.next_page_token
            if not token:
                break
            # The least important one that was not listed yet becomes the most important.
            await connection.execute(
                "UPDATE memories SET importance = 1, updated_at = clock_timestamp()"
                f" WHERE memory_id = ({least} ORDER BY importance, memory_id LIMIT 1)",
                (seen,),
            )
            await connection.commit()
    assert set(seen) == set(ana)
