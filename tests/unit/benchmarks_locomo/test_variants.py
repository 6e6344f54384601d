"""The rankings that are asked, taken from the service's own."""

from __future__ import annotations

from benchmarks.locomo.answers import ABLATIONS, COSINE, KEYWORD, idle
from hitherto_retrieval.search.ranking.balanced import Balanced


def test_every_component_of_the_default_ranking_is_left_out_once() -> None:
    assert [variant.without for variant in ABLATIONS] == list(Balanced.weights)
    for variant in ABLATIONS:
        assert variant.weights == {variant.without: 0.0}
        assert variant.ranking == Balanced.name


def test_alone_means_that_every_other_component_counts_nothing() -> None:
    for variant, component in ((COSINE, "semantic"), (KEYWORD, "keyword")):
        assert set(variant.weights) == set(Balanced.weights)
        assert [name for name, weight in variant.weights.items() if weight] == [component]


def test_only_a_component_that_is_shown_and_adds_nothing_is_idle() -> None:
    parts = {"semantic": 0.4, "speaker": 0.0, "facts": 0.1}
    assert idle("speaker", parts)
    assert not idle("semantic", parts)
    assert not idle("semantic", {"semantic": 0.0, "facts": 0.1})
    # One that works in a way of its own is asked without.
    assert not idle("unheard of", parts)
