"""The data of the retrieval benchmark: the same in every run, and as the service writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.retrieval.person import OF_A_CONVERSATION, Person, export_of
from benchmarks.retrieval.plan import (
    COPIES,
    COUNTS,
    RetrievalOptions,
    large_store,
    original_of,
    small_store,
)
from benchmarks.retrieval.wording import Questions, topics_of, vector
from benchmarks.words import DIMENSIONS
from hitherto_shared.text.terms import query_terms

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PERSON = Person("p200-0", 200, NOW)
EXPORT = export_of(PERSON)


def test_the_same_seed_makes_the_same_person_and_another_one_another() -> None:
    again, other = Person("p200-0", 200, NOW), Person("p200-1", 200, NOW)
    assert again.learnt == PERSON.learnt
    assert again.names == PERSON.names
    assert (again.vectors == PERSON.vectors).all()
    assert export_of(again) == EXPORT
    assert {memory.row["content"] for memory in other.learnt}.isdisjoint(
        memory.row["content"] for memory in PERSON.learnt
    )


def test_memories_are_in_the_order_of_time_and_of_their_ids_and_none_is_from_tomorrow() -> None:
    times = [memory.row["said_at"] for memory in PERSON.learnt]
    assert len(times) == 200
    assert times == sorted(times)
    assert times[-1] <= NOW
    ids = [memory.row["memory_id"] for memory in PERSON.learnt]
    assert ids == sorted(set(ids))
    assert {memory_id.version for memory_id in ids} == {7}


def test_vectors_are_of_length_one_and_nearer_within_a_topic() -> None:
    vectors = PERSON.vectors.astype(np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=0.01)
    cosines = vectors @ vectors.T
    topics = np.array([memory.row["tags"][0] for memory in PERSON.learnt])
    same = topics[:, None] == topics[None, :]
    np.fill_diagonal(same, False)
    apart = topics[:, None] != topics[None, :]
    assert cosines[same].mean() > 0.1 + cosines[apart].mean()


def test_a_vector_is_that_of_its_text_and_has_the_dimensions_of_the_benchmark() -> None:
    one = vector("One text.")
    assert one.dtype == np.dtype("<f4")
    assert (one == vector("One text.")).all()
    assert float(one @ vector("Another text.")) < 0.9
    assert len(one) == DIMENSIONS


def test_questions_are_never_the_same_and_find_what_they_are_about() -> None:
    questions = Questions("seed")
    asked = [questions.ask("p200-0") for _ in range(500)]
    assert len(set(asked)) == 500
    again = Questions("seed")
    assert [again.ask("p200-0") for _ in range(500)] == asked
    best = [float((PERSON.vectors.astype(np.float32) @ vector(text)).max()) for text in asked[:50]]
    assert np.mean(best) > 0.3


def test_every_memory_has_the_message_it_came_from() -> None:
    assert len(EXPORT["conversations"]) == 200 / OF_A_CONVERSATION
    said = {
        (message["conversation_id"], message["message_id"]): message
        for message in EXPORT["messages"]
    }
    for memory in PERSON.learnt:
        assert said[memory.row["conversation_id"], memory.message_id]["content"] == memory.words
    assert {message["role"] for message in said.values()} == {"user", "assistant"}
    # What a memory says was said.
    memory = PERSON.learnt[0]
    assert set(query_terms(memory.row["content"])) <= set(query_terms(memory.words + " with"))


def test_a_copy_asks_what_its_original_would() -> None:
    assert original_of("p200-3~17") == original_of("p200-3") == "p200-3"
    assert topics_of(original_of("p200-3~17")) == topics_of("p200-3")


def test_the_stores_have_the_sizes_of_the_bars() -> None:
    options = RetrievalOptions()
    assert options.store == 20_000
    assert options.store * COPIES == 1_000_000
    small, large = list(small_store(options)), list(large_store(options))
    for size, count in COUNTS.items():
        of_size = [group for group in small if group.place.size == size]
        assert {group.place.callers for group in of_size} == {1, 8, 32}
        assert all(len(group.users) == group.place.spread == count for group in of_size)
    for group in large:
        assert len(set(group.users)) == group.place.spread == len(group.users)
        assert all("~" in user and 1 <= int(user.split("~")[1]) < COPIES for user in group.users)
    assert max(group.place.spread for group in large) == 20 * (COPIES - 1)
