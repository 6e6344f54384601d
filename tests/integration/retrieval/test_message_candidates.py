"""Messages that a search weighs: all that the filters let through, with every feature (D3, D8)."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from hitherto_retrieval.storage import message_candidates
from hitherto_retrieval.storage.candidate import Candidate, Key
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import Vector
from tests.integration.retrieval.questions import (
    Reader,
    keys,
    nearest,
    unit_vectors,
    weighed,
    words,
)
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import Turn, converse

NOW = datetime.now(UTC)


def find(reader: Database, **asked: Any) -> Awaitable[list[Candidate]]:
    return weighed(reader, message_candidates, **asked)


def talk(vectors: list[Vector], *, each: int = 50) -> dict[str, list[Turn]]:
    """Conversations of `each` messages, one message a vector."""
    return {
        f"c{start // each}": [
            Turn(f"number {start + n}", vector=vector)
            for n, vector in enumerate(vectors[start : start + each])
        ]
        for start in range(0, len(vectors), each)
    }


async def test_repeats_on_one_connection_keep_full_recall(reader: Reader) -> None:
    """Design §3, the plan_cache_mode trap, and faults.md row 24: recall is 1.000 every time."""
    await converse(reader.superuser, "crowd", talk(unit_vectors(200, 3)))
    vectors = unit_vectors(500, 1)
    said = await converse(reader.superuser, "ana", talk(vectors))
    even = PassageFilters(conversation_id="c7")
    for question in unit_vectors(20, 2):
        found = await find(reader, vector=question, wanted=60)
        assert keys(found) == nearest(said, vectors, question, 60)
        filtered = await find(reader, filters=even, vector=question)
        assert keys(filtered) == nearest(said, vectors, question, 10, lambda n: said[n][0] == "c7")


async def test_both_legs_give_all_features(reader: Reader) -> None:
    vectors = unit_vectors(100, 4)
    turns = [Turn("nothing", vector=vector) for vector in vectors]
    question = vectors[0]
    far = min(range(100), key=lambda n: float(vectors[n] @ question))
    turns[far] = Turn("the swan", "assistant", "Minh", NOW, vector=vectors[far])
    turns[0] = Turn("a swan lake", vector=vectors[0])
    await converse(reader.superuser, "ana", {"c": turns})
    scores = await words(reader, "ana", "messages", "swan")
    assert set(scores) == {1, far + 1}
    for filters in (PassageFilters(), PassageFilters(conversation_id="c")):
        found = {
            candidate.key: candidate
            for candidate in await find(
                reader, filters=filters, vector=question, bm25=scores, text_query=""
            )
        }
        assert len(found) == 11
        by_words, near = found["c", far + 1], found["c", 1]
        # Found by its words alone, and it has its cosine nevertheless.
        assert by_words.cosine == pytest.approx(float(vectors[far] @ question), abs=1e-3)
        assert by_words.bm25 == scores[far + 1]
        assert (by_words.speaker, by_words.role, by_words.words) == (
            "Minh",
            "assistant",
            "the swan",
        )
        assert (by_words.happened_at, by_words.conversation_id) == (NOW, "c")
        assert by_words.created_at > NOW
        assert (by_words.kind, by_words.importance, by_words.source_type) == ("message", 0, "")
        assert near.cosine == pytest.approx(1, abs=1e-3)
        assert near.bm25 == scores[1]
    # All scores count, not only those that bring something in.
    with_low = await find(reader, vector=question, bm25={far + 1: 2.0, 1: 1.0}, wanted=1)
    assert {candidate.key: candidate.bm25 for candidate in with_low} == {
        ("c", far + 1): 2.0,
        ("c", 1): 1.0,
    }
    assert {candidate.words for candidate in with_low} == {""}


async def test_a_message_without_a_vector_comes_by_its_words(reader: Reader) -> None:
    """An embedding model that is down leaves the words: faults.md, degraded reads."""
    near, other = unit_vectors(2, 5)
    await converse(reader.superuser, "ana", {"c": [Turn("ok"), Turn("the heron", vector=other)]})
    heron = await words(reader, "ana", "messages", "heron")
    ok = await words(reader, "ana", "messages", "ok")
    for filters in (PassageFilters(), PassageFilters(conversation_id="c")):
        assert keys(await find(reader, filters=filters, vector=near)) == {("c", 2)}
        (by_words,) = await find(reader, filters=filters, bm25=ok)
        assert (by_words.key, by_words.cosine) == (("c", 1), None)
        (unseen,) = await find(reader, filters=filters, bm25=heron)
        assert (unseen.key, unseen.cosine) == (("c", 2), None)
        both = await find(reader, filters=filters, vector=near, bm25=ok)
        assert {candidate.key: candidate.cosine is None for candidate in both} == {
            ("c", 1): True,
            ("c", 2): False,
        }
        assert await find(reader, filters=filters) == []


async def test_what_system_and_tools_say_is_never_found(reader: Reader) -> None:
    question, *rest = unit_vectors(5, 6)
    roles = ("system", "tool", "user", "assistant")
    turns = [Turn("x", role, vector=vector) for role, vector in zip(roles, rest, strict=True)]
    await converse(reader.superuser, "ana", {"c": turns})
    for filters in (PassageFilters(), PassageFilters(created_before=NOW + timedelta(days=1))):
        found = await find(reader, filters=filters, vector=question)
        assert {candidate.role for candidate in found} == {"user", "assistant"}


async def test_vectors_of_another_model_are_never_compared(reader: Reader) -> None:
    (question,) = unit_vectors(1, 7)
    await converse(
        reader.superuser, "ana", {"c": [Turn("x", vector=question)]}, model=("other", 64)
    )
    assert await find(reader, vector=question) == []
    (found,) = await find(reader, vector=question, bm25={1: 1.0})
    assert found.cosine is None


def _filtered() -> dict[str, list[Turn]]:
    old = NOW - timedelta(days=100)
    return {
        "kim": [Turn("m1 of kim", said_at=old, metadata={"channel": "web", "n": 1})],
        "lan": [
            Turn("first", said_at=NOW, metadata={"channel": "web", "n": 2}),
            Turn("second", said_at=NOW - timedelta(days=1), metadata={"channel": ["web"]}),
        ],
    }


FILTERED: dict[str, tuple[PassageFilters, set[Key]]] = {
    "conversation": (PassageFilters(conversation_id="lan"), {("lan", 1), ("lan", 2)}),
    "after": (PassageFilters(created_after=NOW - timedelta(hours=1)), {("lan", 1)}),
    "after is inclusive": (PassageFilters(created_after=NOW), {("lan", 1)}),
    "before is exclusive": (PassageFilters(created_before=NOW), {("kim", 1), ("lan", 2)}),
    "metadata": (PassageFilters(metadata={"channel": "web"}), {("kim", 1), ("lan", 1)}),
    "all keys": (PassageFilters(metadata={"channel": "web", "n": 2}), {("lan", 1)}),
    "entity": (PassageFilters(entity="Dự án KIM"), {("kim", 1)}),
    "unknown entity": (PassageFilters(entity="nobody"), set()),
    "unknown conversation": (PassageFilters(conversation_id="none"), set()),
    "sources of documents": (
        PassageFilters(source_types=["gmail"], content_types=["email"]),
        {("kim", 1), ("lan", 1), ("lan", 2)},
    ),
}


async def test_filters_return_all_that_pass(reader: Reader) -> None:
    """D8: whatever leg brings them in, and on one connection again and again."""
    fact = Fact("Kim is a project", entities=["Dự án Kim"], conversation_id="kim")
    await remember(reader.superuser, "ana", [fact, Fact("elsewhere", conversation_id="lan")])
    question, *rest = unit_vectors(53, 9)
    noise = [Turn("noise", said_at=NOW - timedelta(days=2000), vector=v) for v in rest[3:]]
    mine = _filtered()
    vectors = iter(rest)
    with_vectors = {
        name: [
            Turn(t.content, said_at=t.said_at, metadata=t.metadata, vector=next(vectors))
            for t in turns
        ]
        for name, turns in mine.items()
    }
    await converse(reader.superuser, "ana", with_vectors)
    await converse(reader.superuser, "noisy", {"lan": noise, "kim": noise})
    for name, (filters, expected) in FILTERED.items():
        for _ in range(7):
            by_vector = await find(reader, filters=filters, vector=question)
            assert keys(by_vector) == expected, name
            by_words = await find(reader, filters=filters, bm25={1: 1.0, 2: 2.0, 3: 3.0, 99: 9.0})
            assert keys(by_words) == expected, name


async def test_filters_reach_behind_the_best_words(reader: Reader) -> None:
    """The best words of all belong elsewhere: those of the conversation are found all the same."""
    turns = {"loud": [Turn("swan swan")] * 40, "quiet": [Turn("a swan on a lake far away")] * 3}
    turns = {
        name: [Turn(t.content, message_id=f"{name}{n}") for n, t in enumerate(said)]
        for name, said in turns.items()
    }
    await converse(reader.superuser, "ana", turns)
    scores = await words(reader, "ana", "messages", "swan")
    found = await find(
        reader, filters=PassageFilters(conversation_id="quiet"), bm25=scores, wanted=5
    )
    assert keys(found) == {("quiet", 1), ("quiet", 2), ("quiet", 3)}
    assert len(await find(reader, bm25=scores, wanted=5)) == 5


async def test_equal_vectors_bring_in_the_same_ones_each_time(reader: Reader) -> None:
    (same,) = unit_vectors(1, 10)
    turns = [Turn("ok", vector=same) for _ in range(30)]
    await converse(reader.superuser, "ana", {"c": turns})
    for filters in (PassageFilters(), PassageFilters(conversation_id="c")):
        found = await find(reader, filters=filters, vector=same, wanted=5)
        assert keys(found) == {("c", n) for n in range(26, 31)}
    assert np.isclose(found[0].cosine or 0, 1, atol=1e-3)
