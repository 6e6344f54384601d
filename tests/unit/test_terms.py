"""Terms of the keyword index: a question finds what a person would call the same words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_shared.text.bm25 import TermPostings, score
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import (
    MAX_TERM,
    MAX_TERMS,
    _content_terms,
    _sequence,
    count_terms,
    looked_up_terms,
    query_terms,
)
from hitherto_shared.text.word_forms import WORDS, forms


def _finds(query: str, text: str) -> bool:
    """Whether every term of the question stands in the text."""
    terms = query_terms(query)
    counts = count_terms(text)
    return bool(terms) and all(counts[term] for term in terms)


def test_a_question_finds_the_same_words() -> None:
    for query, text in [
        # Vietnamese, with and without diacritics.
        ("Ha Noi", "Tôi sống ở Hà Nội"),
        ("da nang", "Đà Nẵng"),
        ("duong Dien Bien Phu", "đường Điện Biên Phủ"),
        # Inflected English.
        ("running shoes", "She runs in an old shoe"),
        # Apostrophes, straight and curly, and the possessive.
        ("Caroline's painting", "Caroline painted"),
        ("Caroline", "Caroline’s paintings"),
        ("O'Brien", "Mr O’Brien's car"),
        # Other languages written with letters.
        ("Muller", "Frau Müller"),
        ("strasse", "Hauptstraße, STRASSE, Straße"),
        ("istanbul", "İstanbul"),
        # No spaces between words.
        ("日本", "彼は日本語を話す"),
        ("ラーメン", "昨日ラーメンを食べた"),
        ("한국", "한국어를 배운다"),
        ("ภาษาไทย", "ฉันเรียนภาษาไทยทุกวัน"),
        ("iPhone", "新しいiPhoneを買った"),
        # Right to left, pointed or not.
        ("مرحبا", "مرحبا بالعالم"),
        ("שלום", "שָׁלוֹם עולם"),
        # Vowel signs stay with their word.
        ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
        # Signs.
        ("🎉", "It is done 🎉🎉"),
        ("👍", "👍🏽"),
        ("👩", "👨‍👩‍👧"),
        ("🇻🇳", "Việt Nam 🇻🇳"),
        # Numbers, and words that are joined.
        ("2023", "in 2023-05"),
        ("world", "hello_world"),
    ]:
        assert _finds(query, text)


def test_a_question_does_not_find_other_words() -> None:
    for query, text in [
        ("Huế", "Hà Nội"),
        # With diacritics the writer means that word: the plain one does not have it.
        ("Hà Nội", "Ha Noi"),
        ("日语", "日本"),
        ("ही", "हिन्दी"),
        ("🇻🇳", "🇫🇷"),
        ("cat", "concatenate"),
    ]:
        assert not _finds(query, text)


def test_a_word_with_diacritics_prefers_itself() -> None:
    assert query_terms("Nội") == ["nội", "noi"]
    assert count_terms("Nội") == {"nội": 1, "noi": 1}
    assert count_terms("Noi") == {"noi": 1}


def test_scripts_without_spaces_become_pairs() -> None:
    assert count_terms("東京都") == {"東京": 1, "京都": 1}
    assert count_terms("東") == {"東": 1}
    assert count_terms("ไทย") == {"ไท": 1, "ทย": 1}
    assert count_terms("買うiPhone") == {"買う": 1, "iphon": 1}


def test_a_question_drops_stop_words_and_repetitions() -> None:
    assert query_terms("What did I do in the park, the big park?") == ["park", "big"]
    assert query_terms("Tôi có con mèo nào không?") == ["con", "mèo", "meo"]
    assert query_terms(unicodedata.normalize("NFD", "của tôi là gì mèo")) == ["mèo", "meo"]
    # A question of stop words keeps them.
    for query in ("who are you", "What is it?", "tôi là gì", "The Who"):
        assert query_terms(query), query


def test_no_words_are_no_terms() -> None:
    for text in ["", "   ", "?!…", "___", "''", "\x00", "\u200d\u200d", "\u0301", "\ud800"]:
        assert query_terms(text) == []
        assert not count_terms(text)


def test_a_long_word_is_cut_and_still_found() -> None:
    for word in ["a" * 1_000, "ế" * 1_000, "ß" * 1_000, "İ" * 1_000, "ا" * 1_000, "é'" * 500]:
        assert all(1 <= len(term) <= MAX_TERM for term in count_terms(word))
        assert _finds(word, f"before {word} after")


def test_a_huge_text_is_bounded() -> None:
    for text in [
        "word " * 200_000,
        " ".join(f"w{number}" for number in range(200_000)),
        "東" * 200_000,
        "e\u0301" * 200_000,
        "\u0301" * 200_000,
    ]:
        assert count_terms(text).total() <= MAX_TERMS
        assert len(query_terms(text)) <= MAX_TERMS


def test_threads_stem_at_the_same_time() -> None:
    # Words of this test only, so that no earlier call has left their stems in a cache.
    words = [f"{stem}{number}q" + "ing" for number in range(400) for stem in ("wal", "tal", "jum")]
    stemmer = Stemmer.Stemmer("english")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(query_terms, words))
    assert found == [[stemmer.stemWord(word)] for word in words]


_LETTERS = [*"aAđĐếİßǰŉΐᾳ'’-_ ٣²①東ไท한ᄒ𐐀𠀀ﬁﷺ", "e\u0301", "か\u3099", "क\u093c", "\uf900"]
_OTHERS = ["\n", "\x00", "\ud800", "\u0345", "\u0e35", "\u0650", "\u05b8", "\u200d", "👍🏽", "🇻"]
_SCRIPTS = st.sampled_from([*_LETTERS, *_OTHERS])
_ANY = st.one_of(st.text(st.characters()), st.lists(_SCRIPTS).map("".join))


@settings(deadline=None)
@given(_ANY)
def test_terms_are_short_storable_and_one_spelling(text: str) -> None:
    counts = count_terms(text)
    for term in counts:
        assert 1 <= len(term) <= MAX_TERM
        assert "\x00" not in term
        assert term.encode()
        assert not any(ch.isspace() for ch in term)
        assert unicodedata.is_normalized("NFC", term)
    assert count_terms(unicodedata.normalize("NFD", text)) == counts
    assert count_terms(unicodedata.normalize("NFC", text)) == counts


@settings(deadline=None)
@given(_ANY)
def test_a_text_finds_itself(text: str) -> None:
    terms = query_terms(text)
    assert len(set(terms)) == len(terms)
    assert set(terms) <= set(count_terms(text))
    assert bool(terms) == bool(count_terms(text))


@settings(max_examples=300)
@given(st.text(st.characters(codec="ascii") | st.sampled_from("abAB'_ -09"), max_size=40))
def test_ascii_has_the_terms_that_it_has_beside_another_script(text: str) -> None:
    assert count_terms(text) + Counter(["猫"]) == count_terms(f"{text} 猫")
    if telling := _sequence(text, _content_terms):
        assert [*telling, "猫"] == _sequence(f"{text} 猫", _content_terms)


# Words that people call the same meet in the keyword index, however they are written (D13).


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
    for written_forms in [
        "книга книги книгу книгой книге", "Москва Москве Москвой Москву", "новый новая новые новую",
        "ёлка елка ёлку", "كتاب الكتاب والكتاب بالكتاب للكتاب", "قهوة القهوة والقهوة", "كَتَبَ كتب",
    ]:  # fmt: skip
        first, *others = written_forms.split()
        written = count_terms(first)
        for other in others:
            assert set(query_terms(other)) & set(written), (first, other)
            assert set(query_terms(first)) & set(count_terms(other)), (first, other)


def test_d3_other_words_stay_apart() -> None:
    for one, other in (("книга", "книжник"), ("Москва", "мост"), ("كتاب", "كلب"), ("в", "и")):
        assert not set(count_terms(one)) & set(count_terms(other))


def test_d3_other_scripts_are_as_they_were() -> None:
    assert list(count_terms("σπίτι בית 猫")) == ["σπίτι", "σπιτι", "בית", "猫"]


# Forms of English words that no stem joins: looked up together, and one term in BM25.


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
    for query in ["mua ấm trà", "買い物", "اشترى", "купила чайник"]:
        terms = query_terms(query)
        assert terms
        assert all(forms(term) == (term,) for term in terms)


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
