"""Forms of English words that no stem joins: looked up together, and one term in BM25."""

from __future__ import annotations

from collections import Counter

import pytest

from hitherto_shared.text.bm25 import TermPostings, score
from hitherto_shared.text.terms import count_terms, looked_up_terms, query_terms
from hitherto_shared.text.word_forms import WORDS, forms


def test_a_question_finds_the_other_forms_of_its_words() -> None:
    for query, text in [
        ("What did she buy?", "Bought a teapot."),
        ("Who bought the teapot?", "She wants to buy it."),
        ("What has Lan written?", "Lan wrote a song."),
        ("When did they go?", "They went in May."),
        ("Which child?", "Two children."),
        ("What is her favourite colour?", "Her favorite color."),
        ("His 2 cats", "Two of them"),
    ]:
        indexed = count_terms(text)
        assert not set(query_terms(query)).issubset(indexed)
        assert set(looked_up_terms(query)).intersection(indexed) - {"lan"}


def test_words_of_other_languages_have_no_further_forms() -> None:
    for query in ["mua ấm trà", "買い物", "اشترى", "купила чайник", "a 🫖"]:
        assert all(forms(term) == (term,) for term in query_terms(query))


def test_no_form_belongs_to_two_words_and_each_word_has_two() -> None:
    counted = Counter(form for word in WORDS for form in word)
    assert [form for form, times in counted.items() if times > 1] == []
    assert [word for word in WORDS if len(word) < 2] == []


def test_forms_of_a_word_are_one_term_in_bm25() -> None:
    # Document 1 has "go" twice and "went" once, 2 "gone", 3 another word.
    apart = [
        TermPostings("go", [1], [2], [9]),
        TermPostings("went", [1], [1], [9]),
        TermPostings("gone", [2], [1], [4]),
        TermPostings("tea", [3], [1], [5]),
    ]
    together = [TermPostings("go", [1, 2], [3, 1], [9, 4]), TermPostings("tea", [3], [1], [5])]
    assert score(apart, 10, 60) == pytest.approx(score(together, 10, 60))
