"""What a retrieval process holds of users answers as the database does, and never for it.

One service holds everybody from the first read on, a second one nobody; both are asked the same
through the public calls, with writes in between.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import (
    memory_pb2,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
    search_pb2,
)
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval import context
from hitherto_retrieval.config import RetrievalSettings
from hitherto_retrieval.search import listing, search
from hitherto_retrieval.snapshots import Snapshots
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.metrics import REGISTRY
from hitherto_shared.models import Scope
from tests.conftest import as_superuser, new_database
from tests.e2e.conftest import Services, both_services
from tests.e2e.curating import change, forget, restore, save, update
from tests.e2e.learning import learn, rows, talk
from tests.e2e.leaving import erase
from tests.e2e.methods import ask
from tests.e2e.privacy import choose, clear
from tests.tenants import Tenant, token_settings
from tests.waiting import eventually

QUESTIONS = (
    "Where does Ana live?",
    "tea",
    "What did Ana say about work yesterday?",
    "Oslo and Porto",
    "the last thing about trips",
    "東京",
)
"""Without a question what was told last decides, which changes from one call to the next."""
SCOPES = (
    search_pb2.SEARCH_SCOPE_MEMORIES,
    search_pb2.SEARCH_SCOPE_MESSAGES,
    search_pb2.SEARCH_SCOPE_SUMMARIES,
)


@dataclass(frozen=True)
class Pair:
    """Two retrieval services on one database, and what the first of them holds."""

    superuser_conninfo: str
    holding: Services
    reading: retrieval_service_pb2_grpc.RetrievalServiceAsyncStub
    address: str
    snapshots: Snapshots


@pytest.fixture(scope="module")
async def pair(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    """Services that two tests or more share; a test has a tenant of its own."""
    folder = tmp_path_factory.mktemp("pair")
    made: list[Snapshots] = []

    def held(*given: Any) -> Snapshots:
        # From the first read on, where a user otherwise has to come back.
        made.append(Snapshots(*given, after=0))
        return made[-1]

    async with AsyncExitStack() as stack:
        conninfo = stack.enter_context(new_database(postgres))
        patching = stack.enter_context(pytest.MonkeyPatch.context())
        patching.setattr(retrieval, "Snapshots", held)
        # The tokens of a random id would decide what fits; these have as many as each other.
        ids = (f"{number:09}fedcbaf" for number in count(1))
        patching.setattr(context, "secrets", SimpleNamespace(token_hex=lambda size: next(ids)))
        settings = {**token_settings(folder), "data_dir": folder / "data"}
        services = await stack.enter_async_context(
            both_services(conninfo, snapshot_memory_mb=16, **settings)
        )
        plain = await stack.enter_async_context(
            retrieval.running(
                RetrievalSettings(
                    retrieval_listen="127.0.0.1:0",
                    database_url=conninfo,
                    snapshot_memory_mb=0,
                    **settings,
                ),
                conninfo,
            )
        )
        address = f"127.0.0.1:{plain.port}"
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
        yield Pair(
            as_superuser(postgres, conninfo),
            services,
            retrieval_service_pb2_grpc.RetrievalServiceStub(channel),
            address,
            made[0],
        )


@dataclass(frozen=True)
class Stage:
    """One tenant at both services."""

    pair: Pair
    tenant: Tenant

    @property
    def services(self) -> Services:
        """The services, of which the retrieving one holds snapshots."""
        return self.pair.holding.as_tenant(self.tenant)

    @property
    def conninfo(self) -> str:
        return self.tenant.rows_of(self.pair.superuser_conninfo)

    def scope(self, user: str = "ana") -> Scope:
        """Whose snapshot is meant."""
        return Scope(self.tenant.tenant_id, user)

    def held(self, user: str = "ana") -> bool:
        return self.scope(user) in self.pair.snapshots

    async def come_back(self, method: str, request: Any) -> None:
        """Ask until a snapshot answers: on a busy machine a load or a sweep may take too long."""
        for _ in range(20):
            before = lookups("hit")
            await getattr(self.services.retrieval, method)(request)
            if lookups("hit") > before:
                return
            await self.pair.snapshots.loaded()
        raise AssertionError(f"{request.user_id} is not held")

    async def replies(self, method: str, request: Any) -> tuple[Any, Any]:
        """The replies to one call: from what is held, and by the database."""
        holding = getattr(self.services.retrieval, method)
        credential = [("authorization", f"Bearer {self.tenant.token}")]
        await self.come_back(method, request)
        held = await holding(request)
        return held, await getattr(self.pair.reading, method)(request, metadata=credential)

    async def both(self, method: str, request: Any) -> tuple[Any, Any]:
        """The replies to one call, as far as both can be the same."""
        held, plain = await self.replies(method, request)
        stripped, scores = _comparable(plain)
        near = [pytest.approx(each, abs=1e-6) for each in scores]
        return _comparable(held), (stripped, near)


@pytest.fixture
def stage(pair: Pair) -> Stage:
    """A tenant of the test's own."""
    return Stage(pair, Tenant())


