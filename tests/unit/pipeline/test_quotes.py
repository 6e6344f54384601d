"""A change is believed by words that stand in a message, in any script (faults.md row 71)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.quotes import MAX_QUOTE, contains, stands_in

MOVED = "By the way, I moved over to Zed — and I’m “not” looking back!"


@pytest.mark.parametrize(
    "quote",
    [
        MOVED,
        "I moved over to Zed",
        "i MOVED  over\nto zed",
        # Other dashes, quotation marks and apostrophes.
        'Zed - and I\'m "not" looking back',
        # A run of nine tenths: models drop a comma, or end with another sign.
        "By the way I moved over to Zed and I'm not looking back",
        "I moved over to Zed and I'm not looking back, honestly",
        "Zed",
    ],
)
def test_a_genuine_quote_stands_in_its_message(quote: str) -> None:
    assert stands_in(quote, MOVED)


@pytest.mark.parametrize(
    "quote",
    [
        "", "  ", "Ze", "I moved over to Vim",
        "I never moved over to Zed and I am looking back", "moved Zed I over to",
        "back looking not", "the way to Zed", "!!!", "I moved. over. there. to. Zed",
    ],
)  # fmt: skip
def test_an_invented_one_does_not(quote: str) -> None:
    assert not stands_in(quote, MOVED)


@pytest.mark.parametrize(
    ("message", "genuine", "invented"),
    [
        (
            "Ich habe zum 1. Oktober gekündigt, endlich.",
            "zum 1. oktober gekündigt",
            "nicht gekündigt",
        ),
        (
            "Mình chuyển sang trọ mới ở Thanh Xuân rồi",
            "chuyển sang trọ mới",
            "chuyển sang ký túc xá",
        ),
        (
            "ヨガは火曜日から木曜日に変わりました。",
            "火曜日から木曜日に変わりました",
            "木曜日から火曜日に変わりました",
        ),
        (
            "ヨガは、火曜日から木曜日に変わりました。",
            "ヨガは火曜日から木曜日に変わりました",
            "ヨガをやめました",
        ),
        ("我上个月搬到了上海，天气很好", "我上个月搬到了上海", "我上个月搬到了北京"),
        (
            "انتقلت إلى القاهرة وأسكن الآن في المعادي",
            "أسكن الآن في المعادي",
            "أسكن الآن في الإسكندرية",
        ),
        ("Ya no como carne desde enero", "ya no como carne", "ya no como pescado"),
        ("मैं अब पुणे में रहता हूँ", "अब पुणे में रहता हूँ", "अब दिल्ली में रहता हूँ"),
        ("ＡＢＣ社に転職しました", "ABC社に転職しました", "XYZ社に転職しました"),
        ("ตอนนี้ผมอยู่เชียงใหม่แล้ว", "ผมอยู่เชียงใหม่", "ผมอยู่กรุงเทพ"),
        ("Я переехала в Казань 🎉", "переехала в Казань", "переехала в Омск"),
    ],
)
def test_every_script_is_quoted(message: str, genuine: str, invented: str) -> None:
    assert stands_in(genuine, message)
    assert not stands_in(invented, message)


@pytest.mark.parametrize("message", ["Ja", "嗯", "ok", "👍"])
def test_a_short_message_is_quoted_whole(message: str) -> None:
    assert stands_in(message, message)
    assert not stands_in(message, f"{message} but not really")


def test_a_quote_has_an_end() -> None:
    message = "word " * 1_000
    assert stands_in(message[:MAX_QUOTE].strip(), message)
    assert not stands_in(message[: MAX_QUOTE + 1], message)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("The user writes Go and R.", "go", True),
        ("The user writes Go and R.", "R", True),
        ("The user goes to Rome.", "go", False),
        ("The user goes to Rome.", "R", False),
        ("Argo, then Go!", "Go", True),
        ("ユーザーは京都に住んでいる", "京都", True),
        ("用户住在上海", "上海", True),
        ("Người dùng sống ở Huế", "huế", True),
        ("The user likes tea", "", False),
        ("It is 10 mg", "1", False),
    ],
)
def test_a_value_is_held_as_whole_words(text: str, value: str, held: bool) -> None:
    assert contains(text, value) is held
