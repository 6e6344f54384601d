"""What is held finds what the database finds: the same candidates with the same features."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from hitherto_retrieval.search.corpora.memories import MemoryCorpus
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage import filtered_candidates, memories, memory_candidates, people
from hitherto_retrieval.storage.cached_memories import FRESH, FRESH_PLACES, CachedMemories
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.loading import Loading
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.models import CURRENT_STATUSES, Scope
from hitherto_shared.text.bm25 import NO_SCORES, Scores
from tests.integration.retrieval.questions import Reader, answer
from tests.integration.retrieval.seed import TENANT, Fact, remember

NOW = datetime.now(UTC)
TYPES = ("fact", "goal", "preference", "decision")
NAMES = ("Oslo", "Oslo Bay", "Maren", "Kite")
METADATA: Sequence[Mapping[str, Any]] = (
    {},
    {"channel": "web"},
    {"channel": "web", "urgent": True},
    {"channel": None},
    {"urgent": 1},
    {"channel": "é", "tags": ["a"]},
)


def unit(rng: np.random.Generator, dimensions: int) -> np.ndarray:
    """A vector as the column keeps it."""
    numbers = rng.standard_normal(dimensions)
    return (numbers / np.linalg.norm(numbers)).astype(np.float16).astype(np.float32)


@dataclass
class Person:
    """Somebody with random memories: some alike to the last bit, some without a vector, some not
    current any more."""

    scope: Scope
    ids: Sequence[UUID]
    vectors: Sequence[Any]
    model: tuple[str, int]

    @classmethod
    async def make(cls, conninfo: str, user: str, seed: int, dimensions: int, count: int) -> Person:
        chance, rng = random.Random(seed), np.random.default_rng(seed)
        vectors = [unit(rng, dimensions) for _ in range(max(1, count // 2))]
        model = ("test-model", dimensions)
        days = [NOW - timedelta(days=each) for each in range(12)]
        facts = [
            Fact(
                f"statement {chance.choice('abcdef')} {n}",
                type=chance.choice(TYPES),
                importance=chance.choice((0.2, 0.5, 0.9)),
                confidence=chance.choice(("low", "medium", "high")),
                source=chance.choice(("conversation", "explicit")),
                status=chance.choices(
                    ("active", "achieved", "forgotten", "superseded"), (8, 2, 1, 1)
                )[0],
                tags=chance.sample(("work", "home", "trips"), chance.randrange(3)),
                entities=chance.sample(NAMES, chance.choice((0, 0, 1, 2))),
                conversation_id=chance.choice((None, "c1", "c2")),
                also_said_in=["c3"] * chance.choice((0, 0, 1)),
                metadata=chance.choice(METADATA),
                created_at=chance.choice(days),
                valid_from=chance.choice((*days, NOW + timedelta(days=3))),
                expires_at=chance.choice(
                    (None, None, None, NOW - timedelta(hours=1), NOW + timedelta(days=9))
                ),
                vector=chance.choice((None, *[chance.choice(vectors)] * 5)),
            )
            for n in range(count)
        ]
        ids = await remember(conninfo, user, facts, model=model)
        with psycopg.connect(conninfo) as connection:
            register_vector(connection)
            for memory_id in ids:
                if chance.random() < 0.6:
                    connection.execute(
                        "INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id,"
                        " model, dimensions, embedding) VALUES (%s, %s, %s, %s, %s, %s)",
                        (TENANT, user, memory_id, *model, HalfVector(chance.choice(vectors))),
                    )
                if chance.random() < 0.05:
                    # A vector of earlier words.
                    connection.execute(
                        "UPDATE memories SET text_version = text_version + 1, version = version + 1"
                        " WHERE memory_id = %s",
                        (memory_id,),
                    )
        return cls(Scope(TENANT, user), ids, vectors, model)

    async def cached(self, reader: Database) -> CachedMemories:
        """What a process would hold of them."""
        loading = Loading(self.scope, self.model)
        await reader.run(loading.run, timeout=120)
        snapshot = loading.snapshot()
        assert snapshot is not None
        return snapshot.memories


def random_filters(chance: random.Random) -> Filters:
    """Filters that can be answered from what is held."""
    return Filters(doubtful=chance.random() < 0.6)


def random_question(
    chance: random.Random, rng: np.random.Generator, person: Person, entities: Sequence[UUID]
) -> ItemQuery:
    """What may be looked for, with and without each leg."""
    since = NOW - timedelta(days=chance.randrange(12)) if chance.random() < 0.4 else None
    vector = chance.choice(
        (
            None,
            unit(rng, person.model[1]),
            unit(rng, person.model[1]),
            chance.choice(person.vectors),
        )
    )
    numbers = chance.sample(range(1, len(person.ids) + 4), chance.randrange(0, len(person.ids) + 3))
    return ItemQuery(
        scope=person.scope,
        vector=vector,
        model=person.model[0],
        bm25=Scores.of({number: chance.choice((0.5, 1.0, 3.5)) for number in numbers}),
        entity_ids=chance.sample(list(entities), chance.randrange(len(entities) + 1)),
        since=since,
        until=None if since is None else since + timedelta(days=chance.randrange(1, 5)),
        newest=chance.choice((0, 0, 3)),
        wanted=chance.choice((1, 3, 10, 30)),
        with_source=chance.random() < 0.8,
    )


def as_found(candidates: Sequence[Candidate]) -> list[Any]:
    """All features in one order, with cosines as near as two ways to add them up come."""
    return [
        (
            replace(candidate, cosine=None, source_cosine=None),
            pytest.approx((candidate.cosine, candidate.source_cosine), abs=1e-6),
        )
        for candidate in sorted(candidates, key=lambda candidate: str(candidate.key))
    ]


def told(candidates: Sequence[Candidate]) -> list[Any]:
    """As `as_found`, to compare with it."""
    return [
        (
            replace(candidate, cosine=None, source_cosine=None),
            (candidate.cosine, candidate.source_cosine),
        )
        for candidate in sorted(candidates, key=lambda candidate: str(candidate.key))
    ]


async def quick_or_exact(
    reader: Database, person: Person, sought: ItemQuery, filters: Filters
) -> list[Candidate]:
    """As `MemoryCorpus` looks: quickly, and at everything where that may have missed something."""
    corpus = MemoryCorpus(filters, len(person.ids), UserReads(person.scope))

    async def read(connection: Connection) -> None:
        await ask(connection, *corpus.first(sought))
        await ask(connection, *corpus.second())

    await reader.run(read, timeout=120)
    return corpus.candidates()


async def test_the_same_is_found_of_random_people(reader: Reader) -> None:
    """Whatever is asked: ties, vectors that lack or repeat, what expired, filters and limits."""
    rng, chance = np.random.default_rng(20), random.Random(20)
    compared = 0
    for number, count in enumerate((0, 1, 5, 29, 31, 60, 140)):
        person = await Person.make(reader.superuser, f"user{number}", number, 20, count)
        cached = await person.cached(reader)
        entities = [
            each.entity_id
            for each in await answer(
                reader, people.known_entities(person.scope, named=[], limit=10)
            )
        ]
        for _ in range(60):
            sought = random_question(chance, rng, person, entities)
            filters = random_filters(chance)
            assert cached.can_answer(filters)
            found = told(cached.candidates(sought, filters))
            exact = await answer(reader, filtered_candidates.find(sought, filters))
            assert found == as_found(exact)
            assert found == as_found(await quick_or_exact(reader, person, sought, filters))
            compared += len(found)
    assert compared > 1_000


async def test_many_are_found_by_signs_first(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many memories the database finds slightly less than everything: so does what is held."""
    monkeypatch.setattr(memory_candidates, "CODES_ABOVE", 25)
    monkeypatch.setattr(memory_candidates, "_LEAST_RANKED_AGAIN", 20)
    monkeypatch.setattr(memory_candidates, "_RANKED_AGAIN", 1)
    rng, chance = np.random.default_rng(6), random.Random(6)
    less = 0
    for number, count in enumerate((20, 40, 140)):
        person = await Person.make(reader.superuser, f"user{number}", number, 20, count)
        with psycopg.connect(reader.superuser) as connection:
            connection.execute(
                "DELETE FROM memory_embeddings AS e USING memories AS m"
                " WHERE m.memory_id = e.memory_id AND m.text_version <> e.text_version"
            )
            connection.execute("UPDATE memories SET expires_at = NULL WHERE lexical_no > 20")
        cached = await person.cached(reader)
        assert cached.can_answer(Filters())
        for _ in range(60):
            sought = random_question(chance, rng, person, [])
            filters = Filters() if chance.random() < 0.7 else random_filters(chance)
            found = told(cached.candidates(sought, filters))
            assert found == as_found(await quick_or_exact(reader, person, sought, filters))
            exact = filtered_candidates.find(sought, filters)
            everything: list[Candidate] = await answer(reader, exact)
            less += found != as_found(everything)
    assert less, "signs lose nothing here, so that the comparison proves nothing"


