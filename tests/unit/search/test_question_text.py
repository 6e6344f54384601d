"""A question read from its text alone (requirements D5, D6)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hitherto_retrieval.config import RetrievalSettings
from hitherto_retrieval.search.intent.question import (
    MAX_CHARACTERS,
    Wording,
    read_question_text,
    terms_of,
)
from hitherto_retrieval.search.ranking.ranking import QueryIntent
from hitherto_retrieval.search.words import distinct_words
from hitherto_shared.config import describe
from hitherto_shared.text.terms import query_terms

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
WORDING = Wording()


def read(text: str, wording: Wording = WORDING) -> QueryIntent:
    return read_question_text(text, NOW, "UTC", wording)


def test_everything_is_read_at_once() -> None:
    question = "What was Sarah's last email in May 2025 about Hà Nội?"
    intent = read(question)
    assert intent.now == NOW
    assert intent.most_recent
    assert intent.source_types == {"gmail", "outlook"}
    assert intent.window is not None
    assert intent.window.start == datetime(2025, 5, 1, tzinfo=UTC)
    assert {"sarah", "ha noi"} <= intent.names
    assert intent.words == (
        *("what", "was", "sarah's", "last", "email", "in", "may", "2025", "about", "ha", "noi"),
    )
    assert terms_of(question) == query_terms(question)


def test_days_are_those_of_the_users_time_zone() -> None:
    late = datetime(2025, 6, 1, 20, tzinfo=UTC)
    asked = read_question_text("today", late, "Asia/Ho_Chi_Minh", WORDING)
    assert asked.window is not None
    assert asked.window.start == datetime(2025, 6, 1, 17, tzinfo=UTC)
    with pytest.raises(ValueError, match="unknown time zone"):
        read_question_text("today", late, "Mars/Olympus", WORDING)


def test_what_the_caller_has_read_already_is_not_read_again() -> None:
    asked = read_question_text("my cat", NOW, "UTC", WORDING, names=["rex"])
    assert asked.names == {"rex"}


def test_of_a_long_question_the_beginning_counts() -> None:
    question = "cat " * 16_000 + "my last email"
    asked = read(question)
    assert terms_of(question) == ["cat"]
    assert not asked.most_recent
    assert not asked.source_types
    long = " ".join(f"word{n}" for n in range(16_000))
    assert 500 < len(terms_of(long)) <= MAX_CHARACTERS / len("word0 ")


def test_words_count_once_and_unspaced_scripts_in_pairs() -> None:
    assert distinct_words("Hà Nội, ha noi — HÀ nội!") == ("ha", "noi")
    assert distinct_words("東京タワーA") == ("東京", "京タ", "タワ", "ワー", "a")
    assert distinct_words("猫") == ("猫",)
    assert distinct_words("🙂 …") == ()


@settings(deadline=None)
@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_is_read(text: str) -> None:
    intent = read(text)
    assert len(set(intent.words)) == len(intent.words)
    assert "" not in intent.words


@pytest.mark.parametrize(
    ("variable", "setting", "message"),
    [
        ("HITHERTO_RECENCY_WORDS", "-nothing", "cannot be taken off the list"),
        ("HITHERTO_CONTENT_TYPES", "wiki", "must read `word, word = source, source`"),
    ],
)
def test_a_wrong_setting_ends_the_start_with_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, setting: str, message: str
) -> None:
    monkeypatch.setenv(variable, setting)
    with pytest.raises(ValidationError) as caught:
        RetrievalSettings()
    assert variable in describe(caught.value)
    assert message in describe(caught.value)


def test_the_settings_change_how_questions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HITHERTO_RECENCY_WORDS", "letzte")
    monkeypatch.setenv("HITHERTO_CONTENT_TYPES", "rundbrief = mailchimp")
    settings = RetrievalSettings()
    wording = Wording.from_settings(settings.recency_words, settings.content_types)
    intent = read("der letzte Rundbrief", wording)
    assert intent.most_recent
    assert intent.source_types == {"mailchimp"}
