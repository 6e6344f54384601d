"""What a search looks at: all that the filters let through, in the right order (D3, D8, Q2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async

from hitherto_retrieval.storage import filtered_candidates, memories, people
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.memory_candidates import among_all
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import ANA, Reader, answer, unit_vectors
from tests.integration.retrieval.seed import TENANT, Fact, remember
from tests.integration.retrieval.seed_passages import MODEL

NOW = datetime.now(UTC)


async def found(
    reader: Database,
    user: str,
    vector: Vector | None,
    filters: Filters,
    *,
    quick: bool = False,
    bm25: dict[int, float] | None = None,
    wanted: int = 200,
    cached: int = 200,
    **sought: Any,
) -> list[Candidate]:
    """The candidates, of the quick statement for everything current or of the filtered one."""
    scope = Scope(TENANT, user)
    words = Scores.of(bm25 or {})
    looked_for = ItemQuery(scope, words, vector, MODEL[0], wanted, **sought)
    if quick:
        return (await answer(reader, among_all(looked_for, memories=cached))).candidates
    return await answer(reader, filtered_candidates.find(looked_for, filters))


async def nearest(
    reader: Database,
    user: str,
    vector: Vector | None,
    filters: Filters,
    *,
    limit: int = 10,
    **more: Any,
) -> tuple[list[UUID], int]:
    """The first `limit` ids by cosine, as the ranking would have them from the semantic leg."""
    candidates = await found(reader, user, vector, filters, **more)
    ranked = sorted(candidates, key=lambda c: -2.0 if c.cosine is None else c.cosine, reverse=True)
    return [UUID(str(candidate.key)) for candidate in ranked[:limit]], len(candidates)


def brute_force(
    ids: Sequence[UUID], vectors: Sequence[Vector], query: Vector, allowed: Sequence[bool]
) -> list[UUID]:
    cosines = np.stack(vectors) @ query
    order = [int(n) for n in np.argsort(-cosines) if allowed[int(n)]]
    return [ids[n] for n in order[:10]]


async def test_repeats_on_one_connection_keep_full_recall(reader: Reader) -> None:
    """Design §3, the plan_cache_mode trap: the plans of later executions find the same rows."""
    vectors = unit_vectors(250, 1)
    facts = [Fact(f"statement {n}", vector=vector) for n, vector in enumerate(vectors)]
    ids = await remember(reader.superuser, "ana", facts, model=MODEL)
    for query in unit_vectors(20, 2):
        expected = brute_force(ids, vectors, query, [True] * 250)
        for quick in (False, True):
            got, total = await nearest(reader, "ana", query, Filters(), quick=quick)
            assert got == expected
            assert total == 200


async def test_a_small_user_among_many_gets_every_match(reader: Reader) -> None:
    """faults.md row 24: min(limit, existing) rows, whatever lies around them."""
    crowd = unit_vectors(500, 3)
    await remember(
        reader.superuser, "crowd", [Fact("noise", vector=vector) for vector in crowd], model=MODEL
    )
    vectors = unit_vectors(40, 4)
    facts = [
        Fact(f"statement {n}", type="goal" if n % 10 < 3 else "fact", vector=vector)
        for n, vector in enumerate(vectors)
    ]
    ids = await remember(reader.superuser, "ana", facts, model=MODEL)
    goals = [fact.type == "goal" for fact in facts]
    for query in unit_vectors(20, 5):
        got, total = await nearest(reader, "ana", query, Filters(types=["goal"]))
        assert got == brute_force(ids, vectors, query, goals)
        assert (len(got), total) == (10, 12)
        everything, _ = await nearest(reader, "ana", query, Filters(types=["goal"]), limit=200)
        assert len(everything) == 12


async def test_without_a_vector_found_by_words_and_listed_last_without(reader: Reader) -> None:
    (query,) = unit_vectors(1, 6)
    opposite = Fact("the opposite", vector=-query, importance=0.0)
    pending = Fact("not embedded yet", importance=1.0)
    ids = await remember(reader.superuser, "ana", [pending, opposite], model=MODEL)
    got, _ = await nearest(reader, "ana", query, Filters())
    assert got == [ids[1], ids[0]]
    # Only sixty are nearest; the words bring in one that all of them push out.
    crowd = [Fact("noise", vector=vector) for vector in unit_vectors(100, 7)]
    late = await remember(reader.superuser, "minh", [*crowd, pending], model=MODEL)
    without, _ = await nearest(reader, "minh", query, Filters(), limit=200, wanted=60)
    assert late[-1] not in without
    candidates, _ = await nearest(
        reader, "minh", query, Filters(), limit=200, wanted=60, bm25={101: 2.0}
    )
    assert candidates == [*without, late[-1]]


async def test_vectors_of_another_model_are_never_compared(reader: Reader) -> None:
    (query,) = unit_vectors(1, 8)
    await remember(reader.superuser, "ana", [Fact("x", vector=query)], model=("other", 64))
    candidates = await found(reader, "ana", query, Filters())
    assert [candidate.cosine for candidate in candidates] == [None]
    assert await found(reader, "ana", query, Filters(), quick=True) == []


async def changed(conninfo: str, statement: LiteralString, *values: Any) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await register_vector_async(connection)
        cursor = await connection.execute(statement, values)
        assert cursor.rowcount == 1


@pytest.mark.parametrize("quick", [True, False], ids=["all", "filtered"])
async def test_the_vector_of_an_earlier_wording_has_no_cosine(reader: Reader, quick: bool) -> None:
    """The memory was reworded, and its new words have no vector yet: only words find it."""
    query, other = unit_vectors(2, 81)
    facts = [Fact("reworded", vector=query), Fact("as it was", vector=other)]
    first, second = await remember(reader.superuser, "ana", facts, model=MODEL)
    await changed(
        reader.superuser,
        "UPDATE memories SET text_version = text_version + 1 WHERE memory_id = %s",
        first,
    )
    candidates = await found(reader, "ana", query, Filters(), quick=quick, bm25={1: 2.0, 2: 1.0})
    cosines = {UUID(str(each.key)): each.cosine for each in candidates}
    assert cosines.keys() == {first, second}
    assert cosines[first] is None
    assert cosines[second] == pytest.approx(float(query @ other), abs=1e-3)


async def test_the_vector_of_an_earlier_wording_has_no_cosine_where_only_words_found_it(
    reader: Reader,
) -> None:
    """Its vector is looked up then, and is not of these words."""
    query, other = unit_vectors(2, 83)
    facts = [Fact("reworded", vector=-query), Fact("sound", vector=other), Fact("x", vector=query)]
    first, second, third = await remember(reader.superuser, "ana", facts, model=MODEL)
    await changed(
        reader.superuser,
        "UPDATE memories SET text_version = text_version + 1 WHERE memory_id = %s",
        first,
    )
    candidates = await found(
        reader, "ana", query, Filters(), quick=True, bm25={1: 2.0, 2: 1.0}, wanted=2
    )
    cosines = {UUID(str(each.key)): each.cosine for each in candidates}
    assert cosines.keys() == {first, second, third}
    assert cosines[first] is None
    assert cosines[second] == pytest.approx(float(query @ other), abs=1e-3)


@pytest.mark.parametrize("quick", [True, False], ids=["all", "filtered"])
async def test_source_words_of_another_model_are_never_compared(
    reader: Reader, quick: bool
) -> None:
    """A former model may have as many dimensions as the active one."""
    query, other = unit_vectors(2, 82)
    facts = [Fact("former", vector=other), Fact("present", vector=other)]
    former, present = await remember(reader.superuser, "ana", facts, model=MODEL)
    await changed(
        reader.superuser,
        "INSERT INTO embedding_models (model, dimensions, active) VALUES ('former', 64, false)",
    )
    for memory_id, model in ((former, "former"), (present, MODEL[0])):
        await changed(
            reader.superuser,
            "INSERT INTO memory_source_embeddings"
            " (tenant_id, user_id, memory_id, model, dimensions, embedding)"
            " VALUES (%s, 'ana', %s, %s, 64, %s)",
            *(TENANT, memory_id, model, HalfVector(query)),
        )
    candidates = await found(reader, "ana", query, Filters(), quick=quick)
    cosines = {UUID(str(each.key)): each.source_cosine for each in candidates}
    assert cosines[former] is None
    assert cosines[present] == pytest.approx(1.0, abs=1e-2)


FILTERED = {
    "types": (Filters(types=["goal", "decision"]), {"goal", "decision"}),
    "tags": (Filters(tags=["work", "nothing has it"]), {"tagged"}),
    "sources": (Filters(sources=["explicit"]), {"explicit"}),
    "confidence_min": (Filters(confidences=["medium", "high"]), {"medium"}),
    "created_after": (Filters(created_after=NOW - timedelta(days=4)), {"recent"}),
    "created_before": (Filters(created_before=NOW - timedelta(days=40)), {"ancient"}),
    "entity": (Filters(entity="ha noi"), {"Hà Nội"}),
    "conversation_id": (Filters(conversation_id="c7"), {"from c7", "merged from c7"}),
    "metadata": (Filters(metadata={"project": "heron", "size": 3.0}), {"heron"}),
    "nested metadata": (Filters(metadata={"labels": ["a"]}), {"list a"}),
    "metadata null": (Filters(metadata={"owner": None}), {"owner null"}),
    "superseded": (Filters(statuses=["superseded"], only_current=False), {"superseded"}),
    "forgotten": (Filters(statuses=["forgotten"], only_current=False), {"forgotten"}),
    "contradicted": (Filters(statuses=["contradicted"], only_current=False), {"contradicted"}),
    "achieved": (Filters(statuses=["achieved"], only_current=False), {"achieved"}),
    "expired": (
        Filters(
            statuses=["active"],
            only_current=False,
            created_after=NOW - timedelta(days=16, hours=12),
        ),
        {"recent", "expired"},
    ),
}
PLAIN = Fact("plain", confidence="low", created_at=NOW - timedelta(days=30))


def kinds() -> list[Fact]:
    def like(content: str, **changes: object) -> Fact:
        return Fact(
            **{
                "content": content,
                "confidence": "low",
                "created_at": NOW - timedelta(days=30),
                **changes,
            }  # type: ignore[arg-type]
        )

    return [
        *[PLAIN] * 30,
        like("goal", type="goal"),
        like("decision", type="decision"),
        like("tagged", tags=["work"]),
        like("explicit", source="explicit"),
        like("medium", confidence="medium"),
        like("recent", created_at=NOW - timedelta(days=1)),
        like("ancient", created_at=NOW - timedelta(days=90)),
        like("Hà Nội", entities=["Hà Nội"]),
        like("from c7", conversation_id="c7"),
        like("merged from c7", conversation_id="c1", also_said_in=["c7"]),
        like("heron", metadata={"project": "heron", "size": 3, "more": True}),
        like("heron of another size", metadata={"project": "heron", "size": 4}),
        like("list a", metadata={"labels": ["a"]}),
        like("list a b", metadata={"labels": ["a", "b"]}),
        like("owner null", metadata={"owner": None}),
        like("superseded", status="superseded"),
        like("forgotten", status="forgotten"),
        like("contradicted", status="contradicted"),
        like("achieved", status="achieved"),
        like("expired", created_at=NOW - timedelta(days=16), expires_at=NOW - timedelta(minutes=1)),
    ]


async def test_each_filter_lets_through_what_it_names(reader: Reader) -> None:
    """D8, for searches and for lists; without any, what is no longer so is hidden."""
    facts = kinds()
    ids = await remember(reader.superuser, "ana", facts)
    contents = dict(zip(ids, [fact.content for fact in facts], strict=True))
    for name, (filters, expected) in FILTERED.items():
        for _ in range(7):  # past the point where Postgres may change its plan
            got, total = await nearest(reader, "ana", None, filters, limit=200)
            assert {contents[memory_id] for memory_id in got} == expected, name
            assert total == len(expected), name
        page = memories.page(ANA, filters, order_by="created_at", after=None, limit=200)
        listed = await answer(reader, page)
        assert {contents[memory_id] for memory_id in listed.ids} == expected, name
        assert (listed.following, listed.total) == (None, len(expected)), name
    got, _ = await nearest(reader, "ana", None, Filters(), limit=200)
    hidden = {fact.content for fact in facts} - {contents[memory_id] for memory_id in got}
    assert hidden == {"superseded", "forgotten", "contradicted", "expired"}


async def test_above_a_thousand_memories_the_signs_find_the_nearest(reader: Reader) -> None:
    """Q2: recall of the two looks against brute force, on vectors that lie in clusters."""
    centres = np.random.default_rng(9).standard_normal((40, 64)).repeat(28, axis=0)
    noise = np.random.default_rng(10).standard_normal((1_120, 64))
    unit = centres + 0.6 * noise
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    vectors = list(unit.astype(np.float16).astype(np.float32))
    facts = [Fact(f"statement {n}", vector=vector) for n, vector in enumerate(vectors)]
    ids = await remember(reader.superuser, "ana", facts, model=MODEL)
    kept = 0
    for n in range(50):
        query = vectors[n * 22] + 0.02 * noise[n]
        query = (query / np.linalg.norm(query)).astype(np.float32)
        got = await found(reader, "ana", query, Filters(), quick=True, wanted=60, cached=1_120)
        ranked = sorted(got, key=lambda c: c.cosine or 0.0, reverse=True)[:10]
        kept += len(
            {candidate.key for candidate in ranked}
            & set(brute_force(ids, vectors, query, [True] * 1_120))
        )
    assert kept >= 0.98 * 500


async def test_every_leg_brings_its_own(reader: Reader) -> None:
    """D3, D5, D7: by name, by time and by recency; each found with all features."""
    crowd = [
        Fact(f"noise {n}", vector=vector, valid_from=NOW - timedelta(days=300 + n))
        for n, vector in enumerate(unit_vectors(100, 11))
    ]
    (query,) = unit_vectors(1, 12)
    facts = [
        *crowd,
        Fact("of Hoa", vector=-query, entities=["Hoa"], valid_from=NOW - timedelta(days=900)),
        Fact("of May", vector=-query, valid_from=NOW - timedelta(days=30)),
        Fact("of now", vector=-query, valid_from=NOW),
        Fact("of Hoa, forgotten", vector=query, entities=["Hoa"], status="forgotten"),
        Fact(
            "of May, gone",
            vector=query,
            valid_from=NOW - timedelta(days=30),
            expires_at=NOW - timedelta(days=1),
        ),
    ]
    ids = await remember(reader.superuser, "ana", facts, model=MODEL)
    named = await answer(reader, people.user(ANA, named=["hoa"]))
    legs: dict[UUID, dict[str, Any]] = {
        ids[100]: {"entity_ids": [entity.entity_id for entity in named.entities]},
        ids[101]: {"since": NOW - timedelta(days=40), "until": NOW - timedelta(days=20)},
        ids[102]: {"newest": 1},
    }
    for quick in (False, True):
        without = await found(reader, "ana", query, Filters(), quick=quick, wanted=20)
        for memory_id, sought in legs.items():
            assert memory_id not in {candidate.key for candidate in without}
            got = await found(reader, "ana", query, Filters(), quick=quick, wanted=20, **sought)
            (brought,) = {c.key for c in got} - {c.key for c in without}
            assert brought == memory_id
            (candidate,) = [c for c in got if c.key == memory_id]
            assert candidate.cosine == pytest.approx(-1.0, abs=1e-3)
            assert candidate.entities == int("entity_ids" in sought)
            assert candidate.most_recent == ("newest" in sought)


async def test_a_quick_look_says_when_others_were_pushed_out(reader: Reader) -> None:
    """Q2: by memories that have expired, were forgotten, or changed their words."""
    (query,) = unit_vectors(1, 13)
    crowd = [Fact(f"noise {n}", vector=vector) for n, vector in enumerate(unit_vectors(60, 14))]
    gone = [Fact("gone", vector=query, expires_at=NOW - timedelta(days=1)) for _ in range(30)]
    hidden = [Fact("hidden", vector=-query, status="forgotten") for _ in range(250)]
    scope = ANA

    async def whole(bm25: dict[int, float]) -> bool:
        sought = ItemQuery(scope, Scores.of(bm25), query, MODEL[0], 20)
        return (await answer(reader, among_all(sought, memories=200))).whole

    await remember(reader.superuser, "ana", [*crowd, *hidden], model=MODEL)
    assert await whole(dict.fromkeys(range(1, 61), 1.0))
    # Everything that has a word is looked at: that most of it is forgotten loses nothing.
    assert await whole(dict.fromkeys(range(56, 200), 1.0))
    # There is more than is looked at, and what is looked at is mostly forgotten.
    assert not await whole({n: float(n) for n in range(56, 311)})
    await remember(reader.superuser, "minh", [*crowd, *gone], model=MODEL)
    scope = Scope(TENANT, "minh")
    assert not await whole({})
