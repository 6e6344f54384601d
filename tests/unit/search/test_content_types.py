"""Which kinds of content a question names (requirement D6)."""

from __future__ import annotations

import pytest

from hitherto_retrieval.search.intent.content_types import ContentTypes
from hitherto_retrieval.search.intent.whole_words import readable
from tests.refusing import refusing

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
