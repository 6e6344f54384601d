"""Encryption is turned on, and all is sealed, while a search is on its way (H3)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hitherto_retrieval.handlers.incoming import BALANCED
from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.intent.question import Wording
from hitherto_retrieval.search.legs import Legs
from hitherto_retrieval.search.query import QueryEmbedders
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.search import Search, SearchRun
from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.models import Memory
from tests.integration.retrieval.questions import ANA, Reader
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_sealed import hide

CLEAR = Fact("Ana lives in Porto")
SECRET = Fact(
    "Ana saw Doctor Weiss", type="personal", valid_from=datetime(2026, 3, 10, 12, tzinfo=UTC)
)


@dataclass(frozen=True)
class Searching:
    """A search that has looked Ana up and goes on later."""

    run: SearchRun
    keys: UserKeys
    opener: Opener


@asynccontextmanager
async def looked_up(reader: Reader, folder: Path, question: Question) -> AsyncIterator[Searching]:
    keys = UserKeys(LocalWrapper(b"e" * 32), KeyStore(folder), os.urandom(32))
    await remember(reader.superuser, ANA.user_id, [CLEAR], embedder=OfflineEmbedder())
    queries = QueryEmbedders(
        Embedders(OfflineEmbedder(), build=None), cache_size=10, call_seconds=10
    )
    deadline = asyncio.get_running_loop().time() + 60
    opener = Opener(keys, ANA, deadline=deadline)
    search = Search(
        queries, embedding_seconds=10, wording=Wording(), snapshots=Snapshots(reader, 0)
    )
    try:
        run = SearchRun(search, question, UserReads(ANA), deadline, opener)
        await reader.run(lambda c: ask(c, *run.statements), timeout=120)
        yield Searching(run, keys, opener)
    finally:
        await queries.close()


@pytest.mark.parametrize("query", ["", "in March 2026"])
@pytest.mark.parametrize("key_is_there", [True, False])
async def test_h3_what_was_sealed_since_the_look_up_is_opened_or_left_out(
    reader: Reader, tmp_path: Path, query: str, key_is_there: bool
) -> None:
    question = Question(query, 10, Filters(), datetime.now(UTC), BALANCED, min_relevance=0.0)
    legs = Legs()
    async with looked_up(reader, tmp_path, question) as searching:
        assert not searching.run.user.may_be_sealed
        key = await searching.keys.make(ANA.tenant_id, ANA.user_id)
        await hide(reader.superuser, key, [SECRET], embedder=OfflineEmbedder())
        if not key_is_there:
            await searching.keys.erase(ANA.tenant_id, ANA.user_id)
        found = await searching.run.finish(reader, legs)
    told = {hit.item.content for hit in found.hits if isinstance(hit.item, Memory)}
    assert told == {CLEAR.content, *([SECRET.content] if key_is_there else [])}
    (leg,) = [leg for leg in legs.reports if leg.name == "sealed"]
    assert leg.state == ("ran" if key_is_there else "failed")


async def test_h3_who_encrypts_nothing_asks_for_no_key(reader: Reader, tmp_path: Path) -> None:
    question = Question("Porto", 10, Filters(), datetime.now(UTC), BALANCED)
    async with looked_up(reader, tmp_path, question) as searching:
        found = await searching.run.finish(reader, Legs())
    assert len(found.hits) == 1
    assert not searching.opener.asked
