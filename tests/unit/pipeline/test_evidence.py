"""Who said it and when, and which words and numbers bear a change (contract; rows 67, 71)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from benchmarks.state import people, replies
from hitherto_extraction.pipeline.answer import Cited
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.evidence import (
    MAX_SOURCE_TEXT,
    ChangeRefused,
    Evidence,
    Witnesses,
)
from hitherto_extraction.pipeline.quotes import MAX_QUOTE, contains, stands_in
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import SourceRef

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def heard(*roles: str) -> Witnesses:
    """Messages m1, m2… of these roles, a minute apart, called c1 and a number by their caller."""
    return Witnesses(
        "talk",
        {
            f"m{n}": StoredMessage(n, f"c{n}", role, "", f"words {n}", NOON + timedelta(minutes=n))
            for n, role in enumerate(roles, 1)
        },
    )


def test_origin_of_a_new_memory() -> None:
    for roles, named, declared, origin in [
        (["user"], ["m1"], None, "user"),
        (["user", "assistant"], ["m1"], None, "user"),
        (["user", "assistant"], ["m2"], None, "assistant"),
        (["user", "assistant"], ["m1", "m2"], None, "assistant"),
        (["user", "assistant", "tool"], ["m3", "m1"], None, "tool"),
        # What the model declares can only lower it.
        (["user"], ["m1"], "assistant", "assistant"),
        (["user"], ["m1"], "document", "document"),
        (["assistant"], ["m1"], "user", "assistant"),
        (["tool"], ["m1"], "operator", "tool"),
        # Without a valid source the least trusted of the batch.
        (["user", "assistant"], [], None, "assistant"),
        (["user"], [], None, "user"),
        (["user", "tool", "assistant"], ["m9"], "user", "tool"),
        # SYSTEM is no source.
        (["user", "system"], ["m2"], None, "user"),
        (["user", "system"], ["m1", "m2"], None, "user"),
        (["user", "assistant", "system"], ["m3"], None, "assistant"),
        (["system"], ["m1"], "user", "tool"),
        (["system"], [], None, "tool"),
    ]:
        found = heard(*roles).for_new(named, declared)
        assert (found.origin, found.trusted) == (origin, origin == "user"), (roles, named, declared)


def changed(roles: list[str], named: list[str] | None, quote: str) -> Evidence | str:
    try:
        return heard(*roles).for_change(Cited("x", None if named is None else tuple(named), quote))
    except ChangeRefused as refused:
        return refused.reason


def test_origin_of_a_change_is_that_of_the_message_quoted() -> None:
    for roles, named, origin in [
        (["assistant", "user"], None, "user"),
        (["assistant", "user"], ["m1"], "assistant"),
        (["assistant", "user"], ["m2"], "user"),
        # Of several with the same words, the user's.
        (["assistant", "user"], ["m1", "m2"], "user"),
        (["assistant", "tool"], None, "assistant"),
    ]:
        found = changed(roles, named, "wor")
        assert isinstance(found, Evidence), roles
        assert found.origin == origin, (roles, named)
        assert found.quoted == SourceRef("talk", f"c{roles.index(origin) + 1}"), (roles, named)
        assert found.quote == "wor", roles


def test_row_71_an_assistants_words_bear_nothing_for_a_user_who_is_cited_too() -> None:
    found = changed(["user", "assistant"], ["m1", "m2"], "words 2")
    assert isinstance(found, Evidence)
    assert (found.origin, found.trusted) == ("assistant", False)


def test_row_71_without_a_genuine_quote_there_is_no_evidence() -> None:
    for named, quote, why in [
        ([], "words 2", "refused_without_source"),
        (["m3"], "words 3", "refused_without_source"),
        (["m9"], "words 2", "refused_without_source"),
        (["m2"], "", "refused_without_quote"),
        (None, "", "refused_without_quote"),
        (["m2"], "words 1", "refused_quote"),
        (["m2"], "other words entirely", "refused_quote"),
        (["m2"], "wo", "refused_quote"),
        # Nobody is cited: only the user's words are searched.
        (None, "words 1", "refused_quote"),
        (None, "words 3", "refused_quote"),
    ]:
        assert changed(["assistant", "user", "system"], named, quote) == why


def test_sources_are_the_callers_ids_of_what_was_named() -> None:
    found = heard("user", "system", "user").for_new(["m3", "m2", "m1"], None)
    assert found.sources == (SourceRef("talk", "c3"), SourceRef("talk", "c1"))
    assert (found.text, found.said_at) == ("words 3\nwords 1", NOON + timedelta(minutes=3))


def test_unnamed_evidence_has_a_time_and_no_source() -> None:
    found = heard("user", "assistant").for_new([], None)
    assert (found.sources, found.text, found.said_at) == ((), "", NOON + timedelta(minutes=2))


def test_source_text_is_bounded() -> None:
    long = StoredMessage(1, "c1", "user", "", "x" * 10_000, NOON)
    assert len(Witnesses("talk", {"m1": long}).for_new(["m1"], None).text) == MAX_SOURCE_TEXT


def test_a_message_means_yesterday_in_the_persons_zone() -> None:
    late = StoredMessage(1, "c1", "user", "", "words", datetime(2026, 3, 2, 23, 30, tzinfo=UTC))
    for zone, day in (("UTC", 2), ("Asia/Tokyo", 3), ("Not/AZone", 2)):
        (said,) = Witnesses("talk", {"m1": late}, zone).for_new(["m1"], None).days
        assert said.day == day


def test_a_day_at_the_end_of_the_calendar_is_no_fault() -> None:
    end = StoredMessage(1, "c1", "user", "", "words", datetime(9999, 12, 31, 23, tzinfo=UTC))
    assert Witnesses("talk", {"m1": end}, "Asia/Tokyo").for_new(["m1"], None).days


# A change is believed by words that stand in a message, in any script (faults.md row 71).


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


# A new wording holds no number that nobody said (row 71), and the check refuses few right ones.


REFUSED = {"ar": 0, "de": 0, "en": 4, "es": 0, "hi": 0, "ja": 8, "vi": 3, "zh": 2}
"""What is left, of 1,787 wordings: counts of what was listed, months without a day, and numbers of
messages that the reply does not cite. Lower a number when the check learns to read one more."""


@pytest.fixture(scope="module")
def everybody() -> list[people.Persona]:
    return people.load()


@pytest.mark.parametrize("language", REFUSED)
def test_right_wordings_keep_their_numbers(everybody: list[people.Persona], language: str) -> None:
    spoken = [person for person in everybody if person.language == language]
    wordings = [each for person in spoken for each in _wordings(person)]

    refused = [wording for wording, *said in wordings if strange(wording, *said)]

    assert len(wordings) > 150
    assert len(refused) <= REFUSED[language], refused


def _wordings(person: people.Persona) -> Iterator[tuple[str, list[str], list[Any]]]:
    """Each wording of a person's replies, with the texts it came from and the days of these."""
    recorded, zone = replies.load("extraction_4", person.id), ZoneInfo(person.time_zone)
    values: dict[str, list[str]] = defaultdict(list)
    for session in person.sessions:
        record = recorded[session.id]
        messages = {f"m{number}": each for number, each in enumerate(session.messages, 1)}
        own = [name for name, each in messages.items() if each.role == "user"]
        for kind in ("new_memories", "updated_memories", "profile_changes"):
            for item in record.reply.get(kind, ()):
                path = item.get("path", "")
                if path == "summary":  # Not checked: it sums up more than is cited.
                    continue
                cited = [messages[each] for each in item.get("source_message_ids") or own]
                known = values[path] if path else [record.known.get(item.get("id"), "")]
                sources = [*known, *(each.content for each in cited)]
                days = [each.at.astimezone(zone).date() for each in cited]
                for text in _texts(item.get("content") or item.get("value")):
                    yield text, sources, days
                    values[path].append(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)


