"""What would not fit into one reply is told in part, or refused with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import grpc
import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from hitherto.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from tests.e2e.conftest import Services
from tests.e2e.sessions import refusal_of
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import Turn, converse
from tests.tenants import Admitted, Tenant

if TYPE_CHECKING:
    from hitherto.v1.retrieval_service_pb2_grpc import RetrievalServiceAsyncStub

MOST = 64 * 1024 * 1024
LONG = "hazel " * 10_000


@pytest.fixture
async def reading(services: Services, tenant: Tenant) -> AsyncIterator[RetrievalServiceAsyncStub]:
    """Calls of the tenant over a channel that takes as much as those of our clients."""
    options = [("grpc.max_receive_message_length", MOST)]
    async with grpc.aio.insecure_channel(services.retrieval_address, options) as channel:
        admitted = cast(grpc.aio.Channel, Admitted(channel, tenant))
        yield RetrievalServiceStub(admitted)


async def test_messages_of_conversations_fit_into_a_reply(
    reading: RetrievalServiceAsyncStub, tenant_conninfo: str
) -> None:
    """Of 72 MB in conversations without a summary, each of which is called by its beginning."""
    said = [Turn(f"{number} {LONG}", role="tool") for number in range(200)]
    await converse(tenant_conninfo, "ana", {f"c{number}": said for number in range(6)})
    told = await reading.GetRecentConversations(
        pb.GetRecentConversationsRequest(
            user_id="ana", limit=200, include_messages=True, message_limit=200
        )
    )
    assert MOST / 4 < told.ByteSize() < MOST
    assert len(told.conversations) == 6
    for each in told.conversations:
        assert each.summary.title.startswith("0 hazel")
        # The last ones of each.
        numbers = [int(message.content.split()[0]) for message in each.messages]
        assert numbers == list(range(200 - len(numbers), 200))
        assert len(numbers) > 50


async def test_excerpts_fit_into_a_reply(
    reading: RetrievalServiceAsyncStub, tenant_conninfo: str
) -> None:
    """Each message stands around many results: 3.6 MB become 120."""
    await converse(tenant_conninfo, "ana", {"c": [Turn(f"{n} {LONG}") for n in range(60)]})
    found = await reading.SearchMemories(
        pb.SearchMemoriesRequest(
            user_id="ana",
            query="hazel",
            scopes=[search_pb2.SEARCH_SCOPE_MESSAGES],
            limit=60,
            excerpt_messages=20,
        )
    )
    assert MOST / 4 < found.ByteSize() < MOST
    assert len(found.results) == 60
    assert found.results[0].excerpt


async def test_what_cannot_be_told_in_part_is_refused_with_a_reason(
    reading: RetrievalServiceAsyncStub, tenant_conninfo: str
) -> None:
    large = {"key": "x" * 120_000}
    facts = [Fact(f"Fact {number}", metadata=large) for number in range(600)]
    await remember(tenant_conninfo, "ana", facts)
    asked = pb.ListMemoriesRequest(user_id="ana", page_size=1_000)
    assert (await refusal_of(reading.ListMemories(asked))).reason == "REQUEST_TOO_LARGE"
    asked.page_size = 100
    assert len((await reading.ListMemories(asked)).memories) == 100
