"""Which questions ask for the most recent items (requirement D5)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_retrieval.search.intent.question import terms_of
from hitherto_retrieval.search.intent.recency import RecencyWords, words_for_the_present
from hitherto_retrieval.search.intent.whole_words import readable
from hitherto_shared.dates.find import find_window
from tests.refusing import refusing

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
WORDS = RecencyWords()


def asks(question: str, words: RecencyWords = WORDS) -> bool:
    return words.asked_for(readable(question), find_window(question, NOW))


def test_d5_questions_for_the_most_recent_items() -> None:
    for question in [
        # A time beside the request does not hide it.
        "my last email of last week", "last March, what was the latest document?",
        "my last email from Sarah", "LAST EMAIL", "Show me the latest documents",
        "recent documents", "What are the most recent tickets?", "What is the newest file?",
        "at the last meeting", "How long was my last call?", "Who did I talk to last?",
        "What did I eat last?", "When did I send my last email?",
        "When did Sarah's last email arrive?", "email gần đây nhất của Lan",
        "tài liệu mới nhất là gì?", "Cuộc họp cuối cùng nói về gì?", "vừa rồi tôi nói gì?",
        "gần đây tôi mua gì?", "quán cà phê mới nhất mà tôi ghi lại",
        "ma\u0323\u0306c du\u0300 ta\u0300i lie\u0323\u0302u mo\u031b\u0301i nha\u0302\u0301t",
        "tai lieu moi nhat", "email cuoi cung 😀", "最近のメール", "最新邮件email",
        "最后一封邮件", "최근에 받은 메일",
        "최신 문서", "마지막 회의", "อีเมลล่าสุด",
    ]:  # fmt: skip
        assert asks(question)


def test_d5_other_meanings_of_the_words_ask_for_nothing() -> None:
    for question in [
        "What is my last name?", "What are the last names of my colleagues?",
        "What are Sarah's first and last names?", "At last! What did I decide?", "at long last",
        "by Friday at the latest", "When was the last time I saw Sarah?",
        "When did I last see Sarah?", "When did I see Sarah last?",
        "How long did the meeting last?", "How many hours does the battery last on a charge?",
        "Will the battery last?", "Is it built to last?", "a talk that can't last for hours",
        "next to last", "last-minute tickets", "The Last of Us", "my last will",
        "the blast of everlasting recents",
        "what Last.fm and last@example.com and C:\\last are", "lần cuối cùng tôi gặp Lan",
        "lan gan day nhat toi gap Lan", "Cuối cùng thì tôi chọn gì?", "Cuối cùng, tôi chọn gì?",
        "quán cà phê gần đây", "bệnh viện gần nhất ở đâu?", "bệnh viện đa khoa gần nhất",
        "gần đây có quán nào ngon?", "离我最近的医院", "最近的地铁站", "마지막으로 만난 사람",
        "what do I like?", "",
    ]:  # fmt: skip
        assert not asks(question)


def test_d5_a_time_is_no_request_for_the_most_recent() -> None:
    for question in [
        "What did I do last week?", "What did I say last May?", "in the last 24 hours",
        "the last two weeks", "last night", "recent 3 days",
        "What did I do yesterday and last week?", "between May and July 2023, and last Friday?",
        "What did we decide last Christmas?", "the last day of school",
        "tuần vừa rồi tôi làm gì?", "3 ngày gần đây", "hôm qua và tuần vừa rồi",
        "tháng gần nhất",
    ]:  # fmt: skip
        assert not asks(question)


def test_d5_words_are_added_and_taken_off_by_the_setting() -> None:
    words = RecencyWords.from_setting(" Letzte ,neueste, dernière,, -RECENT")
    assert asks("meine letzte Mail", words)
    assert asks("la derniere lettre", words)
    assert asks("my last mail", words)
    assert not asks("meine letzten Mails", words)
    assert not asks("recent mails", words)
    assert RecencyWords.from_setting(None).words == WORDS.words


def test_d5_a_setting_that_is_no_list_of_words_says_so() -> None:
    for setting, message in [
        ("-yesterday", "'yesterday' cannot be taken off the list"),
        ("last, ?!", "is no word"),
        ("-", "is no word"),
        ("a" * 65, "is no word"),
        (",".join(f"w{n}" for n in range(600)), "at most 500 words"),
    ]:
        with pytest.raises(ValueError, match=message), refusing(setting):
            RecencyWords.from_setting(setting)


@settings(deadline=None)
@given(
    st.sampled_from([word for word in WORDS.words if word.isascii() and " " not in word]),
    st.sampled_from(["a", "s", "ß", "ệ", "9", "_", "\u0332"]),
)
def test_a_word_inside_a_longer_one_is_not_that_word(word: str, letter: str) -> None:
    assert asks(f"{word} {letter}")
    assert not asks(f"{word}{letter}")
    assert letter == "\u0332" or not asks(f"{letter}{word}")


def test_questions_how_things_stand() -> None:
    for question in [
        "Where does she live now?", "What is she CURRENTLY reading?", "What do I do these days",
        "Bây giờ tôi sống ở đâu?", "bay gio toi song o dau", "Hiện tại tôi làm gì?",
        "彼女は現在どこに住んでいますか", "지금 어디에 살아요?", "ตอนนี้ฉันอยู่ที่ไหน",
    ]:  # fmt: skip
        assert words_for_the_present(readable(question))
        assert not asks(question)
    for question in ["Where does she live?", "What do I know?", "a snowy day", "current account"]:
        assert not words_for_the_present(readable(question))


def test_the_words_for_the_present_are_not_looked_up() -> None:
    assert terms_of("What does she play these days?") == ["play"]
    assert terms_of("Where does she live now?") == ["live"]
    assert terms_of("these days") == ["these", "day"]
