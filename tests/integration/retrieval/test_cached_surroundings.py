"""What is held around memories is what the database tells of them, in its order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from hitherto_retrieval.storage import conversations, loading, passages, people
from hitherto_retrieval.storage.loading import Loading
from hitherto_retrieval.storage.snapshot import Snapshot
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Scope
from tests.integration.retrieval.questions import ANA, Reader, answer
from tests.integration.retrieval.seed import TENANT, Fact, remember, summarise
from tests.integration.retrieval.seed_passages import Paper, hand_over

NOW = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = ("Oslo", "oslo bank", "Éva", "Zoë", "東京", "Kite", "Ångström", "Maren", "An")


async def cached(reader: Database, scope: Scope = ANA) -> Snapshot | None:
    """What a process would hold."""
    found = Loading(scope, ("test-model", 8))
    await reader.run(found.run, timeout=120)
    return found.snapshot()


async def somebody(conninfo: str) -> None:
    """Store a user with entities that are mentioned equally often and conversations of one time."""
    chance = random.Random(4)
    facts = [
        Fact(f"statement {n}", entities=chance.sample(NAMES, chance.randrange(4)))
        for n in range(40)
    ]
    await remember(conninfo, "ana", facts, model=("test-model", 8))
    for n in range(30):
        await summarise(
            conninfo,
            "ana",
            f"{chance.choice('abAB_é')}-{n}",
            f"About {n}",
            said_at=NOW - timedelta(days=chance.randrange(5)),
        )


@pytest.mark.parametrize("facts", ['{"personal": {"name": "Ana"}}', '{"personal": {"name": 7}}'])
async def test_profile_and_preferences(reader: Reader, facts: str) -> None:
    await somebody(reader.superuser)
    with psycopg.connect(reader.superuser) as connection:
        connection.execute(
            "INSERT INTO profiles (tenant_id, user_id, summary, facts, version)"
            " VALUES (%s, 'ana', 'Likes tea', %s, 1)",
            [TENANT, facts],
        )
        for key in ("b", "a", "c"):
            connection.execute(
                "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence,"
                " observations) VALUES (%s, 'ana', 'topics', %s, 'true', 0.5, 1)",
                [TENANT, key],
            )
    around = await cached(reader)
    assert around is not None
    assert around.profile == await answer(reader, people.profile(ANA))
    assert around.preferences == await answer(reader, people.preferences(ANA))
    looked_up = await answer(reader, people.user(ANA, named=[]))
    assert around.own_name == looked_up.own_name != ""
    assert around.statistics == await answer(reader, passages.statistics(ANA))


async def test_entities_and_conversations(reader: Reader) -> None:
    """Whatever is named and however much is wanted; equals in the order of the collation."""
    await somebody(reader.superuser)
    around = await cached(reader)
    assert around is not None
    chance = random.Random(5)
    for limit in (1, 3, 10, 100):
        for _ in range(8):
            named = chance.sample(("oslo", "kite", "eva", "zoe", "東京", "nobody"), 2)
            named = chance.choice(([], named))
            known = people.known_entities(ANA, named=named, limit=limit)
            assert around.known(named=named, limit=limit) == await answer(reader, known)
            looked_up = await answer(reader, people.user(ANA, named=named))
            assert around.named(named) == looked_up.entities
            recent = await answer(reader, conversations.recent(ANA, first=None, limit=30))
            first = chance.choice((None, "nobody", chance.choice(recent).conversation_id))
            asked = conversations.recent(ANA, first=first, limit=limit)
            assert around.recent(first=first, limit=limit) == await answer(reader, asked)


async def test_an_entity_that_only_a_document_mentions_ends_with_it(reader: Reader) -> None:
    await hand_over(reader.superuser, "ana", [Paper("files", ["A word"], mentions=["Lan"])])
    now = datetime.now(UTC).replace(microsecond=0)
    for expires_at, until, known in (
        (None, None, ["Lan"]),
        (now + timedelta(hours=1), now + timedelta(hours=1), ["Lan"]),
        (now - timedelta(hours=1), None, []),
    ):
        with psycopg.connect(reader.superuser) as connection:
            connection.execute("UPDATE documents SET expires_at = %s", [expires_at])
        around = await cached(reader)
        assert around is not None
        assert around.until == until
        assert [each.name for each in around.known(named=[], limit=10)] == known


async def test_too_much_is_not_held(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    await somebody(reader.superuser)
    monkeypatch.setattr(loading, "MOST_SUMMARIES", 29)
    assert await cached(reader) is None
    monkeypatch.setattr(loading, "MOST_SUMMARIES", 30)
    assert await cached(reader) is not None
    monkeypatch.setattr(loading, "MOST_ENTITIES", 3)
    assert await cached(reader) is None