# A new wording holds no number that nobody said (faults.md row 71).


DAY = date(2026, 3, 2)


def strangers(wording: str, *sources: str, days: tuple[date, ...] = (DAY,)) -> list[str]:
    return strange(wording, sources, days)


def test_what_was_said_or_computed_is_no_stranger() -> None:
    for wording, source in [
        ("takes 20 mg of Atorvastatin", "now 20mg"), ("takes 0.5 mg", "0,5 mg at night"),
        ("earns 1,500 euros", "I earn 1500"), ("meets at 14:00", "at 2 pm"),
        ("meets at 14:30", "2:30 in the afternoon"), ("runs 10 km", "chạy १० km"),
        ("has 3 cats", "لدي ٣ قطط"), ("毎朝10キロ走る", "十キロに増やした"),
        ("一页收80块", "现在一页八十"),
        ("年薪350000, 2026年起", "三十五萬，二〇二六年開始"), ("房租4200", "四千二百"),
        ("月薪25000", "2万5千"),
        ("月薪2万5千", "25000元"), ("月薪1.5万", "15000"),
        ("earns 1200000 rupees", "12,00,000 रुपये"),
        ("يكسب 1200", "١٬٢٠٠"), ("takes 3.5 cups", "3½ cups"), ("takes 3 1/2 cups", "3½ cups"),
        ("moved on 2026-03-01", "I moved yesterday"),
        ("moves on 2026-12-24", "we move on Christmas Eve"), ("started in 2026-02", "last month"),
        ("started in 2025", "a year ago"), ("plays chess", "7 years"),
        ("uses Postgres 16", "we went from 15 to 16"),
    ]:  # fmt: skip
        assert strangers(wording, source) == []


def test_any_other_number_is_one() -> None:
    for wording, source, numbers in [
        ("takes 40 mg", "now 20mg", ["40"]), ("earns 1,500 euros", "I earn 1,600", ["500"]),
        ("meets at 15:00", "at 2 pm", ["15"]),
        ("moved on 2024-03-01", "I moved yesterday", ["03", "01"]),
        ("on 2026-02-31", "the last day", ["02", "31"]), ("has 3 cats and 4 dogs", "3 cats", ["4"]),
        ("毎朝20キロ走る", "十キロに増やした", ["20"]), ("毎朝20キロ走る", "九" * 5_000, ["20"]),
        ("月薪1.6万", "15000", ["1", "6"]), ("takes 3.25 cups", "3½ cups", ["25"]),
        ("has 10 cats", "12,00,000", ["10"]),
    ]:  # fmt: skip
        assert strangers(wording, source) == numbers


def test_without_a_day_no_date_is_computed() -> None:
    assert strangers("moved on 2026-03-01", days=()) == ["2026", "03", "01"]
    assert strangers("moved on 2026-03-01", "on 1.3.2026", days=()) == []


def test_a_day_of_which_only_a_part_was_said_is_computed() -> None:
    """The parts of a date are not taken for numbers that stand alone."""
    for said in ["परीक्षा 14 को है", "the test is on the 14th", "14日だよ", "Am 14."]:
        assert strange("the test is on 2026-06-14", [said], [date(2026, 5, 1)]) == []
        assert strange("the test is on 2031-06-14", [said], [date(2026, 5, 1)]) != []


def test_the_old_wording_is_a_source_too() -> None:
    assert strangers("takes 20 mg since 3 weeks", "takes 20 mg", "3 weeks now") == []
