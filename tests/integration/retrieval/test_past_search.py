"""D9 in a search: candidates of a moment, and words that memories no longer have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hitherto_retrieval.search.corpora.memories import with_old_words
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.filtered_candidates import PastCandidate
from hitherto_retrieval.storage.moment import Moment
from hitherto_shared.database.pool import Database
from hitherto_shared.text.bm25 import Statistics
from tests.integration.retrieval.moments import ANA, MODEL, day, searched
from tests.integration.retrieval.questions import answer, unit_vectors
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.versions import Story


async def test_old_words_bring_in_what_no_other_leg_does_the_best_first(
    reader: Database, story: Story
) -> None:
    vectors = unit_vectors(31, seed=7)
    ids = await story.learn(
        *(Fact(f"topic {n}", created_at=day(10), vector=vectors[n]) for n in range(30)), model=MODEL
    )
    for n, memory_id in enumerate(ids):
        words = "walrus " * (1 + n % 3) if n >= 20 else "nothing much"
        story.change(memory_id, day(50), content=f"topic {n} again")
        story.write(
            "UPDATE memory_versions SET content = %(words)s WHERE memory_id = %(memory_id)s",
            words=words,
            memory_id=memory_id,
        )
    found = await searched(reader, Moment(known_at=day(20)), vector=vectors[30], wanted=5)
    assert len(found) == 30
    assert sum(candidate.chosen for candidate in found) == 5
    finished = with_old_words(found, TermIndex(["walrus"], [], Statistics(30, 60)), wanted=3)
    by_words = [c for c in finished if c.bm25 > 0]
    legs = {item.candidate.key for item in found if item.chosen}
    assert legs <= {candidate.key for candidate in finished}
    brought_in = [c for c in by_words if c.key not in legs]
    assert len(brought_in) == 3
    left_out = {m for n, m in enumerate(ids) if n >= 20} - {c.key for c in finished}
    most = {m for n, m in enumerate(ids) if n >= 20 and n % 3 == 2}
    assert not (left_out & most) or all(c.key in most for c in brought_in)
    # Without a question nothing comes in by words.
    unasked = TermIndex([], [], Statistics(30, 60))
    assert {c.key for c in with_old_words(found, unasked, wanted=3)} == legs


async def test_the_vector_of_a_later_wording_stands_for_the_old_one(
    reader: Database, story: Story
) -> None:
    vectors = unit_vectors(3, seed=3)
    one, two = await story.learn(
        *(Fact(f"text {n}", created_at=day(10), vector=vectors[n]) for n in range(2)), model=MODEL
    )
    story.change(one, day(50), content="text 0 in other words")
    story.write(
        "UPDATE memory_embeddings SET text_version = 2 WHERE memory_id = %(memory_id)s",
        memory_id=one,
    )
    for moment in (Moment(known_at=day(20)), Moment(known_at=day(60)), Moment(as_of=day(20))):
        found = await searched(reader, moment, vector=vectors[2])
        cosines = {item.candidate.key: item.candidate.cosine for item in found}
        for n, memory_id in enumerate((one, two)):
            assert cosines[memory_id] == pytest.approx(
                float(np.dot(vectors[n], vectors[2])), abs=1e-3
            )


async def test_every_leg_looks_at_the_moment(reader: Database, story: Story) -> None:
    """Entities, a time the question speaks of, and the newest: of what was known only."""
    await story.learn(
        *(
            Fact(f"old {n}", created_at=day(10), valid_from=day(n), entities=["Rex"])
            for n in range(1, 6)
        ),
        Fact("new", created_at=day(300), valid_from=day(3), entities=["Rex"]),
    )
    (rex,) = (await answer(reader, people.user(ANA, named=["rex"]))).entities
    moment = Moment(known_at=day(20))

    async def chosen(**sought: Any) -> list[PastCandidate]:
        found = await searched(reader, moment, **sought)
        return [item for item in found if item.chosen]

    everything = await chosen(entity_ids=[rex.entity_id])
    assert [item.candidate.entities for item in everything] == [1] * 5
    most_recent = [item.candidate for item in await chosen(newest=2, wanted=1)]
    assert sorted(c.happened_at for c in most_recent if c.most_recent) == [day(4), day(5)]
    in_time = await chosen(since=day(2), until=day(4), wanted=5)
    assert {item.candidate.happened_at for item in in_time} >= {day(2), day(3)}
    assert len(in_time) == 5
