"""The ranking `balanced` (D4): parts that add up, on a scale of 0..1, in a settled order."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_retrieval.search.ranking.balanced import Balanced
from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.standing import as_they_stand
from hitherto_retrieval.search.ranking.turns import near_pairs
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.standing import Standing
from hitherto_shared.dates.window import Window

NOW = datetime(2025, 6, 1, tzinfo=UTC)
MAY = Window(datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC), "in May")


def candidate(
    number: int = 1,
    *,
    importance: float = 0.5,
    created_at: datetime = NOW,
    valid_from: datetime = NOW,
    bm25: float = 0.0,
    cosine: float | None = None,
    source_cosine: float | None = None,
    conversation_id: str | None = None,
    entities: int = 0,
) -> Candidate:
    return Candidate(
        "memory",
        UUID(int=number),
        happened_at=valid_from,
        created_at=created_at,
        conversation_id=conversation_id,
        importance=importance,
        bm25=bm25,
        cosine=cosine,
        source_cosine=source_cosine,
        entities=entities,
    )


def rank(
    candidates: Sequence[Candidate], window: Window | None, weights: Mapping[str, float]
) -> list[RankedCandidate]:
    return Balanced().rank(candidates, QueryIntent(now=NOW, window=window), weights)


def test_the_parts_add_up_to_a_score_between_0_and_1() -> None:
    numbers = random.Random(4)
    candidates = [
        candidate(
            n,
            bm25=numbers.choice([0.0, numbers.uniform(0, 60)]),
            cosine=numbers.choice([None, numbers.uniform(-1, 1)]),
            source_cosine=numbers.choice([None, numbers.uniform(-1, 1)]),
            valid_from=NOW - timedelta(days=numbers.uniform(0, 900)),
        )
        for n in range(300)
    ]
    for weights in ({}, {"date": 0.0}, {"semantic": 100.0, "keyword": 0.0}):
        for item in rank(candidates, MAY, weights):
            assert math.isclose(item.score, sum(item.breakdown.values()), abs_tol=1e-9)
            assert 0.0 <= item.score <= 1.0
            assert set(item.breakdown) == {*Balanced.weights, "facts"}


def test_vectors_that_compare_spelling_count_half_unless_the_request_says_otherwise() -> None:
    alike = candidate(1, cosine=0.8, source_cosine=0.8)
    worded = candidate(2, bm25=8.0)
    found = Balanced()
    usual = found.rank([alike, worded], QueryIntent(now=NOW), {})
    assert [item.candidate for item in usual] == [alike, worded]
    spelt = QueryIntent(now=NOW, by_spelling=True)
    by_spelling = found.rank([alike, worded], spelt, {})
    assert by_spelling[0].breakdown["semantic"] == by_spelling[0].breakdown["source"] * 2
    assert by_spelling[0].breakdown["semantic"] < by_spelling[1].breakdown["keyword"]
    asked = found.rank([alike, worded], spelt, {"semantic": 1.0, "source": 0.5})
    assert [item.breakdown for item in asked] == [item.breakdown for item in usual]
    perfect = candidate(3, bm25=1e9, cosine=1.0, source_cosine=1.0)
    assert 0.5 < found.rank([perfect], spelt, {})[0].score <= 1.0


def test_the_formula_is_the_documented_one() -> None:
    (item,) = rank([candidate(bm25=8.0, cosine=0.6, source_cosine=0.4)], None, {})
    assert item.score == pytest.approx((0.6 + 0.5 * 0.4 + 0.5) / (3.0 * 1.5))
    # A weight of 0 silences a component, and the others share the scale.
    alone = {**dict.fromkeys(Balanced.weights, 0.0), "semantic": 1.0}
    (item,) = rank([candidate(bm25=5.0, cosine=0.5)], None, alone)
    assert item.breakdown["keyword"] == 0.0
    assert item.score == pytest.approx(0.5)


def test_equal_scores_go_by_importance_then_newest() -> None:
    """D3."""
    intent = candidate(1, importance=0.2)
    old = candidate(2, importance=0.9, created_at=NOW - timedelta(days=2))
    new = candidate(3, importance=0.9)
    assert [item.candidate for item in rank([intent, old, new], None, {})] == [new, old, intent]


def test_a_conversation_lifts_what_was_said_in_it() -> None:
    """Design §5: half the best score of the same conversation, that of the item itself included."""
    strong = candidate(1, cosine=0.8, conversation_id="c1")
    beside = candidate(2, cosine=0.3, conversation_id="c1")
    apart = candidate(3, cosine=0.4)
    ranked = rank([strong, beside, apart], None, {})
    assert [item.candidate for item in ranked] == [strong, beside, apart]
    assert ranked[0].breakdown["session"] == pytest.approx(0.5 * 0.8 / 4.5)
    assert ranked[1].breakdown["session"] == pytest.approx(0.5 * 0.8 / 4.5)
    assert ranked[2].breakdown["session"] == 0.0
    assert all(math.isclose(item.score, sum(item.breakdown.values())) for item in ranked)


def message(
    number: int, conversation: str = "c1", role: str | None = None, **features: Any
) -> Candidate:
    """A message of a conversation whose speakers take turns, and have names if none is given."""
    features.setdefault("speaker", "Maren")
    return Candidate(
        "message",
        (conversation, number),
        happened_at=NOW,
        created_at=NOW,
        conversation_id=conversation,
        role=role or ("user", "tool")[number % 2],
        **features,
    )


def test_a_message_is_lifted_by_those_beside_it_and_by_what_was_learnt_from_it() -> None:
    """Design §5."""
    strong = message(5, cosine=0.8)
    one_away, two_away, far = message(6), message(7), message(20)
    learnt = message(30, conversation="c2", cosine=0.2, fact_cosine=0.7, fact_bm25=8.0)
    ranked = {
        item.candidate.key: item
        for item in rank([strong, one_away, two_away, far, learnt], None, {})
    }
    scale = 3.0 * 2.0
    assert ranked["c1", 6].breakdown["neighbour"] == pytest.approx(0.5 * 0.6 * 0.8 / scale)
    assert ranked["c1", 7].breakdown["neighbour"] == pytest.approx(0.5 * 0.4 * 0.8 / scale)
    assert ranked["c1", 20].breakdown["neighbour"] == 0.0
    assert ranked["c1", 20].score > 0.0  # the conversation lifts it all the same
    assert ranked["c2", 30].breakdown["facts"] == pytest.approx((0.5 + 0.5) / scale)
    assert ranked["c2", 30].breakdown["semantic"] == pytest.approx(0.2 / scale)


def test_what_an_unnamed_assistant_says_counts_less_unless_it_is_asked_for() -> None:
    """By all components of its own; a named one is a person of a group."""
    features: dict[str, Any] = {"cosine": 0.6, "bm25": 4.0, "fact_cosine": 0.7}
    plain = message(1, "c1", "assistant", speaker="", **features)
    named = message(1, "c2", "assistant", speaker="Ada", **features)
    said = message(1, "c3", "user", **features)
    ranked = {item.candidate.key: item for item in rank([plain, named, said], None, {})}
    assert ranked["c2", 1].score == pytest.approx(ranked["c3", 1].score)
    # Its scale is smaller: in its conversation, neighbours count half.
    assert ranked["c1", 1].score * 5.25 == pytest.approx(0.7 * ranked["c3", 1].score * 6.0)
    assert sum(ranked["c1", 1].breakdown.values()) == pytest.approx(ranked["c1", 1].score)
    asked = Balanced().rank([plain, said], QueryIntent(now=NOW, assistant=True), {})
    assert asked[0].score == pytest.approx(asked[1].score)


def test_what_one_speaker_says_in_several_messages_is_one_turn() -> None:
    """The reply to the strong message is three messages away; one part of a turn counts less."""
    roles = ["tool", "user", "user", "user", "tool", "tool", "user"]
    said = [message(n, role=role) for n, role in enumerate(roles)]
    said[2].cosine = 0.8
    found = rank(said, None, {})
    lift = {item.candidate.key: item.breakdown["neighbour"] * 6.0 / 0.5 for item in found}
    next_turn, farther = 0.6 * 0.8, 0.4 * 0.8
    expected = [next_turn, farther, 0.0, farther, next_turn, next_turn, farther]
    assert [lift["c1", n] for n in range(7)] == pytest.approx(expected)


def test_neighbours_count_half_in_a_conversation_with_an_assistant() -> None:
    """Not where it is asked what the assistant said, nor among people, who have names."""
    said = [message(1, role="user", cosine=0.8), message(2, role="assistant")]
    for intent, names, share in (
        (QueryIntent(now=NOW), ("", ""), 0.5),
        (QueryIntent(now=NOW, assistant=True), ("", ""), 1.0),
        (QueryIntent(now=NOW), ("Bo", "Ada"), 1.0),
    ):
        named = [replace(each, speaker=name) for each, name in zip(said, names, strict=True)]
        beside = Balanced().rank(named, intent, {})[1]
        scale = 3.0 * (1 + 0.5 + share * 0.5)
        assert beside.breakdown["neighbour"] == pytest.approx(share * 0.5 * 0.6 * 0.8 / scale)


def test_a_speaker_is_named_by_a_part_of_the_name() -> None:
    for speaker, names, named in [
        ("Fahim Khan", ["fahim"], True), ("Fahim Khan", ["khan"], True),
        ("Fahim Khan", ["fahim khan"], True), ("FAHIM", ["fahim"], True),
        ("Nguyễn Thị Lan", ["lan"], True), ("Fahim K", ["k"], False),
        ("Fahima Khan", ["fahim"], False), ("", ["fahim"], False),
    ]:  # fmt: skip
        intent = QueryIntent(now=NOW, names=frozenset(names))
        (said,) = Balanced().rank([message(1, speaker=speaker)], intent, {})
        assert said.breakdown["speaker"] == (pytest.approx(0.2 / 6.0) if named else 0.0), speaker


def test_the_most_recent_come_by_time_and_what_is_still_to_come_does_not() -> None:
    """D5: those that the leg of the most recent brought in go before all others."""
    planned = candidate(1, valid_from=NOW + timedelta(days=400))
    newest = candidate(2, valid_from=NOW - timedelta(days=100))
    older = candidate(3, valid_from=NOW - timedelta(days=140))
    newer = candidate(4, valid_from=NOW - timedelta(days=1))
    for brought in (planned, newest, older):
        brought.most_recent = True
    ranked = Balanced().rank(
        [planned, newer, older, newest], QueryIntent(now=NOW, most_recent=True), {}
    )
    date = {item.candidate.key: item.breakdown["date"] for item in ranked}
    assert date[newest.key] == pytest.approx(0.4 / 4.5)
    assert date[newest.key] > date[older.key] > date[newer.key] > date[planned.key] == 0.0


def test_a_question_for_nothing_but_the_most_recent_is_answered_by_time_alone() -> None:
    """D5: how near "my last emails" is to the words of an email says nothing."""
    newest = candidate(1, valid_from=NOW - timedelta(days=1), cosine=0.0)
    older = candidate(2, valid_from=NOW - timedelta(days=2), cosine=0.9, bm25=9.0)
    for brought in (newest, older):
        brought.most_recent = True
    intent = QueryIntent(now=NOW, most_recent=True, topic=False)
    first, second = Balanced().rank([older, newest], intent, {})
    assert first.candidate is newest
    assert first.score == pytest.approx(2.4 / 4.5)
    assert second.breakdown["semantic"] == second.breakdown["keyword"] == 0.0
    about = QueryIntent(now=NOW, most_recent=True)
    assert Balanced().rank([older, newest], about, {})[0].candidate is older


def test_the_most_recent_message_is_the_first_whoever_takes_part_in_its_conversation() -> None:
    """Nothing but time counts: then messages among people have no larger scale."""
    said = [message(1, "c1"), *(message(n, "c2", speaker="") for n in range(2, 20, 2))]
    for days, each in enumerate(said, start=1):
        each.happened_at, each.most_recent = NOW - timedelta(days=days), True
    intent = QueryIntent(now=NOW, most_recent=True, topic=False)
    ranked = Balanced().rank(said[::-1], intent, {})
    assert [item.candidate.key for item in ranked] == [each.key for each in said]


def test_d5_the_most_recent_of_a_named_kind_are_counted_among_themselves() -> None:
    """A question for "my last email" does not speak of tasks."""
    mail, task = (
        Candidate("document", UUID(int=n), NOW - timedelta(days=age), NOW, source_type=source)
        for n, (source, age) in enumerate((("gmail", 30), ("jira", 1)))
    )
    mail.most_recent = task.most_recent = True
    intent = QueryIntent(now=NOW, most_recent=True, source_types=frozenset({"gmail", "outlook"}))
    first, second = Balanced().rank([task, mail], intent, {})
    assert (first.candidate, second.score) == (mail, 0.0)
    assert first.breakdown["date"] == pytest.approx(0.4 / 4.5)


def test_only_memories_in_or_near_the_window_were_found_by_their_time() -> None:
    inside, near, far = rank(
        [
            candidate(1, valid_from=MAY.start),
            candidate(2, valid_from=MAY.end + timedelta(days=5)),
            candidate(3, valid_from=MAY.end + timedelta(days=400)),
        ],
        MAY,
        {},
    )
    assert (inside.timely, near.timely, far.timely) == (True, True, False)
    assert inside.score > near.score > far.score


def test_the_kind_of_content_that_was_named_is_preferred() -> None:
    """D6."""
    mail, file = (
        Candidate("document", UUID(int=n), NOW, NOW, source_type=source, cosine=0.4)
        for n, source in enumerate(("gmail", "gdrive"))
    )
    intent = QueryIntent(now=NOW, source_types=frozenset({"gmail", "outlook"}))
    first, second = Balanced().rank([file, mail], intent, {})
    assert first.candidate is mail
    assert first.score - second.score == pytest.approx(0.2 / 4.5)


def test_a_score_stays_within_1_whatever_the_kinds_and_weights() -> None:
    """A message beside a memory of the same conversation, each as good as can be."""
    memory = candidate(1, bm25=1e9, cosine=1.0, source_cosine=1.0, conversation_id="c1", entities=1)
    messages = [
        message(n, cosine=1.0, bm25=1e9, speaker="Ana", source_type="x") for n in range(1, 6)
    ]
    intent = QueryIntent(now=NOW, names=frozenset({"ana"}), source_types=frozenset({"x"}))
    for weights in ({}, {"session": 9.0}, {"neighbour": 50.0, "speaker": 7.0}, {"semantic": 0.0}):
        ranked = Balanced().rank([memory, *messages], intent, weights)
        assert max(item.score for item in ranked) <= 1.0 + 1e-9


def test_of_how_things_stand_the_newest_of_equals_comes_first() -> None:
    """A message that is newer says nothing of it, nor does a newer memory of something else."""
    memories = [candidate(n, bm25=2.0, valid_from=NOW - timedelta(days=n)) for n in (1, 2, 3)]
    another = candidate(8, bm25=0.5, valid_from=NOW)
    message = replace(candidate(9, bm25=2.0), kind="message", key=("c1", 4), happened_at=NOW)
    given = [another, message, *reversed(memories)]
    ranked = Balanced().rank(given, QueryIntent(now=NOW, present=True), {})
    assert [r.candidate.key for r in ranked[:3]] == [m.key for m in memories]
    assert ranked[0].breakdown["date"] > ranked[1].breakdown["date"] > 0
    (said,) = (r for r in ranked if r.candidate.kind == "message")
    assert said.breakdown["date"] == 0
    (of_something_else,) = (r for r in ranked if r.candidate is another)
    assert of_something_else.breakdown["date"] < ranked[0].breakdown["date"]


def test_of_equals_what_is_certain_stands_before_what_is_in_doubt() -> None:
    doubtful, certain = candidate(1), candidate(2)
    ranked = [RankedCandidate(doubtful, 1.0, (), ()), RankedCandidate(certain, 0.8, (), ())]
    standing = Standing(frozenset({UUID(int=1)}))
    found = as_they_stand(ranked, standing)
    assert [(each.candidate, each.score) for each in found] == [(certain, 0.8), (doubtful, 0.8)]


def test_neighbours_are_two_turns_and_four_messages_away_at_most() -> None:
    ana, ben = ("user", "Ana"), ("user", "Ben")
    # Of the messages that are not known, each may be a turn.
    assert near_pairs([(("c", 1), ana), (("c", 2), ben), (("c", 5), ana)]) == [(0, 1, 1)]
    turn = [(("c", number), ana) for number in (1, 2, 3, 4, 6)]
    assert [pair for pair in near_pairs(turn) if pair[1] == 4] == [(3, 4, 2), (2, 4, 2), (1, 4, 2)]
