"""A change is believed by words that stand in a message, in any script (faults.md row 71)."""

from __future__ import annotations

from hitherto_extraction.pipeline.quotes import MAX_QUOTE, contains, stands_in

MOVED = "By the way, I moved over to Zed — and I’m “not” looking back!"


def test_a_genuine_quote_stands_in_its_message() -> None:
    for quote in [
        MOVED,
        "I moved over to Zed",
        "i MOVED  over\nto zed",
        # Other dashes, quotation marks and apostrophes.
        'Zed - and I\'m "not" looking back',
        # A run of nine tenths: models drop a comma, or end with another sign.
        "By the way I moved over to Zed and I'm not looking back",
        "I moved over to Zed and I'm not looking back, honestly",
        "Zed",
    ]:
        assert stands_in(quote, MOVED)


def test_an_invented_one_does_not() -> None:
    for quote in [
        "", "  ", "Ze", "I moved over to Vim",
        "I never moved over to Zed and I am looking back", "moved Zed I over to",
        "back looking not", "the way to Zed", "!!!", "I moved. over. there. to. Zed",
    ]:  # fmt: skip
        assert not stands_in(quote, MOVED)


def test_every_script_is_quoted() -> None:
    for message, genuine, invented in [
        (
            "Mình chuyển sang trọ mới ở Thanh Xuân rồi",
            "chuyển sang trọ mới",
            "chuyển sang ký túc xá",
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
        ("मैं अब पुणे में रहता हूँ", "अब पुणे में रहता हूँ", "अब दिल्ली में रहता हूँ"),
        ("ตอนนี้ผมอยู่เชียงใหม่แล้ว", "ผมอยู่เชียงใหม่", "ผมอยู่กรุงเทพ"),
        ("Я переехала в Казань 🎉", "переехала в Казань", "переехала в Омск"),
        # Letters of one shape are different letters; signs that nobody sees do not count.
        ("Tôi thích cá lắm", "Tôi thích cá", "Tôi thích cà"),
        ("I mo\u00adved over\u200b to Zed", "moved over to Zed", "moved back to Zed"),
    ]:
        assert stands_in(genuine, message)
        assert not stands_in(invented, message)


def test_models_write_the_apostrophe_that_people_leave_out_and_the_reverse() -> None:
    bare, marked = "Im a nurse and dont ping me", "I'm a nurse, and don’t ping me"
    for quote, message in [(bare, marked), (marked, bare), ("Im a nurse", marked)]:
        assert stands_in(quote, message)
    assert stands_in("ami, je l'ai vu", "C'est l’ami: je l'ai vu hier")
    assert not stands_in("I'm a nurse, and do ping me", bare)


def test_a_short_message_is_quoted_whole() -> None:
    for message in ["Ja", "嗯", "ok", "👍"]:
        assert stands_in(message, message)
        assert not stands_in(message, f"{message} but not really")


def test_a_quote_has_an_end() -> None:
    message = "word " * 1_000
    assert stands_in(message[:MAX_QUOTE].strip(), message)
    assert not stands_in(message[: MAX_QUOTE + 1], message)


def test_a_value_is_held_as_whole_words() -> None:
    for text, value, held in [
        ("The user writes Go and R.", "go", True), ("The user writes Go and R.", "R", True),
        ("The user goes to Rome.", "go", False), ("The user goes to Rome.", "R", False),
        ("Argo, then Go!", "Go", True), ("ユーザーは京都に住んでいる", "京都", True),
        ("用户住在上海", "上海", True),
        ("Người dùng sống ở Huế", "huế", True), ("The user likes tea", "", False),
        ("It is 10 mg", "1", False),
    ]:  # fmt: skip
        assert contains(text, value) is held
