"""Messages and summaries that are held are found as the database finds them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg
import pytest

from hitherto_retrieval.search.corpora.passages import MessageCorpus, TextCorpus
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage import cached_passages
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.loading import Loading
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Answered, Statement, ask
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Summary
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import Reader, answer
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import Outline, Turn, converse, sum_up
from tests.integration.retrieval.test_cached_memories import Person, unit

NOW = datetime.now(UTC)
CONVERSATIONS = ("c1", "c2", "é-3", "B", "a")
DIMENSIONS = 24


async def talker(conninfo: str, user: str, seed: int, count: int) -> Person:
    """Somebody with random messages, summaries, and memories made of some of the messages."""
    person = await Person.make(conninfo, user, seed, DIMENSIONS, count)
    chance = random.Random(seed)
    days = [NOW - timedelta(days=each) for each in range(9)]
    vectors: list[Any] = [None, *person.vectors, *person.vectors]
    said = {
        conversation: [
            Turn(
                f"{chance.choice('abc')} {n}",
                chance.choices(("user", "assistant", "tool", "system"), (5, 3, 1, 1))[0],
                chance.choice(("", "Minh")),
                said_at=chance.choice(days),
                metadata=chance.choice(({}, {"channel": "web"})),
                vector=chance.choice(vectors),
            )
            for n in range(chance.randrange(1, count + 2))
        ]
        for conversation in CONVERSATIONS
    }
    await converse(conninfo, user, said, model=person.model)
    await sum_up(
        conninfo,
        user,
        [
            Outline(
                conversation,
                f"about {chance.choice('abc')}",
                said_at=chance.choice((None, *days)),
                vector=chance.choice(vectors),
                stale=chance.random() < 0.2,
            )
            for conversation in (*CONVERSATIONS, *(f"s{n}" for n in range(count)))
        ],
        model=person.model,
    )
    with psycopg.connect(conninfo) as connection:
        for memory_id in person.ids:
            if chance.random() < 0.1:
                connection.execute(
                    "UPDATE memories SET status = 'quarantined' WHERE memory_id = %s"
                    " AND status = 'active'",
                    [memory_id],
                )
            if chance.random() < 0.1:
                connection.execute(
                    "UPDATE memories SET status = 'contradicted', valid_to = valid_from,"
                    " superseded_by = gen_random_uuid() WHERE memory_id = %s AND status = 'active'",
                    [memory_id],
                )
            for conversation in chance.sample(CONVERSATIONS, chance.randrange(3)):
                connection.execute(
                    "INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id,"
                    " message_id) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (TENANT, user, memory_id, conversation, f"m{chance.randrange(1, count + 3)}"),
                )
    return person


async def at_hand(reader: Database, person: Person) -> UserReads:
    """What a process holds of somebody."""
    loading = Loading(person.scope, person.model)
    await reader.run(loading.run, timeout=120)
    snapshot = loading.snapshot()
    assert snapshot is not None
    snapshots: Any = SimpleNamespace(cached=lambda scope: snapshot, of=lambda *state: snapshot)
    reads = UserReads(person.scope, None, snapshots)
    assert reads.confirming is not None
    reads.confirm(await answer(reader, reads.confirming), reader)
    return reads


def is_cached(*statements: Statement[Any]) -> bool:
    """Whether there is nothing to ask."""
    return all(isinstance(each, Answered) for each in statements)


def random_query(chance: random.Random, rng: np.random.Generator, person: Person) -> ItemQuery:
    since = NOW - timedelta(days=chance.randrange(9)) if chance.random() < 0.3 else None
    own = [chance.choice(person.vectors)] if person.vectors else []
    numbers = chance.sample(range(1, 120), chance.randrange(60))
    return ItemQuery(
        person.scope,
        Scores.of({each: chance.choice((0.5, 1.0, 3.5)) for each in numbers}),
        vector=chance.choice((None, unit(rng, DIMENSIONS), unit(rng, DIMENSIONS), *own)),
        model=person.model[0],
        wanted=chance.choice((1, 3, 10, 30)),
        since=since,
        until=since and since + timedelta(days=chance.randrange(1, 4)),
        newest=chance.choice((0, 0, 4)),
    )


def summaries(filters: PassageFilters, reads: UserReads) -> TextCorpus:
    return TextCorpus("summary", filters, reads)


def random_filters(chance: random.Random) -> PassageFilters:
    """Filters that can be answered from what is held; often none."""
    if chance.random() < 0.5:
        return PassageFilters()
    return PassageFilters(
        created_after=NOW - timedelta(days=chance.randrange(9)) if chance.random() < 0.4 else None,
        created_before=NOW - timedelta(days=chance.randrange(5)) if chance.random() < 0.4 else None,
        source_types=["gmail"] if chance.random() < 0.2 else None,
    )


def features(found: Sequence[Candidate]) -> list[Any]:
    """All features, those that are added up apart."""
    return [
        (replace(each, cosine=None, fact_cosine=None), (each.cosine, each.fact_cosine))
        for each in sorted(found, key=lambda each: str(each.key))
    ]


async def test_the_same_is_found_of_random_people(reader: Reader) -> None:
    """Whatever is asked: times, filters, what was said around, and what was learnt from it."""
    rng, chance = np.random.default_rng(3), random.Random(3)
    compared = 0
    for number, count in enumerate((0, 2, 9, 40)):
        person = await talker(reader.superuser, f"user{number}", number, count)
        cached = await at_hand(reader, person)
        for _ in range(50):
            query, filters = random_query(chance, rng, person), random_filters(chance)
            numbers = chance.sample(range(1, 60), 20)
            learnt = Scores.of({each: chance.choice((0.5, 2.0)) for each in numbers})
            for corpus in (partial(MessageCorpus, learnt=learnt), summaries):
                ours = corpus(filters, cached)
                assert is_cached(*ours.first(query))
                assert is_cached(*ours.second())
                theirs = corpus(filters, UserReads(person.scope))
                await _asked(reader, theirs, query)
                found = features(theirs.candidates())
                near = [(each, pytest.approx(sums, abs=1e-6)) for each, sums in found]
                assert features(ours.candidates()) == near
                compared += len(found)
    assert compared > 2_000


async def _asked(reader: Database, corpus: TextCorpus, query: ItemQuery) -> None:
    async def read(connection: Connection) -> None:
        await ask(connection, *corpus.first(query))
        await ask(connection, *corpus.second())

    await reader.run(read, timeout=120)


async def test_what_is_told_is_what_the_database_has(reader: Reader) -> None:
    """Whole messages and summaries, and what a prompt must know of them."""
    person = await talker(reader.superuser, "ana", 7, 40)
    cached, database = await at_hand(reader, person), UserReads(person.scope)
    said = [(conversation, number) for conversation in CONVERSATIONS for number in range(45)]
    about = [*CONVERSATIONS, "s1", "s7", "nobody"]
    asked: Sequence[tuple[Kind, Sequence[Key]]] = (("message", said), ("summary", about))
    for kind, keys in asked:
        theirs = await answer(reader, database.whole(kind, keys))
        assert theirs
        assert is_cached(cached.whole(kind, keys))
        assert cached.whole(kind, keys).answer == theirs
    assert any(each.withheld for each in theirs.values() if isinstance(each, Summary))
    caveats = await answer(reader, database.caveats(said))
    assert caveats.withheld
    assert caveats.until
    assert cached.caveats(said).answer == caveats
    whole_ones = cached.whole("message", said).answer
    stored = [key for key in said if key in whole_ones]
    answered = await answer(reader, database.answered(stored))
    assert answered
    assert cached.answered(stored).answer == answered


async def test_too_many_messages_are_left_to_the_database(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await talker(reader.superuser, "ana", 7, 12)
    monkeypatch.setattr("hitherto_retrieval.storage.loading.MOST_MESSAGES", 5)
    cached = await at_hand(reader, person)
    assert not is_cached(cached.whole("message", [("c1", 1)]))
    assert not is_cached(cached.caveats([("c1", 1)]))
    assert not is_cached(cached.answered([("c1", 1)]))
    query = random_query(random.Random(1), np.random.default_rng(1), person)
    corpus = MessageCorpus(PassageFilters(), cached)
    assert not is_cached(*corpus.first(query))
    assert not cached.has_passages("message", PassageFilters())


@pytest.mark.parametrize(
    "filters",
    [
        PassageFilters(metadata={"a": "b"}),
        PassageFilters(stored_by=NOW),
        PassageFilters(entity="Oslo"),
        PassageFilters(conversation_id="c1"),
    ],
)
def test_what_is_not_held_is_left_to_the_database(filters: PassageFilters) -> None:
    assert not cached_passages.can_filter(filters)
