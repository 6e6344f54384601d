"""What is sealed reads as everything else does, and stays closed without its key (H3; D3, D9)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import retrieval_service_pb2, search_pb2
from hitherto_retrieval.storage import sealed_items
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.encryption.rows import MEMORY
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.identifiers import uuid7
from tests.e2e.conftest import Services, StartServices
from tests.e2e.methods import ask
from tests.e2e.sealing import ENCRYPTING, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.integration.retrieval.seed import Fact, remember, summarise
from tests.integration.retrieval.seed_passages import Turn
from tests.integration.retrieval.seed_sealed import (
    hide,
    hide_profile,
    hide_turns,
    words_of,
)
from tests.integration.retrieval.versions import Story
from tests.rows import inserting
from tests.tenants import tenant_of

pb = retrieval_service_pb2
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
CLEAR = [
    Fact("Ana lives in Porto", importance=0.9, created_at=NOW - 9 * DAY),
    Fact("Ana writes Node.js services", importance=0.3, created_at=NOW - 8 * DAY),
]
SEALED = [
    Fact(
        "Ana takes lithium against migraine",
        type="personal",
        importance=0.8,
        tags=["health"],
        metadata={"ward": 3.0, "open": True},
        created_at=NOW - 7 * DAY,
    ),
    Fact("Chị Lan bị dị ứng đậu phộng", type="personal", created_at=NOW - 6 * DAY),
    Fact("秘密の猫を飼っています", type="personal", created_at=NOW - 5 * DAY),
    Fact("The secret sign is 🦊", type="personal", created_at=NOW - 4 * DAY),
    Fact(
        "Ana saw Doctor Weiss",
        type="personal",
        importance=0.4,
        created_at=NOW - 3 * DAY,
        valid_from=datetime(2026, 3, 10, 12, tzinfo=UTC),
    ),
    Fact("Ana was in Clinic Nord", type="personal", status="forgotten", created_at=NOW - DAY),
    Fact("Ana waits for an X-ray", type="personal", expires_at=NOW - DAY, created_at=NOW - 2 * DAY),
]
CURRENT = SEALED[:5]


SERVICE_SETTINGS = ENCRYPTING


@pytest.fixture
async def key(services: Services) -> UserKey:
    return await keys_of(services.folder).make(tenant_of(services.conninfo), "ana")


@pytest.fixture
async def ids(key: UserKey, tenant_conninfo: str) -> dict[str, str]:
    """Ana's memories, clear and sealed: their ids by what they say."""
    embedder = OfflineEmbedder()
    clear = await remember(tenant_conninfo, "ana", CLEAR, embedder=embedder)
    sealed = await hide(tenant_conninfo, key, SEALED, embedder=embedder)
    return {
        fact.content: str(memory_id)
        for fact, memory_id in zip([*CLEAR, *SEALED], [*clear, *sealed], strict=True)
    }


async def search(
    services: Services, query: str = "", user: str = "ana", **fields: Any
) -> retrieval_service_pb2.SearchMemoriesResponse:
    # What is found is compared, not only what answers.
    request: dict[str, Any] = {"user_id": user, "query": query, "min_relevance": 0.0, **fields}
    return await services.retrieval.SearchMemories(pb.SearchMemoriesRequest(**request))


async def listed(
    services: Services, user: str = "ana", **fields: Any
) -> retrieval_service_pb2.ListMemoriesResponse:
    found: retrieval_service_pb2.ListMemoriesResponse
    found = await ask(services, "ListMemories", user_id=user, page_size=100, **fields)
    assert found.total_size == len(found.memories)
    return found


async def context(
    services: Services, query: str = "", **fields: Any
) -> retrieval_service_pb2.GetContextResponse:
    return await services.retrieval.GetContext(
        pb.GetContextRequest(user_id="ana", query=query, **fields)
    )


def contents(found: Any) -> list[str]:
    if isinstance(found, retrieval_service_pb2.SearchMemoriesResponse):
        return [result.memory.content for result in found.results]
    return [memory.content for memory in found.memories]


