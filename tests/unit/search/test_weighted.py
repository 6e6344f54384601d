"""The ranking `weighted` (requirements D4, D5, D6, F2)."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate, Ranking
from hitherto_retrieval.search.ranking.weighted import Weighted, leaves_out_episodic
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind
from hitherto_shared.dates.window import Window

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=4_000)
INTENT = QueryIntent(NOW)
RECENT = QueryIntent(NOW, most_recent=True)
RANKING: Ranking = Weighted()
PARTS = {
    *("semantic", "recency", "entity", "source_priority", "fulltext", "keyword", "date"),
    *("temporal", "cap"),
}


def item(number: int = 1, kind: Kind = "memory", key: Key | None = None, **more: Any) -> Candidate:
    keys: dict[Kind, Key] = {"message": ("talk", number), "summary": f"talk{number}"}
    return Candidate(
        kind=kind,
        key=key if key is not None else keys.get(kind, UUID(int=number)),
        happened_at=more.pop("happened_at", LONG_AGO),
        created_at=more.pop("created_at", NOW),
        **more,
    )


def only(candidate: Candidate, intent: QueryIntent = INTENT, **weights: float) -> RankedCandidate:
    (ranked,) = RANKING.rank([candidate], intent, weights)
    assert math.isclose(ranked.score, sum(ranked.breakdown.values()), abs_tol=1e-9)
    assert set(ranked.breakdown) == PARTS
    assert set(RANKING.weights) == PARTS - {"cap"}
    return ranked


def test_d4_the_worked_example_of_the_document_is_0_827() -> None:
    """Seed 003, "Example Calculation": 0.39 + 0.197 + 0.1 + 0.1 + 0.04 = 0.827."""
    email = item(
        kind="document",
        happened_at=NOW - timedelta(days=5),
        source_type="gmail",
        cosine=0.78,
        entities=1,
        text_rank=0.8,
    )
    ranked = only(email)
    assert ranked.score == pytest.approx(0.827, abs=5e-4)
    assert ranked.breakdown == {
        "semantic": pytest.approx(0.39),
        "recency": pytest.approx(0.197, abs=5e-4),
        "entity": pytest.approx(0.1),
        "source_priority": pytest.approx(0.1),
        "fulltext": pytest.approx(0.04),
        "keyword": 0.0,
        "date": 0.0,
        "temporal": 0.0,
        "cap": 0.0,
    }


def test_d4_freshness_falls_to_0_in_a_year() -> None:
    for age, recency in [
        (timedelta(0), 0.2),
        (timedelta(hours=23), 0.2),
        (timedelta(days=73), 0.16),
        (timedelta(days=365), 0.0),
        (timedelta(days=3_000), 0.0),
        (timedelta(days=-9), 0.2),
    ]:
        assert only(item(happened_at=NOW - age)).breakdown["recency"] == pytest.approx(recency)


def test_d4_sources_have_their_documented_priority() -> None:
    for source, priority in [
        ("gmail", 0.10), ("outlook", 0.10), ("gdrive", 0.08), ("onedrive", 0.08), ("jira", 0.07),
        ("calendar", 0.05), ("wiki", 0.0), ("", 0.0),
    ]:  # fmt: skip
        found = only(item(kind="document", source_type=source)).breakdown["source_priority"]
        assert found == pytest.approx(priority), source
    for nothing in (-0.7, math.nan):
        assert only(item(cosine=nothing)).score == 0.0


def test_d4_a_weight_is_the_most_its_component_adds() -> None:
    one = item(
        kind="document", source_type="jira", happened_at=NOW, cosine=0.5, entities=1, text_rank=1
    )
    assert only(one, semantic=2.0).breakdown["semantic"] == pytest.approx(1.0)
    assert only(one, recency=1.0).breakdown["recency"] == pytest.approx(1.0)
    assert only(one, entity=0.6).breakdown["entity"] == pytest.approx(0.2)
    assert only(one, source_priority=1.0).breakdown["source_priority"] == pytest.approx(0.7)
    assert only(one, fulltext=0.4).breakdown["fulltext"] == pytest.approx(0.2)
    for name in RANKING.weights:
        assert only(one, INTENT, **{name: 0.0}).breakdown[name] == 0.0


def test_f2_episodic_items_score_by_common_words_and_recency() -> None:
    intent = QueryIntent(NOW, words=("what", "did", "ha", "noi"))
    message = item(
        kind="message",
        happened_at=NOW - timedelta(days=73),
        words="Hà Nội, did you say? HÀ NỘI!",
        cosine=1.0,
        entities=3,
        text_rank=9,
    )
    ranked = only(message, intent)
    assert ranked.score == pytest.approx((3 / 4 * 0.4 + 0.8 * 0.3) * 0.5)
    assert {name for name, part in ranked.breakdown.items() if part} == {"keyword", "recency"}
    assert only(item(kind="summary"), intent).score == 0.0
    assert only(item(kind="summary", words="noi"), INTENT).score == 0.0
    summary = item(kind="summary", words="Hà Nội, what did", happened_at=NOW)
    assert only(summary, intent).score == pytest.approx(0.35)
    capped = only(summary, intent, keyword=0.8)
    assert capped.score == 0.5
    assert capped.breakdown["cap"] == pytest.approx(0.5 - 0.95)


def test_ties_go_by_importance_then_the_newest_then_the_key() -> None:
    important = item(9, importance=0.9)
    newer = item(8, importance=0.5, created_at=NOW)
    older = item(7, importance=0.5, created_at=NOW - timedelta(days=1))
    kinds = [item(1, "document"), item(1), item(2), item(1, "message"), item(1, "summary")]
    expected = [important, newer, older, *kinds]
    for seed in range(9):
        shuffled = random.Random(seed).sample(expected, len(expected))
        assert [r.candidate for r in RANKING.rank(shuffled, INTENT, {})] == expected


def test_d5_d6_episodic_items_are_left_out_where_something_else_was_asked_for() -> None:
    for intent in [RECENT, QueryIntent(NOW, source_types=frozenset({"gmail"}))]:
        everything = [item(1), item(2, "message"), item(3, "summary"), item(4, "document")]
        assert leaves_out_episodic(intent)
        assert {r.candidate.kind for r in RANKING.rank(everything, intent, {})} == {
            "memory",
            "document",
        }
        assert not leaves_out_episodic(INTENT), intent
        assert len(RANKING.rank(everything, INTENT, {})) == 4, intent


def test_d5_the_most_recent_come_first_by_time_with_0_9() -> None:
    day = timedelta(days=1)
    # What is newest by its own time was stored first.
    old, older = (
        item(300 - n, most_recent=True, happened_at=NOW - n * day, created_at=NOW - (300 - n) * day)
        for n in (100, 200)
    )
    new = item(
        3,
        "document",
        most_recent=True,
        happened_at=NOW - day,
        created_at=NOW - 299 * day,
        cosine=0.1,
    )
    near = item(4, "document", happened_at=NOW, cosine=0.9, source_type="gmail", entities=3)
    far = item(5, cosine=0.2)
    ranked = RANKING.rank([far, older, near, new, old], RECENT, {})
    assert [r.candidate for r in ranked] == [new, old, older, near, far]
    assert [r.score for r in ranked[:3]] == [0.9] * 3
    assert ranked[0].breakdown["temporal"] == pytest.approx(0.9 - 0.05 - 0.2 * 364 / 365)
    # Nothing passes them: the order is that of the scores.
    assert ranked[3].score == 0.9
    assert ranked[3].breakdown["cap"] == pytest.approx(0.9 - (0.45 + 0.2 + 0.3 + 0.1))
    assert ranked[4].score == pytest.approx(0.1)


def test_d5_beside_the_most_recent_an_episodic_item_keeps_its_limit() -> None:
    intent = replace(RECENT, topic=True, words=("atlas",))
    about = item(1, most_recent=True, bm25=1.0)
    beside = item(2, "summary", most_recent=True, words="Atlas", happened_at=NOW)
    first, second = RANKING.rank([about, beside], intent, {"keyword": 2.0})
    assert (first.score, second.candidate, second.score) == (0.9, beside, 0.5)


def test_d5_the_fixed_score_is_a_weight_and_0_does_without_it() -> None:
    recent = item(most_recent=True, cosine=0.5)
    assert only(recent, RECENT, temporal=0.4).score == 0.4
    assert only(recent).breakdown["temporal"] == 0.0
    assert only(recent, RECENT, temporal=0.0).score == pytest.approx(0.25)
    strong = item(2, cosine=1.0, happened_at=NOW, entities=3)
    assert RANKING.rank([recent, strong], RECENT, {"temporal": 0.0})[0].candidate is strong


def test_d5_a_named_time_brings_what_was_said_then_to_the_front() -> None:
    day = timedelta(days=1)
    intent = QueryIntent(NOW, window=Window(NOW - 31 * day, NOW - day, "in May"))
    inside = item(1, happened_at=NOW - 10 * day, cosine=0.3)
    outside = item(2, happened_at=NOW - 300 * day, cosine=0.7)
    ranked = RANKING.rank([outside, inside], intent, {})
    assert [r.candidate for r in ranked] == [inside, outside]
    assert ranked[0].breakdown["date"] == 0.4
    assert ranked[1].breakdown["date"] == pytest.approx(0.0, abs=1e-9)
    assert only(inside, intent, date=0.0).score == only(inside).score
    assert (ranked[0].timely, ranked[1].timely, only(inside).timely) == (True, False, False)


_moments = st.datetimes(
    datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)
) | st.integers(-400, 400).map(lambda days: NOW + timedelta(days=days))
_texts = st.text(st.characters(codec=None), max_size=40)
_candidates = st.lists(
    st.builds(
        item,
        number=st.integers(0, 10_000),
        kind=st.sampled_from(("memory", "message", "summary", "document")),
        happened_at=_moments,
        created_at=_moments,
        importance=st.sampled_from((0.0, 0.5, 1.0)),
        source_type=st.sampled_from(("", "gmail", "jira", "elsewhere")),
        cosine=st.none() | st.floats(-1.001, 1.001),
        text_rank=st.floats(0, 100),
        entities=st.integers(0, 8),
        most_recent=st.booleans(),
        words=_texts,
    ),
    max_size=6,
    unique_by=lambda candidate: (candidate.kind, candidate.key),
)
_lights = st.builds(
    QueryIntent,
    now=st.just(NOW),
    words=st.lists(_texts, max_size=5, unique=True),
    most_recent=st.booleans(),
    topic=st.booleans(),
    window=st.none() | st.just(Window(NOW - timedelta(days=31), NOW, "in May")),
    source_types=st.sampled_from((frozenset(), frozenset({"gmail"}))),
)
_weights = st.dictionaries(st.sampled_from(sorted(RANKING.weights)), st.floats(0, 100), max_size=7)


@settings(deadline=None)
@given(_candidates, _lights, _weights)
def test_d4_the_parts_add_up_to_the_score(
    candidates: list[Candidate], intent: QueryIntent, weights: dict[str, float]
) -> None:
    for ranked in RANKING.rank(candidates, intent, weights):
        assert set(ranked.breakdown) == PARTS
        assert math.isclose(ranked.score, sum(ranked.breakdown.values()), abs_tol=1e-9)
        assert ranked.breakdown["cap"] <= 0.0 <= ranked.breakdown["temporal"]
        assert ranked.score >= 0.0


@settings(deadline=None)
@given(_candidates, _lights)
def test_d4_scores_lie_between_0_and_1_2_best_first(
    candidates: list[Candidate], intent: QueryIntent
) -> None:
    ranked = RANKING.rank(candidates, intent, {})
    scores = [r.score for r in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.2 + 1e-9 for score in scores)
    for first, second in itertools.pairwise(r.candidate.most_recent for r in ranked):
        assert first or not second or not intent.most_recent or intent.topic