async def test_outdated_vectors_of_many_are_left_to_the_database(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compared by signs there, and push others out."""
    monkeypatch.setattr(memory_candidates, "CODES_ABOVE", 25)
    person = await Person.make(reader.superuser, "ana", 1, 20, 30)
    with psycopg.connect(reader.superuser) as connection:
        connection.execute(
            "UPDATE memories SET text_version = text_version + 1, version = version + 1"
            " WHERE memory_id IN (SELECT e.memory_id FROM memory_embeddings AS e"
            " WHERE e.status = 'active' LIMIT 1)"
        )
    cached = await person.cached(reader)
    assert not cached.can_answer(Filters())
    assert cached.can_answer(Filters(doubtful=False))


async def test_cosines_are_the_databases_own(reader: Reader) -> None:
    """As near as numbers of this precision come, however many dimensions there are."""
    person = await Person.make(reader.superuser, "ana", 3, 1_531, 80)
    cached = await person.cached(reader)
    sought = ItemQuery(person.scope, NO_SCORES, person.vectors[0], "test-model", 80)
    ours = {each.key: each.cosine for each in cached.candidates(sought, Filters())}
    theirs = await answer(reader, filtered_candidates.find(sought, Filters()))
    assert {each.key for each in theirs} == set(ours)
    assert [each.cosine for each in theirs] == pytest.approx(
        [ours[each.key] for each in theirs], abs=1e-6
    )


async def test_what_is_not_near_at_all_is_so_both_ways(reader: Reader) -> None:
    """Vectors of spellings share few numbers: many a sum is 0, and many are equal."""
    embedder = OfflineEmbedder()
    facts = [Fact(f"{'tea oslo trips work'.split()[n % 4]} number {n}") for n in range(120)]
    await remember(reader.superuser, "ana", facts, embedder=embedder)
    model = (embedder.name, embedder.dimensions)
    cached = await Person(Scope(TENANT, "ana"), [], [], model).cached(reader)
    for question in ("tea", "where was it?", "tripping", "日本", "work in oslo"):
        (vector,) = (await embedder.embed([question])).vectors
        sought = ItemQuery(Scope(TENANT, "ana"), NO_SCORES, vector, model[0], 30)
        theirs = await answer(reader, filtered_candidates.find(sought, Filters()))
        near = {each.key: (each.cosine or 0.0) > 0 for each in theirs}
        ours = cached.candidates(sought, Filters())
        assert {each.key: (each.cosine or 0.0) > 0 for each in ours} == near


async def test_what_is_told_is_what_the_database_has(reader: Reader) -> None:
    """Whole, with every field, and with the use that was counted since it is held."""
    person = await Person.make(reader.superuser, "ana", 5, 16, 40)
    cached = await person.cached(reader)
    with psycopg.connect(reader.superuser) as connection:
        connection.execute(
            "INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count,"
            " last_accessed_at) SELECT tenant_id, user_id, memory_id, 3, now() FROM memories"
            " WHERE lexical_no < 20"
        )
    found = await answer(reader, memories.by_ids(person.scope, person.ids))
    theirs = [memory for memory in found if memory.status in CURRENT_STATUSES]
    usage = (await answer(reader, people.user(person.scope, with_usage=True))).usage
    whole = cached.whole(person.ids)
    ours = dict(zip(whole, cached.used(list(whole.values()), usage), strict=True))
    assert ours == {memory.memory_id: memory for memory in theirs}
    assert {memory.access_count for memory in ours.values()} == {0, 3}


async def test_the_top_list_is_the_databases_own(reader: Reader) -> None:
    """D1: whatever is fresh, equal, expired or was told, and however much is wanted."""
    chance = random.Random(9)
    compared = alone = 0
    for number, count in enumerate((0, 1, 7, 30, 90)):
        person = await Person.make(reader.superuser, f"user{number}", number, 8, count)
        with psycopg.connect(reader.superuser) as connection:
            for memory_id in person.ids:
                if chance.random() < 0.5:
                    connection.execute(
                        "INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count,"
                        " last_accessed_at) VALUES (%s, %s, %s, %s, %s)",
                        (
                            TENANT,
                            person.scope.user_id,
                            memory_id,
                            chance.randrange(1, 9),
                            NOW - timedelta(days=chance.randrange(5)),
                        ),
                    )
        cached, partly = await person.cached(reader), await person.cached(reader)
        for limit in (1, 2, 5, 10, 20, 50, 200):
            state = await answer(reader, people.user(person.scope, with_usage=True))
            for fresh in {0, min(5, limit // 2)}:
                theirs = await answer(reader, memories.top(person.scope, limit=limit, fresh=fresh))
                assert cached.top(state.usage, limit=limit, fresh=fresh) == theirs
                # Less usage is asked for where nothing but the list is told.
                used = partly.told_of(limit=limit, fresh=fresh, newest_first=False)
                state_of = people.user(person.scope, with_usage=True, used=used)
                usage = (await answer(reader, state_of)).usage
                assert partly.top(usage, limit=limit, fresh=fresh) == theirs
                alone += used is not None
                compared += len(theirs)
            newest = await answer(reader, memories.newest(person.scope, limit=limit))
            assert cached.newest(state.usage, limit=limit) == newest
            used = partly.told_of(limit=limit, fresh=0, newest_first=True)
            state_of = people.user(person.scope, with_usage=True, used=used)
            usage = (await answer(reader, state_of)).usage
            assert partly.newest(usage, limit=limit) == newest
    assert compared > 400
    assert alone > 10


async def test_it_ends_when_time_changes_it(reader: Reader) -> None:
    """D1, B9: when something expires, or one of the newest is no longer of the last week."""
    person = await Person.make(reader.superuser, "ana", 3, 8, 40)
    cached = await person.cached(reader)
    current = [
        memory
        for memory in await answer(reader, memories.by_ids(person.scope, person.ids))
        if memory.status in CURRENT_STATUSES
        and (memory.expires_at is None or memory.expires_at > NOW)
    ]
    current.sort(key=lambda memory: (memory.created_at, memory.memory_id), reverse=True)
    certain = [memory for memory in current if memory.doubt is None]
    ends = [each.created_at + FRESH for each in [*current[:FRESH_PLACES], *certain[:FRESH_PLACES]]]
    ends += [each.expires_at for each in current if each.expires_at is not None]
    assert cached.until == min(each for each in ends if each > datetime.now(UTC))


@pytest.mark.parametrize(
    "filters",
    [
        Filters(statuses=["archived"], only_current=False),
        Filters(metadata={"a": "b"}),
        Filters(entity="Oslo"),
        Filters(types=["fact"]),
        Filters(sealed_ids=[]),
    ],
)
async def test_what_is_not_held_is_left_to_the_database(reader: Reader, filters: Filters) -> None:
    person = await Person.make(reader.superuser, "ana", 3, 8, 4)
    assert not (await person.cached(reader)).can_answer(filters)