def leg(
    found: retrieval_service_pb2.SearchMemoriesResponse | retrieval_service_pb2.GetContextResponse,
    name: str = "sealed",
) -> search_pb2.LegReport:
    return next(leg for leg in found.legs if leg.name == name)


FOUND = [
    ("lithium", SEALED[0]),
    ("against which illness does Ana take lithium?", SEALED[0]),
    ("đậu phộng", SEALED[1]),
    ("di ung dau phong", SEALED[1]),
    ("猫", SEALED[2]),
    ("秘密の猫", SEALED[2]),
    ("🦊", SEALED[3]),
    ("Porto", CLEAR[0]),
]
FILTERS: list[tuple[dict[str, Any], list[Fact]]] = [
    ({"tags": ["health", "other"]}, [SEALED[0]]),
    ({"tags": ["other"]}, []),
    ({"metadata_filter": {"ward": 3}}, [SEALED[0]]),
    ({"metadata_filter": {"ward": 3, "open": True}}, [SEALED[0]]),
    ({"metadata_filter": {"open": 1}}, []),
    ({"created_after": NOW - 3.5 * DAY}, [SEALED[4]]),
    ({"created_before": NOW - 7.5 * DAY}, CLEAR),
]


async def test_h3_sealed_memories_are_found_beside_clear_ones(
    services: Services, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for query, best in FOUND:
        found = await search(services, query, limit=20, explain=True)
        assert contents(found)[0] == best.content, query
        assert set(contents(found)) == {fact.content for fact in [*CLEAR, *CURRENT]}
        assert [result.memory.id for result in found.results] == [
            ids[content] for content in contents(found)
        ]
        adds_up(found)
        top = found.results[0]
        assert top.breakdown["keyword"] > 0
        assert top.breakdown["semantic"] > 0
        assert {"semantic", "keyword"} <= set(top.matched_legs)
        assert (leg(found).state, leg(found).candidates) == (search_pb2.LEG_STATE_RAN, len(CURRENT))
        assert leg(found).reason == ""
        assert not found.degraded

    # In searches, in searches for nothing, and in lists, with their totals.
    for filters, expected in FILTERS:
        wanted = {fact.content for fact in expected}
        assert set(contents(await search(services, "Ana", limit=20, **filters))) == wanted, filters
        assert set(contents(await search(services, limit=20, **filters))) == wanted, filters
        assert set(contents(await listed(services, **filters))) == wanted, filters

    # Near in meaning without a word in common: by the caller's own vector of the very words.
    vector = (await OfflineEmbedder().embed([SEALED[4].content])).vectors[0]
    found = await search(services, query_embedding=list(map(float, vector)), limit=3, explain=True)
    top, *others = found.results
    assert (top.memory.content, top.breakdown["keyword"]) == (SEALED[4].content, 0)
    assert all(top.breakdown["semantic"] > each.breakdown["semantic"] for each in others)

    found = await search(services, "lithium migraine", ranking="weighted", explain=True)
    assert contents(found)[0] == SEALED[0].content
    assert "fulltext" in found.results[0].matched_legs
    adds_up(found)
    found = await search(services, "what was in March 2026?", limit=1)
    assert contents(found) == [SEALED[4].content]
    assert "temporal" in found.results[0].matched_legs
    found = await search(services, "my most recent memories", limit=2)
    assert contents(found) == [SEALED[3].content, SEALED[2].content]

    one = (await ask(services, "GetMemory", memory_id=ids[SEALED[0].content])).memory
    assert (one.content, list(one.tags), one.sensitive) == (SEALED[0].content, ["health"], True)
    assert dict(one.metadata) == {"ward": 3.0, "open": True}
    everything = [*CLEAR, *CURRENT]
    assert contents(await listed(services)) == [f.content for f in reversed(everything)]

    # Only the newest are compared, which is said.
    monkeypatch.setattr(sealed_items, "MEMORIES", 2)
    found = await search(services, "🦊 lithium", limit=1)
    assert contents(found) == [SEALED[3].content]
    assert leg(found).candidates == 2
    assert "newest" in leg(found).reason
    found = await search(services, tags=["health"])
    assert "newest" in leg(found).reason
    assert leg(await search(services)).reason == ""


def adds_up(found: retrieval_service_pb2.SearchMemoriesResponse) -> None:
    for result in found.results:
        assert sum(result.breakdown.values()) == pytest.approx(result.score, abs=1e-6)


async def test_h3_what_was_said_and_what_it_came_to(services: Services, key: UserKey) -> None:
    """Nothing clear is held of this user: the indexes are empty."""
    turns = [Turn("Tôi bị đau đầu", name="Ana"), Turn("Kể thêm đi 🦊", role="assistant")]
    hide_turns(services.conninfo, key, "c1", turns, summary="migraine")
    scopes = [search_pb2.SEARCH_SCOPE_MESSAGES, search_pb2.SEARCH_SCOPE_SUMMARIES]
    said = await search(services, "đau đầu", scopes=scopes[:1], explain=True)
    assert [r.message.content for r in said.results] == ["Tôi bị đau đầu"]
    assert (said.results[0].message.id, said.results[0].message.name) == ("m1", "Ana")
    adds_up(said)
    assert leg(said, "episodic").candidates == 1
    summed = await search(services, "migraine", scopes=scopes, excerpt_messages=1)
    assert [r.summary.summary for r in summed.results] == ["migraine"]
    assert summed.results[0].summary.title == "About migraine"
    words = [turn.content for turn in turns]
    around = await search(services, "đau đầu", scopes=scopes, excerpt_messages=1)
    assert [m.content for m in around.results[0].excerpt] == words

    whole = await ask(services, "GetConversation", conversation_id="c1")
    assert [m.content for m in whole.messages] == words
    assert whole.summary.title == "About migraine"
    await summarise(services.conninfo, "ana", "c2", "clear", said_at=NOW - DAY)
    page = await ask(services, "ListConversations")
    assert [c.summary for c in page.conversations] == ["migraine", "clear"]
    recent = await ask(services, "GetRecentConversations", include_messages=True)
    assert [m.content for m in recent.conversations[0].messages] == words
    suggested = await ask(services, "GetSuggestions")
    assert list(suggested.suggestions) == ["Ask again about migraine"]


class TestContext:
    async def test_h3_every_section(
        self, services: Services, key: UserKey, ids: dict[str, str]
    ) -> None:
        found = await context(services)
        assert set(contents(found)) == {fact.content for fact in [*CLEAR, *CURRENT]}
        assert (leg(found).state, leg(found).candidates) == (search_pb2.LEG_STATE_RAN, len(CURRENT))
        named = [{"id": ids[SEALED[2].content], "relevance": 0.75}]
        hide_turns(
            services.conninfo,
            key,
            "c1",
            [Turn("What do I take?"), Turn("Lithium.", role="assistant", context_items=named)],
            summary="migraine",
        )
        hide_profile(services.conninfo, key, {"summary": "A patient", "facts": {"ward": "Nord"}})
        found = await context(services, "lithium", conversation_id="c1", max_tokens=4000)
        assert set(contents(found)) == {fact.content for fact in [*CLEAR, *CURRENT]}
        assert found.relevant[0].memory.content == SEALED[0].content
        (previous,) = found.previous_items
        assert (previous.memory.content, previous.score) == (SEALED[2].content, 0.75)
        assert [c.title for c in found.conversations] == ["About migraine"]
        alone = (await ask(services, "GetProfile")).profile
        (listed,) = (await services.retrieval.ListProfiles(pb.ListProfilesRequest())).profiles
        for profile in (found.profile, alone, listed):
            assert (profile.summary, profile.department) == ("A patient", "sales")
            assert dict(profile.facts) == {"ward": "Nord"}
        for words in (SEALED[0].content, SEALED[2].content, "A patient"):
            assert words in found.prompt_block
        assert leg(found).state == search_pb2.LEG_STATE_RAN
        assert not found.degraded

    async def test_who_has_nothing_sealed_is_not_degraded(self, services: Services) -> None:
        """Who never decided hears of no such leg; who turned it on or off once needs no key."""
        await remember(services.conninfo, "ana", CLEAR, embedder=OfflineEmbedder())
        for decided in (False, True):
            if decided:
                write(services.conninfo, "UPDATE users SET encrypt_sensitive = false")
            for found in (await search(services, "Porto"), await context(services, "Porto")):
                assert CLEAR[0].content in contents(found)
                assert decided or "sealed" not in {leg.name for leg in found.legs}
                assert not found.degraded
        assert set(contents(await listed(services))) == {fact.content for fact in CLEAR}


class TestOtherTimes:
    async def test_h3_of_history_and_other_times(self, services: Services, key: UserKey) -> None:
        """C5, D9: what a sealed memory said is told by its sealed versions."""
        first = Fact("Ana takes lithium", type="personal", created_at=NOW - 9 * DAY)
        (memory_id,) = await hide(services.conninfo, key, [first], embedder=OfflineEmbedder())
        later = {**words_of(first), "content": "Ana takes valproate"}
        change_words(services.conninfo, key, memory_id, later, at=NOW - 5 * DAY)
        hide_profile(services.conninfo, key, {"summary": "well"}, {"summary": "ill"})
        then = NOW - 7 * DAY
        past = await search(services, "lithium", known_at=then, explain=True)
        assert contents(past) == ["Ana takes lithium"]
        assert past.results[0].breakdown["keyword"] > 0
        assert sum(past.results[0].breakdown.values()) == pytest.approx(past.results[0].score)
        assert contents(await search(services, "valproate")) == ["Ana takes valproate"]
        assert contents(await listed(services, known_at=then)) == ["Ana takes lithium"]
        assert contents(await context(services, "lithium", known_at=then)) == ["Ana takes lithium"]
        events = await ask(services, "GetMemoryHistory", memory_id=str(memory_id))
        newest = events.events[0]
        assert (newest.before["content"], newest.after["content"]) == (
            "Ana takes lithium",
            "Ana takes valproate",
        )
        assert set(newest.after) == {"content"}
        profile = await ask(services, "GetProfileHistory")
        assert [dict(event.after) for event in profile.events] == [
            {"summary": "ill"},
            {"summary": "well"},
        ]
        assert dict(profile.events[0].before) == {"summary": "well"}


class TestWithoutTheKey:
    @pytest.mark.parametrize("wrong", [False, True])
    async def test_h3_what_is_sealed_is_left_out_and_said(
        self,
        services: Services,
        start_services: StartServices,
        key: UserKey,
        ids: dict[str, str],
        wrong: bool,
    ) -> None:
        """Skipped where there is no key at all; degraded where there is one that does not open."""
        hide_turns(services.conninfo, key, "c1", [Turn("Hallo")], summary="migraine")
        await summarise(services.conninfo, "ana", "c2", "clear", said_at=NOW - DAY)
        hide_profile(services.conninfo, key, {"summary": "A patient"})
        settings: dict[str, Any] = {"encryption_key": "0b" * 32} if wrong else {}
        state = search_pb2.LEG_STATE_FAILED if wrong else search_pb2.LEG_STATE_SKIPPED
        clear = {fact.content for fact in CLEAR}
        async with start_services(**settings) as blind:
            for found in (
                await search(blind, "lithium in Porto", limit=20),
                await search(blind, "in March 2026", limit=20),
                await search(blind, limit=20),
                await context(blind, "lithium in Porto"),
                told := await context(blind),
            ):
                assert set(contents(found)) == clear
                assert leg(found).state == state
                assert leg(found).reason
                assert found.degraded == wrong
            assert [c.summary for c in told.conversations] == ["clear"]
            assert told.profile.summary == ""
            assert set(contents(await listed(blind))) == clear
            assert contents(await listed(blind, tags=["health"])) == []
            page = await ask(blind, "ListConversations")
            assert [c.summary for c in page.conversations] == ["clear"]
            assert page.total_size == 1
            profiles = await ask(blind, "ListProfiles")
            assert (list(profiles.profiles), profiles.total_size) == ([], int(wrong))
            for refused in (
                ask(blind, "GetMemory", memory_id=ids[SEALED[0].content]),
                ask(blind, "GetConversation", conversation_id="c1"),
                ask(blind, "GetProfile"),
            ):
                refusal = await refusal_of(refused)
                assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
                assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"

    async def test_h3_a_list_of_profiles_fails_while_a_key_cannot_be_read(
        self, services: Services, key: UserKey
    ) -> None:
        """It would lack people whom its total counts, and who are there again a moment later."""
        others = await keys_of(services.folder).make(key.tenant_id, "bo")
        files = set(key_files(services.folder))
        third = await keys_of(services.folder).make(key.tenant_id, "chi")
        for each in (key, others, third):
            hide_profile(services.conninfo, each, {"summary": f"of {each.user_id}"})
        listed = await ask(services, "ListProfiles")
        assert [each.summary for each in listed.profiles] == ["of ana", "of bo", "of chi"]
        (file,) = set(key_files(services.folder)) - files
        file.unlink()
        file.symlink_to(file)  # which is opened by nobody, not even by root
        refusal = await refusal_of(ask(services, "ListProfiles"))
        assert refusal.code is grpc.StatusCode.UNAVAILABLE
        assert refusal.reason == "KEY_SERVICE_UNAVAILABLE"


class TestBrokenSeals:
    async def test_h3_a_changed_row_is_left_out(
        self,
        services: Services,
        key: UserKey,
        ids: dict[str, str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        write(
            services.conninfo,
            "UPDATE memories SET sealed = set_byte(sealed, 20, 255 - get_byte(sealed, 20))"
            " WHERE memory_id = %s",
            ids[SEALED[0].content],
        )
        with caplog.at_level(logging.ERROR, logger="hitherto.sealed"):
            found = await search(services, "lithium", limit=20)
        assert set(contents(found)) == {fact.content for fact in [*CLEAR, *CURRENT[1:]]}
        assert (leg(found).state, leg(found).candidates) == (search_pb2.LEG_STATE_RAN, 4)
        assert leg(found).reason.startswith("1 left out")
        assert not found.degraded
        (record,) = [r for r in caplog.records if r.name == "hitherto.sealed"]
        assert ids[SEALED[0].content] in str(record.__dict__)
        assert "lithium" not in str(record.__dict__)
        told = await context(services, "lithium")
        assert SEALED[0].content not in contents(told)
        assert leg(told).reason.startswith("1 left out")
        refusal = await refusal_of(ask(services, "GetMemory", memory_id=ids[SEALED[0].content]))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "SEAL_BROKEN"

    async def test_h3_an_earlier_version_does_not_stand_in_for_the_present_one(
        self, services: Services, key: UserKey
    ) -> None:
        """What was true of a profile is not put back by a copy in the database."""
        before, now = {"summary": "Lives in Porto."}, {"summary": "Lives in Huế."}
        hide_profile(services.conninfo, key, before, now)
        assert (await ask(services, "GetProfile")).profile.summary == now["summary"]
        write(
            services.conninfo,
            "UPDATE profiles SET sealed = (SELECT sealed FROM profile_versions WHERE version = 1)",
        )
        refusal = await refusal_of(ask(services, "GetProfile"))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "SEAL_BROKEN"


def write(conninfo: str, statement: str, *values: Any) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statement.encode(), values)


def change_words(
    conninfo: str, key: UserKey, memory_id: Any, words: dict[str, Any], *, at: datetime
) -> None:
    """The next version of a sealed memory, without a vector of its new words."""
    sealed = key.seal(words, MEMORY.place(memory_id))
    Story(conninfo, key.user_id).change(memory_id, at, text_version=2, sealed=sealed)
    row = {
        "tenant_id": key.tenant_id, "user_id": key.user_id, "event_id": uuid7(),
        "subject": "memory", "memory_id": memory_id, "action": "updated", "version": 2,
        "actor": "ana", "reason": "",
    }  # fmt: skip
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(inserting("history", row), row)