def lookups(result: str) -> float:
    """How many reads looked for a snapshot, by result."""
    sample = REGISTRY.get_sample_value("hitherto_snapshot_lookups_total", {"result": result})
    return sample or 0.0


def _unfenced(reply: Any) -> str:
    """The id of the fence of a reply's block, which is replaced by one that is always the same."""
    if isinstance(reply, retrieval_service_pb2.SearchMemoriesResponse):
        return ""
    found = re.match(r"<<<hitherto:memory (\w+): ", reply.prompt_block)
    if found is None:
        return ""
    reply.prompt_block = reply.prompt_block.replace(found[1], "the-id")
    return found[1]


def _comparable(reply: Any) -> tuple[Any, Any]:
    """A reply without what two calls differ in: times, counts of use, and what these decide.

    Its scores with their parts stand apart, as near as two ways to add up cosines come. The block
    depends on use only if it was asked for memories by their importance.
    """
    _unfenced(reply)
    for leg in reply.legs:
        leg.ClearField("duration")
    if isinstance(reply, retrieval_service_pb2.SearchMemoriesResponse):
        results = reply.results
    else:
        if reply.memories:
            for name in ("memories", "prompt_block", "prompt_tokens"):
                reply.ClearField(name)
        results = reply.relevant
    scores = []
    for result in results:
        if result.HasField("memory"):
            result.memory.ClearField("access_count")
            result.memory.ClearField("last_accessed_at")
        parts = [result.breakdown[name] for name in sorted(result.breakdown)]
        scores.append([result.score, *parts])
        result.ClearField("score")
        for name in result.breakdown:
            result.breakdown[name] = 0.0
    return reply, scores


def _question(chance: random.Random) -> retrieval_service_pb2.SearchMemoriesRequest:
    request = retrieval_service_pb2.SearchMemoriesRequest(
        user_id="ana",
        query=chance.choice(QUESTIONS),
        limit=chance.choice((0, 1, 3, 40)),
        explain=True,
    )
    if chance.random() < 0.3:
        request.types.append(
            chance.choice((memory_pb2.MEMORY_TYPE_FACT, memory_pb2.MEMORY_TYPE_PREFERENCE))
        )
    if chance.random() < 0.2:
        request.tags.append("trips")
    if chance.random() < 0.2:
        request.entity = "Oslo"
    if chance.random() < 0.2:
        request.conversation_id = "c1"
    if chance.random() < 0.2:
        request.metadata_filter.update({"channel": chance.choice(("web", "mail"))})
    if chance.random() < 0.4:
        request.scopes.extend(SCOPES)
    if chance.random() < 0.1:
        request.min_score = 0.2
    if chance.random() < 0.2:
        request.statuses.extend(chance.sample(memory_pb2.MemoryStatus.values()[1:], 3))
    return request


def _told(chance: random.Random) -> retrieval_service_pb2.GetContextRequest:
    """A context for a question, its block in any form; mostly one that does not depend on use."""
    request = retrieval_service_pb2.GetContextRequest(
        user_id="ana",
        query=chance.choice(QUESTIONS),
        template=chance.choice(search_pb2.PromptTemplate.values()[:5]),
        include_provenance=chance.random() < 0.3,
        max_tokens=chance.choice((150, 1_000, 4_000)),
    )
    if chance.random() < 0.8:
        request.max_memories = 0
    if chance.random() < 0.4:
        request.line_dates = chance.random() < 0.5
    if chance.random() < 0.3:
        request.conversation_id = f"c{chance.randrange(3)}"
    return request


def _listed(chance: random.Random) -> retrieval_service_pb2.GetContextRequest:
    """A context without a query, or in a conversation that goes on."""
    request = retrieval_service_pb2.GetContextRequest(
        user_id="ana",
        max_memories=chance.choice((0, 1, 3, 50)),
        max_conversations=chance.choice((0, 2, 50)),
        max_entities=chance.choice((0, 1, 50)),
    )
    if chance.random() < 0.3:
        request.query = chance.choice(QUESTIONS)
        request.conversation_id = f"c{chance.randrange(3)}"
    if chance.random() < 0.3:
        request.memory_order = search_pb2.MEMORY_ORDER_RECENT
    return request


