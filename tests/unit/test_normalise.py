"""One spelling per text: what NFC unites, what folding forgets, what cannot be stored."""

from __future__ import annotations

import unicodedata
from functools import partial
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_shared.text.normalise import (
    fold,
    nfc,
    normalized,
    tag_key,
    unusable_characters,
)
from tests.growth import filled, more_than_linear


def test_folding_forgets_case_diacritics_and_spacing() -> None:
    for text, folded in [
        ("Hà Nội", "ha noi"),
        ("Đà Nẵng, đường Điện Biên Phủ", "da nang, duong dien bien phu"),
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("Ελλάδα", "ελλαδα"),
        ("  a \t b\n\nc\u00a0d  ", "a b c d"),
        ("", ""),
        # Korean syllables are no diacritics, and stay whole.
        ("한국어", "한국어"),
        ("الكِتَاب", "الكتاب"),
        ("שָׁלוֹם", "שלום"),
        ("👍🏽 ok", "👍🏽 ok"),
    ]:
        assert fold(text) == folded
        assert fold(unicodedata.normalize("NFD", text)) == folded


_ANY = st.text(st.characters())


@settings(deadline=None)
@given(_ANY)
def test_nfc_is_idempotent_and_never_raises(text: str) -> None:
    assert nfc(nfc(text)) == nfc(text)
    assert unicodedata.is_normalized("NFC", nfc(text))


@settings(deadline=None)
@given(_ANY)
def test_folding_is_one_spelling_and_never_raises(text: str) -> None:
    folded = fold(text)
    assert unicodedata.is_normalized("NFC", folded)
    assert folded == folded.strip()
    assert "  " not in folded
    assert fold(folded) == folded
    assert fold(unicodedata.normalize("NFD", text)) == folded
    assert fold(unicodedata.normalize("NFC", text)) == folded


@settings(deadline=None)
@given(_ANY)
def test_text_without_a_reason_can_be_encoded_and_the_other_cannot(text: str) -> None:
    try:
        storable = b"\x00" not in text.encode()
    except UnicodeEncodeError:
        storable = False
    assert (unusable_characters(text) is None) == storable


_MARKS = "\u0301\u0327\u0344\u0345\u0f73\u0f74\u0f81\uff9e\uff9f\u3099\u05b0\u302a\U0001d165"


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.text(alphabet=_MARKS, min_size=30, max_size=90),
            st.text(alphabet="aếΰ가ㅏかｶ忽\u1100ﷺ🙂 !\u0301", max_size=4),
        ),
        max_size=6,
    ),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
)
def test_long_runs_of_marks_become_what_unicode_makes_of_them(
    pieces: list[str], form: Literal["NFC", "NFD", "NFKC", "NFKD"]
) -> None:
    text = "".join(pieces)
    assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    "piece", ["\u0301\u0327", "\u0f73", "\uff9e\u0301", "\u0344\u0327", "!\u0301\u0327"]
)
def test_row_69_marks_in_any_number_are_put_into_order_in_linear_time(
    form: Literal["NFC", "NFD", "NFKC", "NFKD"], piece: str
) -> None:
    slow = more_than_linear(
        lambda text: normalized(form, f"a{text}"), partial(filled, piece), 16_384
    )
    assert slow is None


def test_b9_tags_are_lower_snake_case_in_every_script() -> None:
    for written, key in [
        ("  My Tag ", "my_tag"),
        ("Café au lait", "café_au_lait"),
        ("日本語、タグ", "日本語_タグ"),
        # Vowel signs are no gaps.
        ("हिन्दी भाषा", "हिन्दी_भाषा"),
        ("เพื่อน สนิท", "เพื่อน_สนิท"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("🎉", ""),
        ("\u0301", ""),
    ]:
        assert tag_key(written) == key
        assert tag_key(key) == key
