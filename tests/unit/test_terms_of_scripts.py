"""Forms of one word are one term of the keyword index, in scripts other than the Latin one (D3)."""

from __future__ import annotations

import pytest

from hitherto_shared.text.terms import count_terms, query_terms


@pytest.mark.parametrize(
    "forms",
    [
        "книга книги книгу книгой книге",
        "Москва Москве Москвой Москву",
        "новый новая новые новую",
        "ёлка елка ёлку",
        "كتاب الكتاب والكتاب بالكتاب للكتاب",
        "قهوة القهوة والقهوة",
        "كَتَبَ كتب",
    ],
)
def test_d3_every_case_and_article_finds_the_others(forms: str) -> None:
    first, *others = forms.split()
    written = count_terms(first)
    for other in others:
        assert set(query_terms(other)) & set(written), (first, other)
        assert set(query_terms(first)) & set(count_terms(other)), (first, other)


def test_d3_other_words_stay_apart() -> None:
    for one, other in (("книга", "книжник"), ("Москва", "мост"), ("كتاب", "كلب"), ("в", "и")):
        assert not set(count_terms(one)) & set(count_terms(other))


def test_d3_other_scripts_are_as_they_were() -> None:
    assert list(count_terms("σπίτι בית 猫")) == ["σπίτι", "σπιτι", "בית", "猫"]
