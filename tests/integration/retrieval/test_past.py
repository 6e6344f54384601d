"""D9 in the storage: what was true at a time, and what was known (details B12, B13, C1, C2, C5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from psycopg.types.json import Jsonb

from hitherto_retrieval.search.corpora.memories import with_old_words
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import conversations, past, people
from hitherto_retrieval.storage.filtered_candidates import PastCandidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_shared.database.pool import Database
from hitherto_shared.text.bm25 import Statistics
from tests.integration.retrieval.moments import MODEL, NOW, day, listed, said, searched
from tests.integration.retrieval.questions import ANA, Reader, answer, unit_vectors
from tests.integration.retrieval.seed import Fact, summarise
from tests.integration.retrieval.versions import Story


async def test_c1_a_group_that_was_merged_twice_answers_once_at_every_moment(
    reader: Database, story: Story
) -> None:
    """Of every time, and at every state of knowledge, each part is said by one memory."""
    a, b, c, ab, abc = await story.learn(
        Fact("a", created_at=day(100), valid_from=day(10)),
        Fact("b", created_at=day(101), valid_from=day(20)),
        Fact("c", created_at=day(102), valid_from=day(40)),
        Fact("a b", created_at=day(200), valid_from=day(20)),
        Fact("a b c", created_at=day(300), valid_from=day(40)),
    )
    story.merge(ab, [a, b], day(200))
    story.merge(abc, [ab, c], day(300))
    cached = {"a": 10, "b": 20, "c": 40}
    learnt = {"a": 100, "b": 101, "c": 102}
    for known in (99, 100, 101.5, 150, 199, 200, 250, 299, 300, 400, None):
        for as_of in (5, 10, 15, 20, 30, 40, 41, 2000, None):
            moment = Moment(
                as_of=None if as_of is None else day(as_of),
                known_at=None if known is None else day(known),
            )
            told = " ".join(await said(reader, moment)).split()
            assert sorted(told) == [
                part
                for part in cached
                if (as_of is None or cached[part] <= as_of)
                and (known is None or learnt[part] <= known)
            ], (known, as_of)


async def test_quarantine_is_no_matter_of_time(reader: Database, story: Story) -> None:
    _, approved = await story.learn(
        Fact("held back", status="quarantined", created_at=day(10)),
        Fact("approved", status="quarantined", created_at=day(10)),
    )
    story.change(approved, day(20), status="active")
    assert await said(reader, Moment(as_of=day(15))) == ["approved"]
    assert await said(reader, Moment(known_at=day(15))) == []
    assert await said(reader, Moment(known_at=day(25))) == ["approved"]
    waiting = Filters(statuses=["quarantined"], only_current=False)
    assert await said(reader, Moment(known_at=day(15)), waiting) == ["approved", "held back"]


async def test_c2_what_was_archived_later_was_current_before(
    reader: Database, story: Story
) -> None:
    faded, running = await story.learn(
        Fact("the release is near", type="context", created_at=day(10)),
        Fact("Ana wants a dog", type="goal", created_at=day(10), importance=0.4),
    )
    story.change(running, day(40), status="achieved", importance=0.2, valid_to=day(40))
    for memory_id in (faded, running):
        story.change(memory_id, day(100), status="archived", expires_at=day(100))
    for moment, told in [
        (Moment(as_of=day(30)), ["active", "active"]),
        (Moment(as_of=day(50)), ["achieved", "active"]),
        (Moment(as_of=day(100)), []),
        (Moment(known_at=day(99)), ["achieved", "active"]),
        (Moment(known_at=day(101)), []),
        # It was achieved by then, and was still shown on day 50.
        (Moment(as_of=day(50), known_at=day(101)), ["achieved", "active"]),
    ]:
        found = await listed(reader, moment)
        assert sorted(memory.status for memory in found) == told, moment
    found = await listed(reader, Moment(as_of=day(30)))
    assert {memory.importance for memory in found} == {0.4, 0.5}
    assert {memory.expires_at for memory in found} == {None}


async def test_b9_what_expires_is_left_out_from_then_on(reader: Database, story: Story) -> None:
    await story.learn(
        Fact("Ana is in Rome this week", created_at=day(10), expires_at=day(17)),
        Fact("Ana has a visitor", created_at=day(10), expires_at=NOW + timedelta(days=5)),
    )
    both = ["Ana has a visitor", "Ana is in Rome this week"]
    for moment, told in [
        (Moment(as_of=day(12)), both),
        (Moment(as_of=day(17)), both[:1]),
        (Moment(known_at=day(12)), both),
        (Moment(known_at=day(18)), both[:1]),
        (Moment(as_of=NOW + timedelta(days=4)), both[:1]),
        (Moment(as_of=NOW + timedelta(days=6)), []),
        (Moment(), both[:1]),
    ]:
        assert await said(reader, moment) == told, moment
    found = await listed(reader, Moment(as_of=day(12)))
    assert {memory.expires_at for memory in found} == {day(17), NOW + timedelta(days=5)}


async def test_validity_set_by_hand_ends_without_a_successor(
    reader: Database, story: Story
) -> None:
    (lease,) = await story.learn(Fact("Ana rents a flat", created_at=day(10)))
    story.change(lease, day(20), valid_to=day(100))
    assert await said(reader, Moment(as_of=day(99))) == ["Ana rents a flat"]
    assert await said(reader, Moment(as_of=day(100))) == []
    assert await said(reader, Moment(as_of=day(100), known_at=day(15))) == ["Ana rents a flat"]
    assert await said(reader, Moment(known_at=day(500))) == ["Ana rents a flat"]


async def test_supersedes_names_only_what_was_known_to_be_replaced(
    reader: Database, story: Story
) -> None:
    """A second contradiction is written into the newer memory without a new version."""
    first, second, newer = await story.learn(
        Fact("first", created_at=day(10)),
        Fact("second", created_at=day(10)),
        Fact("newer", created_at=day(20)),
    )
    story.write(
        "UPDATE memories SET supersedes = %(both)s WHERE memory_id = %(memory_id)s",
        both=[first, second],
        memory_id=newer,
    )
    ended = {"status": "contradicted", "superseded_by": newer, "valid_to": day(20)}
    story.change(first, day(21), **ended)
    story.change(second, day(40), **ended)
    story.change(second, day(50), importance=0.1)
    # Taken back: the second one holds again.
    story.change(second, day(70), status="active", superseded_by=None, valid_to=None)
    for number, named in [
        (20, []),
        (21, [first]),
        (39, [first]),
        (40, [first, second]),
        (60, [first, second]),
        (69, [first, second]),
        (70, [first]),
        (80, [first]),
    ]:
        (found,) = await answer(reader, past.whole(ANA, Moment(known_at=day(number)), [newer]))
        assert found.supersedes == named, number


async def test_other_peoples_past_stays_theirs(reader: Reader, story: Story) -> None:
    (mine,) = await story.learn(Fact("mine", created_at=day(10)))
    ben = Story(reader.superuser, "ben")
    (his,) = await ben.learn(Fact("his", created_at=day(10)))
    ben.change(his, day(50), content="his new words")
    for moment in (Moment(known_at=day(20)), Moment(as_of=day(20))):
        assert await said(reader, moment) == ["mine"]
        found = await answer(reader, past.whole(ANA, moment, [his, mine]))
        assert [memory.memory_id for memory in found] == [mine]


async def test_what_is_forgotten_now_is_in_no_past(reader: Database, story: Story) -> None:
    """With the parts of a forgotten merge; whatever is asked for by status."""
    _, gone, part, merged, older = await story.learn(
        Fact("kept", created_at=day(100)),
        Fact("gone", created_at=day(100)),
        Fact("part", created_at=day(100), valid_from=day(10)),
        Fact("merged", created_at=day(200), valid_from=day(50)),
        Fact("older", created_at=day(100), valid_from=day(100)),
    )
    story.merge(merged, [part], day(200))
    story.change(older, day(210), status="contradicted", superseded_by=gone, valid_to=day(150))
    for memory_id in (gone, merged):
        story.change(memory_id, day(300), status="forgotten", superseded_by=None)
    every = Filters(
        statuses=["active", "superseded", "contradicted", "archived", "quarantined", "forgotten"],
        only_current=False,
    )
    for moment in (
        Moment(known_at=day(150)),
        Moment(as_of=day(120)),
        Moment(as_of=day(120), known_at=day(250)),
    ):
        # What another memory replaced is another statement: it was not taken back.
        assert await said(reader, moment) == ["kept", "older"], moment
        assert await said(reader, moment, every) == ["kept", "older"], moment
        assert await answer(reader, past.whole(ANA, moment, [gone, part, merged])) == []


async def test_d8_filters_ask_about_the_state_of_that_time(reader: Database, story: Story) -> None:
    work, _ = await story.learn(
        Fact("Ana codes", created_at=day(10), tags=["hobby"], metadata={"project": "old"}),
        Fact("Ana swims", created_at=day(12), tags=["sport"], conversation_id="c1"),
    )
    story.change(
        work, day(20), tags=["work"], type="decision", confidence="low",
        metadata=Jsonb({"project": "new"}),
    )  # fmt: skip
    for filters, before, after in [
        (Filters(tags=["hobby"]), ["Ana codes"], []),
        (Filters(tags=["work"]), [], ["Ana codes"]),
        (Filters(types=["decision"]), [], ["Ana codes"]),
        (Filters(confidences=["high"]), ["Ana codes", "Ana swims"], ["Ana swims"]),
        (Filters(metadata={"project": "old"}), ["Ana codes"], []),
        (Filters(metadata={"project": "new"}), [], ["Ana codes"]),
        (Filters(conversation_id="c1"), ["Ana swims"], ["Ana swims"]),
        (Filters(created_after=day(11)), ["Ana swims"], ["Ana swims"]),
        (Filters(created_before=day(11)), ["Ana codes"], ["Ana codes"]),
    ]:
        assert await said(reader, Moment(known_at=day(15)), filters) == before, filters
        assert await said(reader, Moment(known_at=day(25)), filters) == after, filters


async def test_d14_pages_of_the_past_are_whole_in_every_order(
    reader: Database, story: Story
) -> None:
    facts = [Fact(f"fact {n}", created_at=day(n), importance=n % 3 / 4) for n in range(1, 8)]
    ids = await story.learn(*facts)
    for n, memory_id in enumerate(ids, 1):
        story.change(memory_id, day(100 + n), importance=1.0)
    moment = Moment(known_at=day(50))
    newest = await listed(reader, moment)
    assert [m.content for m in newest] == [f"fact {n}" for n in range(7, 0, -1)]
    for order_by in ("importance", "usefulness"):
        found = await listed(reader, moment, order_by=order_by)
        assert [m.importance for m in found] == sorted(
            (n % 3 / 4 for n in range(1, 8)), reverse=True
        )
        assert {m.content for m in found} == {fact.content for fact in facts}
    found = await listed(reader, moment, order_by="last_accessed_at")
    assert [m.content for m in found] == [m.content for m in newest]


async def test_d1_the_top_of_a_moment(reader: Database, story: Story) -> None:
    grew, _, _ = await story.learn(
        Fact("grew", created_at=day(10), importance=0.2),
        Fact("steady", created_at=day(11), importance=0.6),
        Fact("later", created_at=day(60), importance=0.9),
    )
    story.change(grew, day(30), importance=1.0)

    async def top(moment: Moment, *, newest_first: bool = False, limit: int = 2) -> list[str]:
        found = past.top(ANA, moment, limit=limit, newest_first=newest_first)
        return [memory.content for memory in await answer(reader, found)]

    assert await top(Moment(known_at=day(20))) == ["steady", "grew"]
    assert await top(Moment(known_at=day(40))) == ["grew", "steady"]
    assert await top(Moment(as_of=day(20))) == ["grew", "steady"]
    assert await top(Moment()) == ["grew", "later"]
    assert await top(Moment(), newest_first=True) == ["later", "steady"]
    assert await top(Moment(known_at=day(5))) == []


# D9 in a search: candidates of a moment, and words that memories no longer have.


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


# D9 around the memories: profile, summaries and entities of a moment (D1, E1).


async def test_summaries_that_were_written_or_talk_that_went_on_later_are_left_out(
    reader: Reader, story: Story
) -> None:
    await story.learn(Fact("any", created_at=day(1)))
    for name, said_at, written_at in (("a", 10, 100), ("b", 20, 200), ("c", 30, 300)):
        await summarise(reader.superuser, "ana", name, f"about {name}", said_at=day(said_at))
        story.write(
            "UPDATE conversation_summaries SET updated_at = %(at)s"
            " WHERE conversation_id = %(name)s",
            at=day(written_at),
            name=name,
        )
    for moment, first, limit, found in [
        (Moment(), None, 5, ["c", "b", "a"]),
        (Moment(known_at=day(200)), None, 5, ["b", "a"]),
        (Moment(known_at=day(200)), "a", 5, ["a", "b"]),
        (Moment(known_at=day(200)), "c", 1, ["b"]),
        (Moment(as_of=day(15)), None, 5, ["a"]),
        (Moment(as_of=day(25), known_at=day(150)), None, 5, ["a"]),
        (Moment(known_at=day(99)), None, 5, []),
    ]:
        asked = conversations.recent(ANA, moment=moment, first=first, limit=limit)
        summaries = await answer(reader, asked)
        assert [summary.conversation_id for summary in summaries] == found, moment


async def test_entities_are_those_met_by_then(reader: Database, story: Story) -> None:
    await story.learn(
        Fact("Rex barks", created_at=day(1), entities=["Rex"]),
        Fact("Rex and Max play", created_at=day(1), entities=["Rex", "Max"]),
    )
    story.write("UPDATE entities SET created_at = %(at)s WHERE name = 'Rex'", at=day(10))
    story.write("UPDATE entities SET created_at = %(at)s WHERE name = 'Max'", at=day(20))

    async def known(number: int, *named: str) -> list[str]:
        asked = people.known_entities(ANA, known_at=day(number), named=named, limit=5)
        return [entity.name for entity in await answer(reader, asked)]

    assert await known(9) == []
    assert await known(10) == ["Rex"]
    assert await known(20) == ["Rex", "Max"]
    assert await known(20, "max") == ["Max", "Rex"]
