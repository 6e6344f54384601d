"""Chunks at sentence borders (B16), for any text (faults.md rows 46 and 49)."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.documents.chunking import (
    HEADING_SUMMARY,
    HEADING_TITLE,
    TARGET,
    chunks,
    heading,
    passages,
)
from hitherto_shared.embeddings.openai_api import MAX_TEXT_BYTES

FAMILY = "👨‍👩‍👧‍👦"
THUMB = "👍🏽"
FLAG = "🇻🇳"

_PIECES = [
    "Xin chào, tôi tên là Thanh. ", "Một câu khác! ", "我喜欢喝茶。", "彼は「行こう。」と言った！",
    "ฉันชอบกาแฟ", "مرحبا بك؟ ", "Dr. Smith paid approx. 3.14 dollars. ", FAMILY, THUMB, FLAG,
    "e\u0301", "\n", "\n\n", " ", "\r\n", "...", "x" * 700, "नमस्ते। ", "\u3000",
]  # fmt: skip
texts = st.one_of(st.text(), st.lists(st.sampled_from(_PIECES), max_size=400).map("".join))


def visible(text: str) -> str:
    return "".join(text.split())


@given(texts)
def test_every_character_stands_in_one_chunk_in_order(text: str) -> None:
    found = chunks(text)
    assert visible("".join(found)) == visible(text)
    place = 0
    for chunk in found:
        assert chunk == chunk.strip() != ""
        assert len(chunk) <= TARGET
        place = text.index(chunk, place) + len(chunk)
    assert found == chunks(text)


@given(st.lists(st.sampled_from([FAMILY, THUMB, FLAG, "é", "ế", "กำ", "क्षि"]), max_size=600))
def test_no_cut_within_a_sign(signs: list[str]) -> None:
    """Emoji of several code points, marks and flags stay whole, even where there is no space."""
    text = unicodedata.normalize("NFD", "".join(signs))
    edges, at = {0}, 0
    for sign in signs:
        at += len(unicodedata.normalize("NFD", sign))
        edges.add(at)
    end = 0
    for chunk in chunks(text):
        end += len(chunk)
        assert end in edges


def test_cuts_at_sentences_of_vietnamese() -> None:
    sentences = [f"Câu số {n} kể về Hà Nội và những con đường nhỏ của nó." for n in range(60)]
    found = chunks(" ".join(sentences))
    assert len(found) > 2
    assert all(chunk.startswith("Câu số") and chunk.endswith("của nó.") for chunk in found)
    assert [s for chunk in found for s in chunk.replace(". Câu", ".|Câu").split("|")] == sentences


def test_cuts_at_sentences_without_spaces() -> None:
    for mark in "。！？":
        sentence = "私は毎朝コーヒーを飲みながら新聞を読みます" + mark
        found = chunks(sentence * 120)
        assert len(found) > 2, mark
        assert all(chunk.endswith(mark) for chunk in found), mark
        assert all(len(chunk) % len(sentence) == 0 for chunk in found), mark


def test_what_ends_no_sentence_and_what_belongs_to_it() -> None:
    """A full stop before a small letter; a quotation mark after the last sign."""
    text = "The price was approx. five dollars and so on "
    found = chunks((text * 10).strip() + ". " + (text * 20).strip() + ".")
    assert len(found) > 1
    assert all(not chunk.startswith("five") for chunk in found)
    found = chunks("彼女は「とても楽しかったです。」" * 100)
    assert len(found) > 1
    assert all(chunk.endswith("。」") for chunk in found)


def test_a_long_sentence_is_cut_between_words() -> None:
    words = [f"word{n}" for n in range(1000)]
    found = chunks(" ".join(words))
    assert [word for chunk in found for word in chunk.split()] == words
    assert min(map(len, found[:-1])) > TARGET // 2
    # A comma that bears a mark is no place to cut.
    assert not any(chunk.startswith("\u0301") for chunk in chunks("word,\u0301" * 1000))


def test_short_paragraphs_share_a_chunk() -> None:
    assert chunks("One.\n\nTwo.\n\nThree.") == ["One.\n\nTwo.\n\nThree."]


def test_a_long_chunk_ends_with_its_paragraph() -> None:
    paragraph = "A sentence of this paragraph is here. " * 18
    found = chunks(f"{paragraph}\n\n{paragraph}\n\n{paragraph}")
    assert found == [paragraph.strip()] * 3


def test_title_and_summary_head_every_chunk_and_stand_in_none() -> None:
    assert heading(" Plan ", "What we do") == "Plan\nWhat we do"
    assert heading("", "") == ""
    assert passages("Plan", "What we do", "The text.") == ["The text."]
    # They are found all the same, where there is nothing else or not all of them heads the chunks.
    assert passages("Plan", "What we do", " \n") == ["Plan\n\nWhat we do"]
    found = passages("Plan", "A sentence of the summary. " * 200 + "Zanzibar.", "The text.")
    assert found[-1] == "The text."
    assert "Zanzibar." in found[-2]


def test_a_chunk_with_its_heading_is_within_what_models_read() -> None:
    for sign in ["👍", "ế", "我", FLAG, FAMILY]:
        head = heading(sign * 2000, sign * 2000)
        assert len(head) == HEADING_TITLE + HEADING_SUMMARY + 1, sign
        for chunk in chunks(sign * 3000):
            assert len(f"{head}\n{chunk}".encode()) <= MAX_TEXT_BYTES, sign
