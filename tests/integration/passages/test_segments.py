"""The postings of a term, in segments that are extended, split, emptied and begun again."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from hitherto_extraction.pipeline.backfill import Backfill, Backlog
from hitherto_extraction.storage import keyword_index, users
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import PassageCorpus
from hitherto_extraction.storage.corpora.index import NumberedText
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.keyword_index import SEGMENT
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.model_api import ModelRefused
from tests.e2e.indexed import check_words
from tests.integration.upkeep.past import ANA, CANARY, conversation, message
from tests.integration.upkeep.stage import TENANT, Stage

Postings = dict[str, list[tuple[int, int, int]]]

_MEMORIES = "SELECT term, lexical_nos, frequencies, lengths FROM postings"
_PASSAGES = """
SELECT corpus || ' ' || term, lexical_nos, frequencies, lengths FROM passage_postings
"""


async def stored(stage: Stage, statement: str) -> Postings:
    """What the index holds by term, once each segment was found in order."""
    found: Postings = {}
    for term, *columns in await stage.rows(statement):
        segment = list(zip(*columns, strict=True))
        assert 0 < len(segment) <= SEGMENT
        assert columns[0] == sorted(columns[0])
        found.setdefault(term, []).extend(segment)
    return {term: sorted(those) for term, those in found.items()}


def expected(texts: Mapping[int, Counter[str]], of: str = "") -> Postings:
    """The postings of texts by number."""
    found: Postings = {}
    for number, terms in sorted(texts.items()):
        for term, count in terms.items():
            found.setdefault(of + term, []).append((number, count, terms.total()))
    return found


def some(rng: random.Random, count: int) -> list[Counter[str]]:
    """Texts with a word that all have, some frequent ones, and many rare ones."""
    return [
        Counter(
            {"every": rng.randint(1, 3)}
            | {f"often{rng.randrange(3)}": 1}
            | {f"rare{rng.randrange(500)}": rng.randint(1, 4) for _ in range(4)}
        )
        for _ in range(count)
    ]


def place(connection: Connection, where: str) -> None:
    """Let a connection write as on one server, or as on a cluster."""
    connection._exchange.shards = {} if where == "cluster" else None
    assert connection.is_distributed == (where == "cluster")


@pytest.mark.parametrize("where", ["server", "cluster"])
@pytest.mark.parametrize("sizes", [(1, 250, 10, 20, 300, 1), (600, 3, 170)], ids=["grows", "bulk"])
async def test_terms_of_memories_fill_segment_after_segment(
    stage: Stage, sizes: tuple[int, ...], where: str
) -> None:
    await stage.user()
    rng = random.Random(1)
    held: dict[int, Counter[str]] = {}
    async with stage.write.connection() as connection:
        place(connection, where)
        for size in sizes:
            texts = some(rng, size)
            async with connection.transaction():
                await users.lock_user(connection.of(ANA))
                before = await keyword_index.reserve_numbers(
                    connection.of(ANA), texts=size, documents=size, terms=0
                )
                new = dict(enumerate(texts, before + 1))
                await keyword_index.append(connection.of(ANA), new)
            held |= new

    assert await stored(stage, _MEMORIES) == expected(held)


@pytest.mark.parametrize("where", ["server", "cluster"])
async def test_terms_of_passages_continue_wherever_others_were_removed(
    stage: Stage, where: str
) -> None:
    await stage.user()
    rng = random.Random(2)
    held: dict[str, dict[int, Counter[str]]] = {"messages": {}, "summaries": {}}
    async with stage.write.connection() as connection:
        place(connection, where)
        for size, removed in ((200, 0), (90, 150), (30, 100), (300, 20), (5, 0), (1, 300)):
            texts: dict[PassageCorpus, list[Counter[str]]] = {
                MESSAGES: some(rng, size),
                SUMMARIES: some(rng, 1 + size // 20),
            }
            async with connection.transaction():
                await users.lock_user(connection.of(ANA))
                numbers = await index.add(connection.of(ANA), texts)
            for corpus, those in texts.items():
                held[corpus.name] |= dict(zip(numbers[corpus], those, strict=True))
            # The oldest ones, so that whole segments go and others keep room at their end.
            gone = {no: held["messages"].pop(no) for no in sorted(held["messages"])[:removed]}
            async with connection.transaction():
                await users.lock_user(connection.of(ANA))
                lengths = {number: terms.total() for number, terms in gone.items()}
                words = {term for terms in gone.values() for term in terms}
                await index._remove(connection.of(ANA), MESSAGES, lengths, words)

            assert await stored(stage, _PASSAGES) == {
                **expected(held["messages"], "messages "),
                **expected(held["summaries"], "summaries "),
            }


@pytest.mark.parametrize("plan", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("append", ["_APPEND", "_APPEND_PASSAGES"])
async def test_a_table_that_was_never_analysed_is_extended_by_position(
    stage: Stage, append: str, plan: str
) -> None:
    """By key, each row of the user would be compared with each term: 160 ms in place of 5."""
    await stage.user()
    texts = dict(enumerate(some(random.Random(3), 300), 1))
    async with stage.write.connection() as connection, connection.transaction():
        await users.lock_user(connection.of(ANA))
        await keyword_index.append(connection.of(ANA), texts)
        await keyword_index.append_passages(connection.of(ANA), {"messages": texts})
        await connection.execute(f"SET LOCAL plan_cache_mode = {plan}".encode())
        statement = getattr(keyword_index, append).encode()
        columns = keyword_index._columns([("messages", texts)])
        values = ANA.bind(segment=keyword_index.SEGMENT, each_corpus="messages", **columns)
        cursor = await connection.execute(b"EXPLAIN (COSTS OFF) " + statement, values)
        lines = "\n".join(str(line) for (line,) in cursor.rows)

    assert re.search("Tid Scan on (passage_)?postings held", lines), lines


async def test_numbers_to_remove_are_hashed(stage: Stage) -> None:
    """An array is hashed only in a plan for known values, and otherwise compared with each posting:
    a quarter of 8,000 texts would take a hundred times as long."""
    await stage.user()
    values = ANA.bind(corpus="messages", lexical_nos=[1, 2], first=1, last=2, terms=["often"])
    async with stage.write.connection() as connection, connection.transaction():
        cursor = await connection.execute(
            f"EXPLAIN (VERBOSE, COSTS OFF) {index._REMOVE}".encode(), values
        )
        lines = "\n".join(str(line) for (line,) in cursor.rows)

    assert "lexical_no = (hashed SubPlan" in lines, lines


# Messages and summaries that no job has indexed, as in a database from before the index (D3).


MANY = 600


class Squeamish(OfflineEmbedder):
    """An embedder that refuses every call with one word in it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
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


async def test_a_user_whose_texts_cannot_be_indexed_keeps_no_other_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do more texts of that user than one look finds."""
    monkeypatch.setattr("hitherto_extraction.pipeline.backfill._AT_ONCE", 2)
    await many(stage, "ana", 3)
    await many(stage, "bo", 3)
    first = "UPDATE messages SET accepted_at = accepted_at - interval '1 day' WHERE user_id = 'ana'"
    await stage.rows(first)
    await stage.rows(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END$$"
    )
    await stage.rows(
        "CREATE TRIGGER refuse BEFORE INSERT ON passage_postings FOR EACH ROW"
        " WHEN (NEW.user_id = 'ana') EXECUTE FUNCTION refuse()"
    )
    await Backlog(stage.maintenance, message_vectors=True).run()
    indexed = await stage.rows("SELECT DISTINCT user_id, corpus FROM passage_postings ORDER BY 2")
    assert indexed == [("bo", "messages"), ("bo", "summaries")]


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
