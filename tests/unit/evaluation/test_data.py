"""I6: the data set itself, and the rules held against it: a perfect run scores 1 everywhere."""

from __future__ import annotations

from collections import Counter
from functools import cache

from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, ConversationCase, load
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES, add, judge_row, ratio
from benchmarks.extraction.support import unsupported
from benchmarks.extraction.wording import language_of
from tests.unit.evaluation.observations import perfect

AMOUNTS = {"input_tokens", "output_tokens", "usd", "usd_reference"}


@cache
def rows() -> list[ConversationCase]:
    """All of them; read by who judges them, not by who collects this module."""
    return load()


def test_i6_at_least_sixty_transcripts_in_three_languages() -> None:
    assert len(rows()) >= 60
    assert all(count >= 15 for count in Counter(row.language for row in rows()).values())
    assert {row.language for row in rows()} == set(LANGUAGES)


def test_every_language_has_every_category() -> None:
    for language in LANGUAGES:
        found = {row.category for row in rows() if row.language == language}
        assert found == set(CATEGORIES), language


def test_i6_both_examples_of_document_002_section_9() -> None:
    first, second = (row for row in rows() if row.source == "document 002, section 9")
    assert [message.role for message in first.transcript] == ["user", "assistant"]
    assert first.transcript[0].content == (
        "I really hate when my resume sounds like everyone else's. Keep it real, no fluff."
    )
    assert first.expected[0].types == ("preference",)
    assert first.expected[0].contains == ("authentic", "direct", "no fluff")
    assert first.expected[0].importance_min == 0.6
    assert second.transcript[0].content.endswith("ideally under 30 people.")
    assert second.expected[0].types == ("goal",)
    assert second.expected[0].contains == ("CTO", "fintech", "early-stage")
    assert second.expected[0].importance_min == 0.8


def test_a_perfect_answer_to_a_row_scores_one() -> None:
    for row in rows():
        if row.source:
            continue
        counts = add([judge_row(perfect(row)).counts])
        for score in set(SCORES) - AMOUNTS:
            best = 0.0 if score in LOWER_IS_BETTER else 1.0
            assert ratio(counts, score) in (None, best), (row.id, score)


def test_what_is_optional_is_no_invention_and_not_forbidden_either() -> None:
    for row in rows():
        for item in row.expected:
            if item.says:
                assert unsupported(item.says, row) == [], row.id
                assert language_of(item.says) == row.language, row.id


def test_nearly_every_statement_of_another_conversation_counts_as_made_up() -> None:
    strange = [
        bool(unsupported(item.says, row))
        for row in rows()
        for other in rows()
        if other.language == row.language and other.category != row.category
        for item in other.required
        if item.says
    ]
    assert sum(strange) / len(strange) > 0.98