async def _change(stage: Stage, chance: random.Random, known: list[str]) -> None:
    """Some write through the public calls."""
    services = stage.services
    what = chance.choice(("save", "save", "update", "forget", "restore", "say", "teach"))
    if what == "save":
        words = chance.choice(("Ana likes tea", "Ana moved to Oslo", "Ana hikes in Porto"))
        tags = ["trips"] if chance.random() < 0.5 else []
        saved = await save(
            services,
            f"{words} {chance.randrange(99)}",
            tags=tags,
            metadata={"channel": chance.choice(("web", "chat"))},
        )
        known.append(saved.memory.id)
    elif what == "update" and known:
        await update(
            services,
            chance.choice(known),
            "importance",
            importance=chance.choice((0.1, 0.5, 0.9)),
        )
    elif what == "forget" and known:
        await forget(services, chance.choice(known))
    elif what == "restore" and known:
        await restore(services, chance.choice(known))
    else:
        await learn(
            services,
            talk(
                f"I live in {chance.choice(('Oslo', 'Porto', 'Hà Nội'))} and I like tea.",
                conversation=f"c{chance.randrange(3)}-{chance.randrange(10**6)}",
            ),
        )


async def test_both_answer_alike_while_everything_changes(stage: Stage) -> None:
    """Random writes and questions: same results, scores, parts, legs and counts."""
    chance = random.Random(7)
    known: list[str] = []
    compared = blocks = 0
    for _ in range(10):
        # What is forgotten cannot be forgotten again.
        with suppress(grpc.aio.AioRpcError):
            await _change(stage, chance, known)
        for _ in range(4):
            held, plain = await stage.both("SearchMemories", _question(chance))
            assert held == plain
            compared += len(held[0].results)
        for _ in range(3):
            held, plain = await stage.both("GetContext", _told(chance))
            assert held == plain
            compared += len(held[0].relevant)
            blocks += bool(held[0].prompt_block)
        listed = _listed(chance)
        held, plain = await stage.both("GetContext", listed)
        assert held == plain
    assert compared > 40
    assert blocks > 14


async def test_a_kept_context_is_the_databases_own(stage: Stage) -> None:
    """D1, D2: all of it, in any form, while memories are changed, told, and told again."""
    chance = random.Random(11)
    known = [(await save(stage.services, f"Ana likes {what}")).memory.id for what in "ABCDE"]
    blocks: set[str] = set()
    fences: list[str] = []
    for _ in range(6):
        with suppress(grpc.aio.AioRpcError):
            await _change(stage, chance, known)
        forms = [_listed(chance) for _ in range(3)]
        for form in forms:
            form.ClearField("query")
            form.count_access = False
            form.template = chance.choice(search_pb2.PromptTemplate.values()[:5])
            form.include_provenance = chance.random() < 0.3
            form.max_tokens = chance.choice((60, 350, 4_000))
            if chance.random() < 0.5:
                form.line_dates = chance.random() < 0.7
        for form in chance.choices(forms, k=6):
            for _ in range(2):
                held, plain, ids = await whole_contexts(stage, form)
                assert held == plain
                blocks.add(held.prompt_block)
                fences += ids
                tell(stage.conninfo, "ana", chance.choice(known))
    assert len(blocks) > 12
    assert len(set(fences)) == len(fences) > 24


async def test_a_context_with_a_query_is_not_one_kept_without(stage: Stage) -> None:
    """D16: of the same form, in turns."""
    for what in ("tea", "bread", "honey"):
        await save(stage.services, f"Ana likes {what}")
    form = partial(
        retrieval_service_pb2.GetContextRequest,
        user_id="ana",
        max_memories=1,
        max_tokens=4_000,
        line_dates=False,
        count_access=False,
    )
    for query in ("", "tea", "", "", "honey", "honey", ""):
        held, plain = await stage.both("GetContext", form(query=query))
        assert held == plain
        assert bool(held[0].relevant) == bool(query)


