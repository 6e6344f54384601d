"""Words that people call the same meet in the keyword index, however they are written (D13)."""

from __future__ import annotations

from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms, query_terms

ALIKE = [
    # Compatible forms.
    ("ＡＢＣ１２３", "ABC123"),
    ("ﾊﾟｿｺﾝ", "パソコン"),
    ("Ⅱ", "II"),
    ("𝗽𝗼𝗿𝘁𝗼", "Porto"),
    ("ﻣﺮﺣﺒﺎ", "مرحبا"),
    ("ﬁlm", "film"),
    ("Acme™ rockets", "Acme"),
    # Digits of other scripts.
    ("२०३", "203"),
    # Elisions, and endings behind an apostrophe.
    ("l’université d’Orléans", "université Orléans"),
    ("dell’arte", "arte"),
    ("l'Hospitalet", "Hospitalet"),
    ("İstanbul'da", "İstanbul"),
    ("qu’hier", "hier"),
    # Dotted and dotless.
    ("ISPARTA", "ısparta"),
    # Letters that Unicode does not decompose.
    ("Łódź", "lodz"),
    ("Ærøskøbing", "aeroskobing"),
    ("cœur", "coeur"),
    ("Þórður", "Thordur"),
    # What nobody sees inside of a word.
    ("Donau\u00addampf\u00adschiff", "Donaudampfschiff"),
    ("क\u200d्ष", "क्ष"),
    ("葛\U000e0100城", "葛城"),
    # Signs that stand for an apostrophe.
    ("O´Brien", "O'Brien"),
    ("O\u2032Brien", "O'Brien"),
    ("O\u02bbzbekiston", "O'zbekiston"),
    # Arabic and Persian forms.
    ("علی", "علي"),
    ("كتـــاب", "كتاب"),
]


def test_d13_each_finds_the_other() -> None:
    for written, asked in ALIKE:
        terms = set(query_terms(asked))
        assert terms, written
        assert terms & set(count_terms(written)), (terms, count_terms(written))
        # Of what is asked with accents, the form without them is enough.
        assert set(query_terms(written)) & set(count_terms(asked))


def test_d13_what_is_another_word_stays_apart() -> None:
    for written, asked in [
        ("don't", "Don"),
        ("сім'я", "сім"),
        ("we've", "ve"),
        ("Hà Nội", "Hạ Nôi"),
        ("می\u200cخواهم", "میخواهم"),
    ]:
        assert not set(query_terms(asked)) <= set(count_terms(written))


def test_d7_names_are_folded_likewise() -> None:
    for name, asked in [
        ("Łukasz Pawłowski", "lukasz pawlowski"), ("Søren Ærø", "soren aero"),
        ("ＮＴＴドコモ", "NTTドコモ"),
        ("Hà Nội", "ha noi"), ("Isıl", "ISIL"), ("Ðuro", "duro"), ("ليلى علی", "ليلى علي"),
        ("Room २०३", "room 203"), ("Donau\u00adschiff", "donauschiff"),
    ]:  # fmt: skip
        assert fold(name) == fold(asked)


def test_d3_every_case_and_article_finds_the_others() -> None:
    for forms in [
        "книга книги книгу книгой книге", "Москва Москве Москвой Москву", "новый новая новые новую",
        "ёлка елка ёлку", "كتاب الكتاب والكتاب بالكتاب للكتاب", "قهوة القهوة والقهوة", "كَتَبَ كتب",
    ]:  # fmt: skip
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
