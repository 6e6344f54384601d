"""The rules against sentences that were written before them, and against held-out ones."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from hitherto_extraction.provider.offline.evaluation import load, measure, score

DEVELOPMENT = ["english.json", "vietnamese.json"]
HELD_OUT = ["english_held_out.json", "vietnamese_held_out.json"]


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_the_sets_are_as_large_as_promised(name: str) -> None:
    data = load(name)
    assert len({item["text"] for item in data["positives"]}) >= 45
    assert len({item["text"] for item in data["negatives"]}) >= 25
    assert all(item["why"] for item in data["negatives"])


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_paraphrases_are_found_and_nothing_else(name: str) -> None:
    result = score(load(name))
    assert result.right / (result.right + len(result.missed)) >= 0.95, result.missed
    assert result.wrong == []


@pytest.mark.parametrize("name", DEVELOPMENT + HELD_OUT)
def test_a_negative_never_touches_the_profile(name: str) -> None:
    assert score(load(name)).profile_from_negative == []


# What the rules miss here is their honest limit: these sentences are never used for tuning.
@pytest.mark.parametrize(
    ("name", "recall"), [("english_held_out.json", 0.35), ("vietnamese_held_out.json", 0.7)]
)
def test_held_out_sentences_keep_their_floor(name: str, recall: float) -> None:
    result = score(load(name))
    assert result.right / (result.right + len(result.missed)) >= recall, result.missed
    assert result.right / (result.right + len(result.wrong)) >= 0.9, result.wrong


def test_held_out_sentences_are_not_in_the_development_set() -> None:
    for developed, held_out in zip(DEVELOPMENT, HELD_OUT, strict=True):
        known = {item["text"].casefold() for item in load(developed)["positives"]}
        assert not known & {item["text"].casefold() for item in load(held_out)["positives"]}


def test_measure_names_every_set_with_its_figures() -> None:
    found = measure()
    assert [item.language for item in found] == [
        "English",
        "Vietnamese",
        "English, held out",
        "Vietnamese, held out",
    ]
    for item in found:
        assert 0 < item.precision <= 1
        assert 0 < item.recall <= 1
        assert item.positives > 0
        assert item.negatives > 0


def test_a_miss_a_wrong_type_and_a_wrong_field_all_cost() -> None:
    said_at = "2026-03-14T10:00:00+00:00"
    positives = [
        {"text": "The weather is mild.", "type": "fact", "contains": ["mild"]},
        {"text": "I live in Graz.", "type": "preference", "contains": ["Graz"]},
        {"text": "I like figs.", "type": "preference", "contains": ["figs"]},
    ]
    result = score({"said_at": said_at, "positives": positives, "negatives": []})
    assert result.right == 1
    assert len(result.missed) == 2
    # The memory of the wrong type, and a location nobody expected.
    assert len(result.wrong) == 2
    negative = {"said_at": said_at, "positives": [], "negatives": [{"text": "I live in Graz."}]}
    assert score(negative).profile_from_negative


def test_the_rules_know_no_name_of_the_sets() -> None:
    folder = files("hitherto_extraction.provider.offline")
    source = "\n".join(
        folder.joinpath(f"{language}.toml").read_text(encoding="utf-8")
        for language in ("english", "vietnamese")
    )
    names: set[str] = set()
    for data_set in DEVELOPMENT + HELD_OUT:
        for item in load(data_set)["positives"]:
            personal = item.get("profile", {})
            names |= {
                personal[path]
                for path in ("facts.personal.name", "facts.personal.location")
                if path in personal
            }
    assert len(names) > 20
    assert [name for name in names if re.search(rf"\b{re.escape(name)}\b", source)] == []
