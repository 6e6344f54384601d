"""Messages and summaries that no job has indexed, as in a database from before the index (D3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from hitherto_extraction.pipeline.backfill import Backfill, Backlog
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.index import NumberedText
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.model_api import ModelRefused
from tests.e2e.indexed import check_words
from tests.integration.upkeep.past import ANA, CANARY, conversation, message
from tests.integration.upkeep.stage import TENANT, Stage

MANY = 600


class Squeamish(OfflineEmbedder):
    """An embedder that refuses every call with one word in it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed, unless the word is there."""
        if any("unspeakable" in text for text in texts):
            raise ModelRefused("not this")
        self.texts += texts
        return await super().embed(texts)


async def many(stage: Stage, user: str, count: int) -> None:
    """A conversation of somebody, of long ago, of so many messages and with a summary."""
    await stage.user(user)
    await stage.rows_of(
        "WITH c AS (INSERT INTO conversations (tenant_id, user_id, conversation_id,"
        " last_message_no, watermark) VALUES (%(tenant)s, %(user)s, 'old', %(count)s, %(count)s))"
        " INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role,"
        " content, said_at, accepted_at) SELECT %(tenant)s, %(user)s, 'old', n, n::text,"
        " (ARRAY['user', 'assistant', 'tool'])[1 + n %% 3], 'word' || n || ' tea', now(),"
        " now() - interval '1 day' FROM generate_series(1, %(count)s) AS n",
        {"tenant": TENANT, "user": user, "count": count},
    )
    await stage.rows_of(
        "INSERT INTO conversation_summaries (tenant_id, user_id, conversation_id, title,"
        " key_topics, covers_to) VALUES (%(tenant)s, %(user)s, 'old', 'Old tea', '{tea}', 1)",
        {"tenant": TENANT, "user": user},
    )


async def states(stage: Stage) -> dict[tuple[str, bool], int]:
    """How many messages there are by state and by whether they have a number."""
    return Counter(
        (state, numbered)
        for state, numbered in await stage.rows(
            "SELECT embedding_state, lexical_no IS NOT NULL FROM messages"
        )
    )


@pytest.mark.parametrize("vectors", [True, False])
async def test_a_database_from_before_is_indexed_in_bounded_batches(
    stage: Stage, superuser_conninfo: str, vectors: bool
) -> None:
    await many(stage, "ana", MANY)
    await many(stage, "bo", 6)
    backlog = Backlog(stage.maintenance, message_vectors=vectors)
    rounds = []
    while done := await backlog.run():
        rounds.append(done)
    assert sum(rounds) == (MANY + 6) * 2 // 3 + 2
    assert max(rounds) <= 400
    assert len(rounds) > 1
    check_words(superuser_conninfo)
    wanted = (MANY + 6) * 2 // 3
    assert await states(stage) == {
        ("pending" if vectors else "none", True): wanted,
        ("none", False): (MANY + 6) // 3,
    }
    assert await stage.rows(
        "SELECT DISTINCT embedding_state, text_version FROM conversation_summaries"
    ) == [("pending", 1)]
    filling = Backfill(stage.maintenance, OfflineEmbedder(), message_vectors=vectors)
    while await filling.run():
        pass
    assert await states(stage) == {
        ("stored" if vectors else "none", True): wanted,
        ("none", False): (MANY + 6) // 3,
    }
    assert await stage.rows("SELECT count(*) FROM message_embeddings") == [(vectors * wanted,)]
    assert await stage.rows("SELECT count(*) FROM summary_embeddings") == [(2,)]


async def test_several_at_once_index_everything_once(stage: Stage, superuser_conninfo: str) -> None:
    """As many replicas have one back-fill each."""
    await many(stage, "ana", 90)
    await many(stage, "bo", 90)
    backlogs = [Backlog(stage.maintenance, message_vectors=True) for _ in range(4)]
    assert sum(await asyncio.gather(*(each.run() for each in backlogs))) == 122
    check_words(superuser_conninfo)


async def test_the_young_the_erased_and_the_short(stage: Stage, superuser_conninfo: str) -> None:
    """A job is waited for; nobody's words are indexed after they left; B2's smallest messages."""
    await many(stage, "gone", 3)
    await stage.rows("UPDATE users SET erased_at = now() WHERE user_id = 'gone'")
    await conversation(stage)
    await message(stage, 1, "young tea", said="14 minutes")
    await message(stage, 2, "👍", said="16 minutes")
    await message(stage, 3, "...", said="16 minutes")
    filling = Backfill(stage.maintenance, OfflineEmbedder())
    while await filling.run():
        pass
    assert await stage.rows(
        "SELECT content, embedding_state, lexical_no, lexical_length FROM messages"
        " WHERE user_id = 'ana' ORDER BY message_no"
    ) == [("young tea", "none", None, 0), ("👍", "none", 1, 1), ("...", "stored", 2, 0)]
    assert await stage.rows("SELECT DISTINCT user_id FROM passage_postings") == [("ana",)]
    check_words(superuser_conninfo)


async def test_a_text_that_is_refused_stands_in_nobodys_way(stage: Stage) -> None:
    """Row 32: each is asked for alone; the one that is refused is found by its words."""
    await conversation(stage)
    for number, content in enumerate(("one tea", "unspeakable tea", "two teas"), 1):
        await message(stage, number, content)
    embedder = Squeamish()
    filling = Backfill(stage.maintenance, embedder)
    while await filling.run():
        pass
    assert await stage.rows("SELECT embedding_state FROM messages ORDER BY message_no") == [
        ("stored",),
        ("refused",),
        ("stored",),
    ]
    assert embedder.texts == ["one tea", "two teas"]


async def test_a_message_that_was_indexed_meanwhile_keeps_its_number(stage: Stage) -> None:
    """A job that read it before the back-fill came leaves no second trace of its words."""
    await conversation(stage)
    await message(stage, 1, f"tea and {CANARY}")
    await message(stage, 2, "tea alone")
    await stage.rows("UPDATE messages SET accepted_at = now() WHERE message_no = 2")
    await Backlog(stage.maintenance, message_vectors=False).run()
    async with stage.write.connection() as connection, connection.transaction():
        counted = [Counter(tea=1), Counter(tea=1, alon=1)]
        numbers = await index.add(connection.of(ANA), {MESSAGES: counted})
        numbered = [
            NumberedText(("c1", message_no), number, terms, "none")
            for message_no, number, terms in zip((1, 2), numbers[MESSAGES], counted, strict=True)
        ]
        assert await index.number(connection.of(ANA), MESSAGES, numbered, model="") == 1
    assert await stage.rows("SELECT lexical_no FROM messages ORDER BY message_no") == [(1,), (3,)]
    held = dict(
        await stage.rows("SELECT term, lexical_nos FROM passage_postings WHERE term <> 'and'")
    )
    assert {term: numbers for term, numbers in held.items() if 2 in numbers} == {}
    assert (held["tea"], held["alon"]) == ([1, 3], [3])
    assert await stage.rows("SELECT texts, last_lexical_no FROM passage_statistics") == [(2, 3)]


async def test_a_vector_that_comes_too_late_is_passed_over(stage: Stage) -> None:
    """Row 57's kin: the message goes while the back-fill embeds it; neither fails."""
    await conversation(stage)
    await message(stage, 1, f"I said {CANARY}.")

    class Slow(OfflineEmbedder):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            assert (await stage.retention(0, 30))["messages"] == 1
            return await super().embed(texts)

    filling = Backfill(stage.maintenance, Slow())
    assert await filling.run() == 1
    assert await stage.rows("SELECT 1 FROM message_embeddings") == []
    assert CANARY not in await stage.dump()
    assert await filling.run() == 0