async def test_what_the_last_answer_rested_on_is_kept_in_no_context(stage: Stage) -> None:
    """F4: an item that expires is left out of the next context, and its line of the block."""
    await save(stage.services, "Ana likes tea")
    saved = await save(stage.services, "Ana has a guest card")
    answered = talk("What do I have?", ("assistant", "A guest card."))
    answered.messages[1].context_items.add(id=saved.memory.id, relevance=0.9)
    await learn(stage.services, answered)
    # A list would change with what expires.
    form = retrieval_service_pb2.GetContextRequest(
        user_id="ana", conversation_id="c1", max_memories=0, count_access=False
    )
    for _ in range(2):
        held, plain, _ = await whole_contexts(stage, form)
        assert held == plain
        assert [each.memory.id for each in held.previous_items] == [saved.memory.id]
    # As time does, which raises no revision, and so without triggers.
    with psycopg.connect(stage.pair.superuser_conninfo) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE hitherto.memories SET expires_at = clock_timestamp()"
            " WHERE memory_id::text = %s",
            (saved.memory.id,),
        )
    for _ in range(2):
        held, plain, _ = await whole_contexts(stage, form)
        assert held == plain
        assert not held.previous_items
        assert "guest card" not in held.prompt_block.partition("Recent conversations")[0]


async def test_memories_of_a_kept_context_count_as_told(stage: Stage) -> None:
    """D11: each time it is told."""
    for what in ("tea", "bread", "honey"):
        await save(stage.services, f"Ana likes {what}")
    asked = retrieval_service_pb2.GetContextRequest(user_id="ana", count_access=False)
    await stage.come_back("GetContext", asked)
    asked.count_access = True
    for _ in range(6):
        assert len((await stage.services.retrieval.GetContext(asked)).memories) == 3
    counts = "SELECT access_count FROM hitherto.memory_access"
    await eventually(lambda: rows(stage.conninfo, counts) == [(6,)] * 3, seconds=30)


async def test_the_use_of_memories_is_told_where_none_are_searched(stage: Stage) -> None:
    """D11: a search of messages alone does without what tells it; the list of memories does not."""
    saved = await save(stage.services, "Ana likes tea")
    tell(stage.conninfo, "ana", saved.memory.id)
    asked = retrieval_service_pb2.GetContextRequest(
        user_id="ana", query="tea", scopes=SCOPES[1:2], count_access=False
    )
    await stage.come_back("GetContext", asked)
    held, plain, _ = await whole_contexts(stage, asked)
    assert held == plain
    assert [memory.access_count for memory in held.memories] == [1]


async def test_the_room_for_kept_contexts_counts(stage: Stage) -> None:
    """Also of a user of whom little is known."""
    await save(stage.services, "Ana likes tea")
    asked = retrieval_service_pb2.GetContextRequest(user_id="ana")
    await stage.come_back("GetContext", asked)
    snapshot = stage.pair.snapshots.cached(stage.scope())
    assert snapshot is not None
    assert snapshot.contexts.room == 16 * 1024
    assert snapshot.size >= snapshot.memories.size + snapshot.contexts.room


async def whole_contexts(
    stage: Stage, form: retrieval_service_pb2.GetContextRequest
) -> tuple[Any, Any, list[str]]:
    """The contexts from what is held and by the database, without times and fences; the fences."""
    held, plain = await stage.replies("GetContext", form)
    for leg in (*held.legs, *plain.legs):
        leg.ClearField("duration")
    return held, plain, [found for reply in (held, plain) if (found := _unfenced(reply))]


def tell(conninfo: str, user: str, memory_id: str) -> None:
    """Count a memory as told once more, now."""
    change(
        conninfo,
        "INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count, last_accessed_at)"
        " SELECT tenant_id, user_id, memory_id, 1, clock_timestamp() FROM memories"
        " WHERE user_id = %(user)s AND memory_id::text = %(memory)s"
        " ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE SET"
        " access_count = memory_access.access_count + 1, last_accessed_at = clock_timestamp()",
        user=user,
        memory=memory_id,
    )


async def test_who_writes_reads_it_at_once(stage: Stage) -> None:
    """No read after a write answers with what was before it."""
    await save(stage.services, "Ana likes tea number 0")
    asked = retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="tea", limit=50)
    for number in range(1, 12):
        await stage.both("SearchMemories", asked)
        saved = await save(stage.services, f"Ana likes tea number {number}")
        found = await stage.services.retrieval.SearchMemories(asked)
        assert saved.memory.id in [result.memory.id for result in found.results]
        if number % 3 == 0:
            await stage.both("SearchMemories", asked)
            await forget(stage.services, saved.memory.id)
            found = await stage.services.retrieval.SearchMemories(asked)
            assert saved.memory.id not in [result.memory.id for result in found.results]


