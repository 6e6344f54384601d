"""What stands about messages: neighbours, and the memories that came from them (design §5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto_retrieval.storage import neighbours
from hitherto_retrieval.storage.candidate import MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_shared.database.pool import Database
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import answer, keys, unit_vectors
from tests.integration.retrieval.seed import TENANT, Fact, remember
from tests.integration.retrieval.seed_passages import MODEL, Turn, converse

ANA = Scope(TENANT, "ana")


async def test_neighbours_stand_once_with_all_features(
    reader: Database, superuser_conninfo: str
) -> None:
    question, *vectors = unit_vectors(9, 31)
    turns = [
        Turn(f"number {n}", name="MB"[n % 2], vector=vector)
        for n, vector in enumerate(vectors, start=1)
    ]
    turns[3] = Turn("output", "tool", vector=vectors[3])
    turns[4] = Turn("no vector", "assistant", "Minh")
    await converse(superuser_conninfo, "ana", {"c": turns, "d": turns[:2]})
    await converse(superuser_conninfo, "minh", {"c": [Turn("theirs")]})
    await converse(superuser_conninfo, "ana", {"e": turns[:2]}, tenant="another")

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


async def test_sources_of_memories(reader: Database, superuser_conninfo: str) -> None:
    facts = [
        Fact("both", conversation_id="c", also_said_in=["d"]),
        Fact("one", conversation_id="d"),
        Fact("no source"),
        Fact("words that are gone", conversation_id="gone"),
    ]
    ids = await remember(superuser_conninfo, "ana", facts)
    (theirs,) = await remember(superuser_conninfo, "minh", [Fact("x", conversation_id="c")])
    said = {
        name: [Turn("first", message_id="m0"), Turn("second", message_id="m1")] for name in "cd"
    }
    await converse(superuser_conninfo, "ana", said)
    await converse(superuser_conninfo, "minh", said)
    for _ in range(12):
        found = await answer(
            reader, neighbours.sources_of(ANA, [ids[3], theirs, ids[1], ids[0], ids[2], uuid7()])
        )
        assert found == {ids[0]: [("c", 2), ("d", 2)], ids[1]: [("d", 2)]}
    assert await answer(reader, neighbours.sources_of(ANA, [])) == {}


async def test_the_best_current_fact_about_each_message(
    reader: Database, superuser_conninfo: str
) -> None:
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
    await remember(superuser_conninfo, "ana", facts, model=MODEL)
    await remember(
        superuser_conninfo,
        "minh",
        [Fact("x", conversation_id=name, vector=question) for name in "cde"],
        model=MODEL,
    )
    said = {name: [Turn("x", message_id="m1"), Turn("x", message_id="m2")] for name in "cdef"}
    await converse(superuser_conninfo, "ana", said)
    await converse(superuser_conninfo, "minh", said)
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
