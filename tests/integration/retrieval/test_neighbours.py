"""What stands about messages: neighbours, and the memories that came from them (design §5)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import psycopg
import pytest

from hitherto_retrieval.search.ranking.turns import FARTHEST, TURNS, near_pairs
from hitherto_retrieval.storage import message_candidates, neighbours
from hitherto_retrieval.storage.candidate import MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import ANA, Reader, answer, keys, unit_vectors
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import MODEL, Turn, converse


async def test_neighbours_stand_once_with_all_features(reader: Reader) -> None:
    question, *vectors = unit_vectors(9, 31)
    turns = [
        Turn(f"number {n}", name="MB"[n % 2], vector=vector)
        for n, vector in enumerate(vectors, start=1)
    ]
    turns[3] = Turn("output", "tool", vector=vectors[3])
    turns[4] = Turn("no vector", "assistant", "Minh")
    await converse(reader.superuser, "ana", {"c": turns, "d": turns[:2]})
    await converse(reader.superuser, "minh", {"c": [Turn("theirs")]})
    await converse(reader.superuser, "ana", {"e": turns[:2]}, tenant="another")

    async def around(given: list[MessageKey], turns: int) -> dict[object, float | None]:
        found = await answer(
            reader,
            neighbours.around(
                ItemQuery(ANA, Scores.of({5: 7.0}), question, MODEL[0], text_query=""),
                given,
                turns=turns,
                farthest=2,
            ),
        )
        keys(found)
        assert all(c.bm25 == 0 or c.words == "number 6" for c in found)
        return {c.key: c.cosine for c in found}

    for _ in range(12):
        assert set(await around([("c", 1)], 1)) == {("c", 2)}
        # The tool's output at number 4 is passed over.
        near = await around([("c", 5), ("c", 6), ("d", 1), ("e", 1), ("none", 3)], 2)
        assert set(near) == {("c", 3), ("c", 7), ("c", 8), ("d", 2)}
        assert near["c", 3] == pytest.approx(float(question @ vectors[2]), abs=1e-3)
    assert (await around([("c", 6)], 1))["c", 5] is None
    assert await around([], 2) == {}
    assert await around([("c", 1)], 0) == {}
    (without,) = await answer(
        reader, neighbours.around(ItemQuery(ANA), [("c", 1)], turns=1, farthest=2)
    )
    assert (without.cosine, without.words) == (None, "")


async def test_sources_of_memories(reader: Reader) -> None:
    facts = [
        Fact("both", conversation_id="c", also_said_in=["d"]),
        Fact("one", conversation_id="d"),
        Fact("no source"),
        Fact("words that are gone", conversation_id="gone"),
    ]
    ids = await remember(reader.superuser, "ana", facts)
    (theirs,) = await remember(reader.superuser, "minh", [Fact("x", conversation_id="c")])
    said = {
        name: [Turn("first", message_id="m0"), Turn("second", message_id="m1")] for name in "cd"
    }
    await converse(reader.superuser, "ana", said)
    await converse(reader.superuser, "minh", said)
    for _ in range(12):
        found = await answer(
            reader, neighbours.sources_of(ANA, [ids[3], theirs, ids[1], ids[0], ids[2], uuid7()])
        )
        assert found == {ids[0]: [("c", 2), ("d", 2)], ids[1]: [("d", 2)]}
    assert await answer(reader, neighbours.sources_of(ANA, [])) == {}


async def test_the_best_current_fact_about_each_message(reader: Reader) -> None:
    question, near, far = unit_vectors(3, 32)
    best, second = sorted((near, far), key=lambda v: float(v @ question), reverse=True)
    past = datetime.now(UTC) - timedelta(days=1)
    facts = [
        Fact("near", conversation_id="c", vector=best),
        Fact("far", conversation_id="c", vector=second, status="achieved"),
        Fact("replaced", conversation_id="c", vector=question, status="superseded"),
        Fact("expired", conversation_id="c", vector=question, expires_at=past),
        Fact("forgotten", conversation_id="d", vector=question, status="forgotten"),
        Fact("no vector", conversation_id="e"),
        Fact("elsewhere", conversation_id="f", vector=question),
    ]
    await remember(reader.superuser, "ana", facts, model=MODEL)
    await remember(
        reader.superuser,
        "minh",
        [Fact("x", conversation_id=name, vector=question) for name in "cde"],
        model=MODEL,
    )
    said = {name: [Turn("x", message_id="m1"), Turn("x", message_id="m2")] for name in "cdef"}
    await converse(reader.superuser, "ana", said)
    await converse(reader.superuser, "minh", said)
    asked = [(name, number) for name in "ecdd" for number in (2, 1)]
    for _ in range(12):
        found = await answer(
            reader,
            neighbours.facts_about(ItemQuery(ANA, vector=question, model=MODEL[0]), asked),
        )
        assert set(found) == {("c", 1), ("e", 1)}
        assert found["c", 1].cosine == pytest.approx(float(best @ question), abs=1e-3)
        # Numbers in the keyword index are those of the order in which they were learnt.
        assert sorted(found["c", 1].lexical_nos) == [1, 2]
        # What has no vector still counts by its words.
        assert found["e", 1] == neighbours.Facts(None, [6])
    for vector, model in ((question, "another"), (None, MODEL[0])):
        unknown = neighbours.facts_about(ItemQuery(ANA, vector=vector, model=model), asked)
        assert {facts.cosine for facts in (await answer(reader, unknown)).values()} == {None}


# Neighbours counted in turns: consecutive messages of one speaker are one turn.


async def around(
    reader: Database, *given: MessageKey, turns: int = TURNS, farthest: int = FARTHEST
) -> set[object]:
    statement = neighbours.around(ItemQuery(ANA), given, turns=turns, farthest=farthest)
    return {candidate.key for candidate in await answer(reader, statement)}


async def test_consecutive_messages_of_a_speaker_are_one_turn(reader: Reader) -> None:
    said = [Turn("x", role, name) for role, name in _said("a A A A b b b a b b A")]
    await converse(reader.superuser, "ana", {"c": said, "notes": [Turn("x")] * 9})
    everything = {("c", number) for number in range(1, 12)}
    # The turns are 1, 2 to 4, 5 to 7, 8, 9 and 10, 11.
    assert await around(reader, ("c", 3), turns=0) == {("c", 2), ("c", 4)}
    assert await around(reader, ("c", 3), turns=1, farthest=9) == {
        ("c", n) for n in (1, 2, 4, 5, 6, 7)
    }
    assert await around(reader, ("c", 8), turns=1, farthest=9) == {
        ("c", n) for n in (5, 6, 7, 9, 10)
    }
    assert await around(reader, ("c", 8), turns=9, farthest=99) == everything - {("c", 8)}
    # Far away is no neighbour, however much one speaker says.
    assert await around(reader, ("notes", 2)) == {("notes", n) for n in (1, 3, 4, 5, 6)}
    assert await around(reader, ("notes", 2), ("notes", 5)) == {
        ("notes", n) for n in (1, 3, 4, 6, 7, 8, 9)
    }


@pytest.mark.parametrize("seed", range(3))
async def test_the_database_and_the_ranking_count_alike(reader: Reader, seed: int) -> None:
    chance = Random(seed)
    names = [f"{seed}-{n}" for n in range(4)]
    said = {
        name: [
            Turn("x", *speaker)
            for speaker in _said(" ".join(chance.choices("aabAt", k=chance.randint(1, 15))))
        ]
        for name in names
    }
    await converse(reader.superuser, "ana", said)
    query = ItemQuery(ANA, Scores.of(dict.fromkeys(range(1, 200), 1.0)), wanted=200)
    found = await answer(reader, message_candidates.SEARCH.find(query, PassageFilters()))
    messages = sorted(
        (each.key, (each.role, each.speaker))
        for each in found
        if isinstance(each.key, tuple) and each.key[0] in names
    )
    assert messages
    near: dict[MessageKey, set[MessageKey]] = {key: set() for key, _ in messages}
    for first, second, _ in near_pairs(messages):
        near[messages[first][0]].add(messages[second][0])
        near[messages[second][0]].add(messages[first][0])
    for key, those in near.items():
        assert await around(reader, key) == those


def _said(speakers: str) -> list[tuple[str, str]]:
    """Roles and names: a and A are two users, b is the assistant, t a tool."""
    of = {"a": ("user", "Ana"), "A": ("user", "Minh"), "b": ("assistant", ""), "t": ("tool", "")}
    return [of[letter] for letter in speakers.split()]


# What surrounds messages is found without reading all of a long conversation.


LONG = 1200
SHORT = {f"c{number}": [Turn("short")] * 6 for number in range(200)}
QUERY = ItemQuery(ANA, model=MODEL[0])
KEYS = [("long", number) for number in range(10, LONG, 10)]

STATEMENTS: dict[str, Statement[Any]] = {
    "adjacent messages": neighbours.around(QUERY, KEYS, turns=1, farthest=4),
    "facts": neighbours.facts_about(QUERY, KEYS),
    "caveats": neighbours.caveats(ANA, KEYS),
}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


@pytest.mark.parametrize("named", STATEMENTS)
async def test_messages_around_are_read_and_not_the_conversation(
    reader: Reader, named: str
) -> None:
    """Counted are the rows that each step looked at, with those that it dropped."""
    said = [Turn("hello", role=("user", "assistant")[number % 2]) for number in range(LONG)]
    facts = [Fact("x", conversation_id="long") for _ in range(LONG // 2)]
    await remember(reader.superuser, "ana", facts)
    await remember(reader.superuser, "minh", [Fact("x", conversation_id=name) for name in SHORT])
    await converse(reader.superuser, "ana", {"long": said})
    await converse(reader.superuser, "minh", SHORT)
    async with await psycopg.AsyncConnection.connect(
        reader.superuser, autocommit=True
    ) as connection:
        await connection.execute(
            "UPDATE memory_sources AS s SET message_id = 'm' || 2 * m.lexical_no FROM memories AS m"
            " WHERE m.memory_id = s.memory_id AND s.conversation_id = 'long'"
        )
        await connection.execute("ANALYZE")
    statement = STATEMENTS[named]

    async def explain(connection: Connection) -> dict[str, Any]:
        sql = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}".encode()
        plans = await connection.fetch_value(sql, statement.parameters)
        return dict(plans[0]["Plan"])

    plan = await reader.run(explain, timeout=120)
    looked_at = max(
        node["Actual Loops"]
        * (
            node["Actual Rows"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Join Filter", 0)
        )
        for node in _nodes(plan)
    )
    assert looked_at <= 30 * len(KEYS)