@pytest.mark.parametrize(
    ("query", "module", "step"), [("tea", search, "read_results"), ("", listing, "read_whole")]
)
async def test_what_is_forgotten_between_the_steps_of_a_read_is_no_result(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, query: str, module: Any, step: str
) -> None:
    """The database tells first what is found, and then the best of it whole."""
    saved = [await save(stage.services, f"Ana likes {what} tea") for what in ("green", "black")]
    unchanged = getattr(module, step)
    left = [saved[0].memory.id]

    async def meanwhile(*given: Any, **more: Any) -> Any:
        while left:
            await forget(stage.services, left.pop())
        return await unchanged(*given, **more)

    monkeypatch.setattr(module, step, meanwhile)
    found = await stage.pair.reading.SearchMemories(
        retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query=query),
        metadata=[("authorization", f"Bearer {stage.tenant.token}")],
    )
    assert not left
    assert [result.memory.content for result in found.results] == ["Ana likes black tea"]


async def test_memories_of_every_status_are_found_again(stage: Stage) -> None:
    """D8: a snapshot has the current ones only; the database has the forgotten ones as well."""
    gone = await save(stage.services, "Ana likes tea")
    await save(stage.services, "Ana likes tea from Porto")
    await forget(stage.services, gone.memory.id)
    forgotten, active = memory_pb2.MEMORY_STATUS_FORGOTTEN, memory_pb2.MEMORY_STATUS_ACTIVE
    for statuses, expected in (([forgotten], 1), ([forgotten, active], 2), ([active], 1)):
        asked = retrieval_service_pb2.SearchMemoriesRequest(
            user_id="ana", query="tea", statuses=statuses, explain=True
        )
        held, plain = await stage.both("SearchMemories", asked)
        assert held == plain
        assert len(held[0].results) == expected


async def test_tenants_and_users_of_one_name_are_held_apart(pair: Pair) -> None:
    """H4: the same ids, the same question, each their own."""
    stages = [Stage(pair, Tenant()) for _ in range(3)]
    asked = retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="drink")
    for number, stage in enumerate(stages):
        await save(stage.services, f"The favourite drink is number {number}")
    for _ in range(3):
        for number, stage in enumerate(stages):
            (held, _), _ = await stage.both("SearchMemories", asked)
            assert [result.memory.content for result in held.results] == [
                f"The favourite drink is number {number}"
            ]


async def test_who_is_erased_or_changed_is_let_go(stage: Stage) -> None:
    """H2: at the next read, and by a sweep where nobody reads; a return begins anew."""
    asked = partial(retrieval_service_pb2.SearchMemoriesRequest, query="tea", min_relevance=0)
    for user in ("ana", "ben", "cam", "dee"):
        await save(stage.services, f"{user} likes tea", user=user)
        await stage.both("SearchMemories", asked(user_id=user))
        assert stage.held(user)
    await erase(stage.services, "ben")
    await clear(stage.services, user="cam")
    await stage.pair.snapshots.sweep()
    assert [stage.held(user) for user in ("ana", "ben", "dee")] == [True, False, True]
    cleared = stage.pair.snapshots.cached(stage.scope("cam"))
    assert cleared is None or not len(cleared.memories)
    assert not (await stage.services.retrieval.SearchMemories(asked(user_id="ben"))).results
    await choose(stage.services, user="dee", memory_enabled=False)
    off = await stage.services.retrieval.SearchMemories(asked(user_id="dee"))
    assert (list(off.results), off.reason) == ([], "MEMORY_DISABLED")
    assert not stage.held("dee")
    await erase(stage.services)
    told = retrieval_service_pb2.GetContextRequest(user_id="ana")
    assert not (await stage.services.retrieval.GetContext(told)).memories
    assert not stage.held("ana")
    await ask(stage.services, "ReinstateUser")
    assert not (await stage.services.retrieval.SearchMemories(asked(user_id="ana"))).results
    await save(stage.services, "ana likes coffee")
    held, plain = await stage.both("SearchMemories", asked(user_id="ana"))
    assert held == plain
    assert [result.memory.content for result in held[0].results] == ["ana likes coffee"]


async def test_counting_what_was_told_changes_no_revision(stage: Stage) -> None:
    """D11: else every answer would have the next one read anew."""
    await save(stage.services, "Ana likes tea")
    revision = "SELECT revision FROM hitherto.users"
    before = rows(stage.conninfo, revision)
    asked = retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="tea")
    await stage.both("SearchMemories", asked)
    await eventually(lambda: rows(stage.conninfo, "SELECT 1 FROM hitherto.memory_access"))
    assert rows(stage.conninfo, revision) == before
    assert stage.held()
