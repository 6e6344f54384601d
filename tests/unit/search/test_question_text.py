"""A question read from its text alone: times, kinds, recency, names (requirements D5, D6)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hitherto_retrieval.config import RetrievalSettings
from hitherto_retrieval.search.intent.content_types import ContentTypes
from hitherto_retrieval.search.intent.question import (
    MAX_CHARACTERS,
    Wording,
    read_question_text,
    terms_of,
)
from hitherto_retrieval.search.intent.recency import RecencyWords, words_for_the_present
from hitherto_retrieval.search.intent.whole_words import readable
from hitherto_retrieval.search.own_name import about_the_user
from hitherto_retrieval.search.ranking.ranking import QueryIntent
from hitherto_retrieval.search.words import distinct_words
from hitherto_shared.config import describe
from hitherto_shared.dates.find import find_window
from hitherto_shared.text.terms import query_terms
from tests.refusing import refusing

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
WORDING = Wording()


def read(text: str, wording: Wording = WORDING) -> QueryIntent:
    return read_question_text(text, NOW, "UTC", wording)


def test_everything_is_read_at_once() -> None:
    question = "What was Sarah's last email in May 2025 about Hà Nội?"
    intent = read(question)
    assert intent.now == NOW
    assert intent.most_recent
    assert intent.source_types == {"gmail", "outlook"}
    assert intent.window is not None
    assert intent.window.start == datetime(2025, 5, 1, tzinfo=UTC)
    assert {"sarah", "ha noi"} <= intent.names
    assert intent.words == (
        *("what", "was", "sarah's", "last", "email", "in", "may", "2025", "about", "ha", "noi"),
    )
    assert terms_of(question) == query_terms(question)


def test_days_are_those_of_the_users_time_zone() -> None:
    late = datetime(2025, 6, 1, 20, tzinfo=UTC)
    asked = read_question_text("today", late, "Asia/Ho_Chi_Minh", WORDING)
    assert asked.window is not None
    assert asked.window.start == datetime(2025, 6, 1, 17, tzinfo=UTC)
    with pytest.raises(ValueError, match="unknown time zone"):
        read_question_text("today", late, "Mars/Olympus", WORDING)


def test_what_the_caller_has_read_already_is_not_read_again() -> None:
    asked = read_question_text("my cat", NOW, "UTC", WORDING, names=["rex"])
    assert asked.names == {"rex"}


def test_of_a_long_question_the_beginning_counts() -> None:
    question = "cat " * 16_000 + "my last email"
    asked = read(question)
    assert terms_of(question) == ["cat"]
    assert not asked.most_recent
    assert not asked.source_types
    long = " ".join(f"word{n}" for n in range(16_000))
    assert 500 < len(terms_of(long)) <= MAX_CHARACTERS / len("word0 ")


def test_words_count_once_and_unspaced_scripts_in_pairs() -> None:
    assert distinct_words("Hà Nội, ha noi — HÀ nội!") == ("ha", "noi")
    assert distinct_words("東京タワーA") == ("東京", "京タ", "タワ", "ワー", "a")
    assert distinct_words("猫") == ("猫",)
    assert distinct_words("🙂 …") == ()


@settings(deadline=None)
@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_is_read(text: str) -> None:
    intent = read(text)
    assert len(set(intent.words)) == len(intent.words)
    assert "" not in intent.words


@pytest.mark.parametrize(
    ("variable", "setting", "message"),
    [
        ("HITHERTO_RECENCY_WORDS", "-nothing", "cannot be taken off the list"),
        ("HITHERTO_CONTENT_TYPES", "wiki", "must read `word, word = source, source`"),
    ],
)
def test_a_wrong_setting_ends_the_start_with_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, setting: str, message: str
) -> None:
    monkeypatch.setenv(variable, setting)
    with pytest.raises(ValidationError) as caught:
        RetrievalSettings()
    assert variable in describe(caught.value)
    assert message in describe(caught.value)


def test_the_settings_change_how_questions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HITHERTO_RECENCY_WORDS", "letzte")
    monkeypatch.setenv("HITHERTO_CONTENT_TYPES", "rundbrief = mailchimp")
    settings = RetrievalSettings()
    wording = Wording.from_settings(settings.recency_words, settings.content_types)
    intent = read("der letzte Rundbrief", wording)
    assert intent.most_recent
    assert intent.source_types == {"mailchimp"}


# Where a question names the user, and where the same word means something else.


def test_the_user_is_named() -> None:
    for name, question, about in [
        ("Maren", "Where does Maren live?", "Where does User live?"),
        ("Maren Olsen", "Where does Maren Olsen live?", "Where does User live?"),
        ("Maren Olsen", "Is Olsen's car red?", "Is User's car red?"),
        ("Nguyễn Thị Diễm", "Diễm sống ở đâu?", "User sống ở đâu?"),
        ("Søren Åberg-Lind", "Did Åberg-Lind call?", "Did User call?"),
        ("José", "Où habite Jose\u0301 maintenant ?", "Où habite User maintenant ?"),
        ("Αθηνά", "Πού μένει η Αθηνά;", "Πού μένει η User;"),
    ]:
        assert about_the_user(question, name) == about


def test_the_question_stays_as_it_is() -> None:
    for name, question in [
        ("", "Where does Maren live?"), ("Maren", "Where is the marena?"),
        ("Maren Olsen", "Where does Lucia Olsen live?"), ("Nguyễn Thị Diễm", "Where is Thị?"),
        ("Will", "Will she come?"), ("Hoa", "Tôi trồng hoa gì?"), ("Maren", "Who is Maren?"),
        ("相沢", "相沢さんはどこに住んでいますか？"), ("🦊", "Where does 🦊 live?"),
        ("A" * 101, f"Where does {'A' * 101} live?"),
    ]:  # fmt: skip
        assert about_the_user(question, name) == question


# Which kinds of content a question names (requirement D6).


TYPES = ContentTypes()
EMAIL = {"gmail", "outlook"}
DOCUMENT = {"gdrive", "onedrive"}
TASK = {"jira"}
MEETING = {"calendar"}


def named(question: str, types: ContentTypes = TYPES) -> set[str]:
    return set(types.named_in(readable(question)))


def test_d6_the_documented_words_and_their_plurals() -> None:
    for words, sources in [
        ("email mail gmail outlook inbox emails mails inboxes e-mail E-Mails", EMAIL),
        ("document doc file gdrive onedrive documents docs files", DOCUMENT),
        ("task jira ticket issue tasks tickets issues", TASK),
        ("meeting calendar event meetings calendars events", MEETING),
    ]:
        for word in words.split():
            assert named(f"Which {word}, please?") == sources
            assert named(word.upper()) == sources


def test_d6_other_languages_and_several_kinds() -> None:
    for question, sources in [
        ("bức thư của Lan", EMAIL), ("thư điện tử", EMAIL), ("tài liệu về ngân sách", DOCUMENT),
        ("tai lieu ve ngan sach", DOCUMENT), ("tôi có nhiệm vụ gì?", TASK),
        ("công việc tuần này", TASK), ("cuộc họp với Lan", MEETING), ("lịch ngày mai", MEETING),
        ("最新email给我", EMAIL), ("メールとファイル", EMAIL | DOCUMENT),
        ("최근 이메일을 보여줘", EMAIL),
        ("회의에서 받은 파일들은?", MEETING | DOCUMENT),
        ("What did the emails say about the tickets?", EMAIL | TASK),
        # A second word counts beside one that only looks alike.
        ("Which mail gave me her email address?", EMAIL), ("thư của thư viện", EMAIL),
    ]:  # fmt: skip
        assert named(question) == sources


def test_d6_words_that_only_look_alike_name_nothing() -> None:
    for question in [
        "docker", "What do I use docker for?",
        "documentary about filed taskmasters and eventual mailmen", "profile",
        "What is my email address?",
        "mail_address = sarah@mail.com, https://mail.example.com/inbox, docs.md and C:\\file",
        "in the event of rain", "thư viện và thư ký", "bệnh ung thư", "mùa thu", "thứ năm",
        "lịch sử và du lịch", "toi thich mua thu, lich", "プロファイル", "メールアドレス",
        "프로파일", "파일럿", "",
    ]:  # fmt: skip
        assert named(question) == set()


def test_d6_words_are_added_replaced_and_taken_off_by_the_setting() -> None:
    types = ContentTypes.from_setting(
        "newsletter, Bản tin, story = mailchimp ; Email=gmail, fastmail; issue, event = ;"
    )
    assert named("the newsletters and the stories", types) == {"mailchimp"}
    assert named("bản tin", types) == {"mailchimp"}
    assert named("ban tin", types) == {"mailchimp"}
    assert named("emails", types) == {"gmail", "fastmail"}
    assert named("mails", types) == EMAIL
    assert named("an issue of the events", types) == set()
    assert named("every email, document, task and meeting", ContentTypes.from_setting(None)) == (
        EMAIL | DOCUMENT | TASK | MEETING
    )


def test_d6_a_setting_of_another_form_says_what_to_write() -> None:
    for setting, message in [
        ("newsletter", "must read `word, word = source, source`"), ("= gmail", "must read"),
        ("a = b = c", "must read"), ("newsletter =", "'newsletter' has no sources"),
        ("!! = gmail", "is no word"), (f"{'a' * 65} = gmail", "is no word"),
        ("wiki = confluence; wiki = notion", "appears twice"),
        ("x" * 20_001, "at most 20000 characters"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message), refusing(setting):
            ContentTypes.from_setting(setting)


# Which questions ask for the most recent items (requirement D5).


WORDS = RecencyWords()


def asks(question: str, words: RecencyWords = WORDS) -> bool:
    return bool(words.found_in(readable(question), find_window(question, NOW)))


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
