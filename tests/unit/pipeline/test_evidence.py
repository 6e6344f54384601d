"""Who said it and when, and which words and numbers bear a change (contract; rows 67, 71)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hitherto_extraction.pipeline.answer import Cited, ProfileItem
from hitherto_extraction.pipeline.evidence import (
    MAX_SOURCE_TEXT,
    ChangeRefused,
    Evidence,
    Witnesses,
)
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.profile_changes import learn
from hitherto_extraction.pipeline.quotes import MAX_QUOTE, contains, stands_in
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import Profile, SourceRef
from tests.unit.pipeline.situations import forgotten, known, planned, update

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


def test_row_71_only_the_user_s_own_words_change_the_profile() -> None:
    profile = Profile("ana", facts={"personal": {"name": "Ana"}})
    for quote, name, reasons in (
        ("words 1", "Bo", []),
        ("words 2", "Ana", ["refused_by_trust"]),
    ):
        cited = Cited("profile_changes[0]", (f"m{quote[-1]}",), quote)
        item = ProfileItem(cited, ("facts", "personal", "name"), "Bo")
        learnt = learn(profile, {}, [item], heard("user", "assistant"), Plan())
        assert [each.reason for each in learnt.refused] == reasons
        assert learnt.state.profile.facts == {"personal": {"name": name}}
        assert len(learnt.said) == len(reasons) ^ 1
    # A value without a quote may be the speaker's name.
    hello = Witnesses("talk", {"m1": StoredMessage(1, "c1", "user", "Ana", "hello", NOON)})
    assert hello.for_own_words(Cited("x", None, ""), "Ana").quoted == SourceRef("talk", "c1")


def test_row_71_a_value_may_have_the_numbers_of_a_changed_memory_that_is_not_forgotten() -> None:
    before = known(content="Ana's number ends in 703")
    item = ProfileItem(Cited("x", ("m1",), "words 1"), ("facts", "number"), "ends in 703")
    for asked, reasons in (([], []), ([forgotten()], ["refused_digits"])):
        plan = planned(before, updated=[update(tags=("phone",))], forgotten=asked)
        learnt = learn(Profile("ana"), {}, [item], heard("user"), plan)
        assert [each.reason for each in learnt.refused] == reasons


def test_values_of_one_reply_count_in_the_order_in_which_they_were_said() -> None:
    items = [
        ProfileItem(Cited("x", (f"m{n}",), f"words {n}"), ("current_projects",), [f"words {n}"])
        for n in (2, 1)
    ]
    state = learn(Profile("ana"), {}, items, heard("user", "user"), Plan()).state
    assert state.profile.current_projects == ("words 1", "words 2")


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
    # Sealed words enter no index.
    sealed = Witnesses("talk", {"m1": replace(long, sealed=True)})
    assert sealed.for_new(["m1"], None).text == ""


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
