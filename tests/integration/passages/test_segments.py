"""The postings of a term, in segments that are extended, split, emptied and begun again."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping

import pytest

from hitherto_extraction.storage import keyword_index, users
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import PassageCorpus
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.keyword_index import SEGMENT
from hitherto_shared.database.pool import Connection
from tests.integration.upkeep.past import ANA
from tests.integration.upkeep.stage import Stage

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
