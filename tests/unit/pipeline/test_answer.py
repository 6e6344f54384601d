"""The model's reply is untrusted: checked item by item, never fatal as a whole (B8).

faults.md rows 26, 28, 30, 31, 45.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hitherto_extraction.pipeline.answer import Answer, Cited
from hitherto_extraction.pipeline.answer_parsing import KEYS, MAX_ITEMS, read_answer
from hitherto_extraction.pipeline.free_json import fits_struct
from hitherto_extraction.provider.reply_text import UnusableAnswer
from tests.refusing import refusing
from tests.scripted_model import CONTENT_FAULTS


def item(**changes: Any) -> dict[str, Any]:
    return {"type": "fact", "content": "Anna likes tea", "source_message_ids": ["m1"]} | changes


def read(text: str) -> Answer:
    return read_answer(text, messages=["m1", "m2"], memories=["e1", "e2", "e3"])


def answered(**keys: Any) -> Answer:
    return read(json.dumps(keys))


NO_ANSWERS = [
    *CONTENT_FAULTS.values(), "null", "3", '"new_memories"', '{"memories": []}',
    '{"new_memories": null}', '{"new_memories": "none", "profile": []}', "[" * 100_000,
    '{"new_memories": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"new_memories": [' + "9" * 10_000 + "]}",
]  # fmt: skip


def test_row_26_what_is_no_answer_is_never_taken_for_nothing() -> None:
    for text in NO_ANSWERS:
        with pytest.raises(UnusableAnswer), refusing(text):
            read(text)


def test_row_26_every_key_is_optional_and_one_is_enough_even_with_an_empty_list() -> None:
    nothing = Answer(new=[], updated=[], contradicted=[], achieved=[], forgotten=[], profile=[])
    for key in KEYS:
        told = key in ("profile", "conversation_summary")
        found = answered(**{key: {"summary": "x"} if told else []})
        assert found == nothing or told, key
        assert found.dropped == 0, key


UNUSABLE: list[dict[str, Any]] = [
    {"new_memories": [{"typ": "fact", "text": "Anna likes tea"}]},
    {"new_memories": [{"type": "prophecy", "content": "Anna likes tea"}, None, 5, "tea", []]},
    {"new_memories": [{"type": "fact", "content": content} for content in (None, "", " ", 7)]},
    {"new_memories": [{"typ": "fact"}], "conversation_summary": {"title": "Tea"}},
    {"new_memories": {"type": "fact", "content": "Anna likes tea"}, "updated_memories": []},
    {"new_memories": [], "updated_memories": [{"memory": "e1", "text": "tea"}]},
    {"updated_memories": [{"id": "e1", "text": "tea"}, {"id": "e2"}, {"id": 1, "content": "x"}]},
    {"contradicted_memories": ["e1", {"memory": "e1"}]},
    {"achieved_goals": [{"id": None}]},
    {"new_memories": [], "profile": [1]},
    {"new_memories": [], "conversation_summary": "it went well"},
    {"new_memories": [], "profile": {"summary": 7, "facts": "Anna", "current_projects": 1}},
    {"profile": {"summary": " ", "facts": {}, "source_message_ids": ["m1"]}},
    {"profile": {"facts": {"personal": {"name": None}}}},
    {"profile_changes": [{"path": "shoe_size", "value": 40}, {"path": "summary"}, "tea"]},
    {"forgotten_memories": ["e1", {"memory": "e1"}]},
    {"new_memories": [], "conversation_summary": {"title": 7, "key_topics": {"a": 1}}},
    {"new_memories": [{"entities": [{"name": "Anna", "type": "person"}]}]},
    {"conversation_summary": {}, "profile": None},
]


def test_row_73_a_reply_that_says_something_and_nothing_usable_is_none() -> None:
    """One usable item saves it."""
    for reply in UNUSABLE:
        with pytest.raises(UnusableAnswer), refusing(reply):
            answered(**reply)
        found = answered(**{"new_memories": [], **reply, "achieved_goals": [{"id": "e1"}]})
        assert [closed.memory for closed in found.achieved] == ["e1"], reply


def test_row_28_what_is_well_formed_and_refused_is_an_answer() -> None:
    cases: list[Any] = [
        {"updated_memories": [{"id": "e999", "content": "x"}]},
        {"contradicted_memories": [{"id": "e999"}], "achieved_goals": [{"id": "e1", "by": 7}]},
    ]
    for reply in cases:
        assert answered(**reply).dropped > 0


def test_one_wrong_key_does_not_cost_the_others() -> None:
    others = {"updated_memories": "none", "profile": [1], "conversation_summary": "it went well"}
    found = answered(new_memories=[item()], **others)
    assert (len(found.new), found.profile, found.summary, found.dropped) == (1, [], None, 3)


def test_row_30_a_bad_item_is_dropped_alone_and_counted() -> None:
    for bad in [
        5, None, "text", ["fact", "Anna likes tea"], {}, item(type="prophecy"), item(type=["fact"]),
        item(content=["list"]), item(content="  \n "), item(content="\u200b\u202e\u3164"),
        item(content="\x00\ud800"), item(content="x" * 2**20), item(content="é" * 4097),
    ]:  # fmt: skip
        found = answered(new_memories=[item(content="before"), bad, item(content="after")])
        assert [(new.index, new.content) for new in found.new] == [(0, "before"), (2, "after")], bad
        assert found.dropped == 1, bad


def test_row_30_importance_is_clamped_or_replaced() -> None:
    for importance, kept, dropped in [
        ("0.4", 0.4, 0), ("null", 0.5, 0), ("7", 1.0, 1), ("-1", 0.0, 1), ("NaN", 0.5, 1),
        ("Infinity", 0.5, 1), ('"high"', 0.5, 1), ("true", 0.5, 1), ("1" + "0" * 400, 1.0, 1),
    ]:  # fmt: skip
        found = read(
            f'{{"new_memories": [{{"type":"fact","content":"a","importance":{importance}}}]}}'
        )
        assert [new.importance for new in found.new] == [kept], importance
        assert found.dropped == dropped, importance


def test_row_30_dates_are_as_the_contract_writes_them_or_dropped_and_counted() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    cases: list[tuple[Any, datetime | None]] = [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T14:00:00+02:00", noon),
        ("2026-03-01T12:00:00Z", noon),
        ("2026-03-01T12:00:00", noon),
        ("1900-01-01", datetime(1900, 1, 1, tzinfo=UTC)),
        # Out of this world.
        ("10000-01-01T00:00:00Z", None), ("9999-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59-14:00", None), ("0001-01-01T00:00:00+14:00", None),
        ("2026-02-30", None), ("soon", None), (20260301, None), (True, None),
    ]  # fmt: skip
    for valid_from, kept in cases:
        found = answered(new_memories=[item(valid_from=valid_from)])
        assert [new.valid_from for new in found.new] == [kept], valid_from
        assert found.dropped == (kept is None), valid_from


def test_row_30_ten_thousand_memories_are_cut_and_counted() -> None:
    found = answered(new_memories=[item(content=f"fact {n}") for n in range(10_000)])
    assert (len(found.new), found.dropped) == (MAX_ITEMS, 10_000 - MAX_ITEMS)


def test_row_30_unhashable_and_wild_labels_cost_only_themselves() -> None:
    found = answered(
        new_memories=[
            item(
                tags=[{"a": 1}, ["b"], None, 5, " Ho Chi-Minh City ", "ho_chi_minh_city", "cà phê"],
                keywords=[{"a": 1}, "Ho Chi Minh", "k" * 65, ""],
                entities=[
                    "Anna",
                    {"name": 5},
                    {"type": "PERSON"},
                    {"name": " An  na ", "type": []},
                ],
            )
        ]
    )
    new = found.new[0]
    assert (new.tags, new.keywords) == (("ho_chi_minh_city", "cà_phê"), ("Ho Chi Minh",))
    assert [(entity.name, entity.type) for entity in new.entities] == [("An na", "other")]


def test_a_field_of_another_type_falls_back() -> None:
    cases: list[Any] = [
        ("type", None, "fact"), ("type", "", "fact"), ("confidence", ["high"], "medium"),
        ("confidence", "high", "high"), ("origin", "emperor", None), ("origin", {"a": 1}, None),
        ("origin", "assistant", "assistant"), ("detail", 7, ""), ("detail", "d" * 8193, ""),
        ("context", [1, 2], {}), ("tags", "a,b", ()), ("tags", {"a": 1}, ()),
        ("same_as", "[e2]", "e2"), ("same_as", "E2", "e2"), ("same_as", "e9", None),
        ("same_as", 7, None),
    ]  # fmt: skip
    for field, value, kept in cases:
        (new,) = answered(new_memories=[item(**{field: value})]).new
        assert getattr(new, field) == kept, (field, value)
    (new,) = answered(new_memories=[{"content": "Anna likes tea"}]).new
    assert (new.type, new.content) == ("fact", "Anna likes tea")


def test_row_45_nul_and_lone_surrogates_are_stripped_everywhere() -> None:
    found = read(
        '{"new_memories": [{"type": "fact", "content":'
        ' "Anna\\u0000 likes\\ud800 tea \\ud83d\\ude00", "tags": ["t\\u0000ea"],'
        ' "context": {"k\\u0000": "v\\udc00", "\\ud800": 1}}],'
        ' "profile": {"summary": "a\\u0000b"}, "conversation_summary": {"title": "\\udc00t"}}'
    )
    assert (found.new[0].content, found.new[0].tags) == ("Anna likes tea 😀", ("tea",))
    assert found.new[0].context == {"k": "v"}
    assert [(each.path, each.value) for each in found.profile] == [(("summary",), "ab")]
    assert found.summary == {"title": "t"}
    # Row 46: and text is composed.
    (new,) = answered(new_memories=[item(content="To\u0302i thi\u0301ch tra\u0300")]).new
    assert new.content == "Tôi thích trà"


def test_numbers_that_cannot_travel_are_left_out_of_free_json() -> None:
    found = read(
        '{"new_memories": [{"type": "fact", "content": "a", "context":'
        ' {"nan": NaN, "huge": 1' + "0" * 400 + ', "fine": 7, "flag": true}}]}'
    )
    assert found.new[0].context == {"nan": None, "huge": None, "fine": 7, "flag": True}


def test_row_31_deep_nesting_is_cut_and_size_is_bounded() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    found = answered(
        new_memories=[item(context=deep), item(context={"k": "v" * 70_000})],
        profile={"preferences": deep},
    )
    assert [fits_struct(new.context) for new in found.new] == [True, True]
    assert found.new[1].context == {}
    assert len(found.profile) <= 1


def test_b9_a_long_event_is_cut_and_its_text_kept_as_detail() -> None:
    for kind in ["question", "problem", "learning"]:
        text = "Why does " + "the deployment fail " * 20
        new = answered(new_memories=[item(type=kind, content=text)]).new[0]
        assert len(new.content) <= 200, kind
        assert new.content.endswith("…"), kind
        assert new.detail == text.strip(), kind


def test_row_28_ids_that_were_never_shown_are_dropped_and_counted() -> None:
    found = answered(
        new_memories=[item(source_message_ids=["m1", "m999", 9, None, {"id": "m1"}, "m1"])],
        updated_memories=[
            {"id": "e999", "content": "hijacked"},
            {"id": "0190b3a4-7c1e-7000-8000-000000000001", "content": "hijacked"},
            {"id": 1, "content": "hijacked"},
            {"id": ["e1"], "content": "hijacked"},
            "e1",
        ],
        contradicted_memories=[{"id": "e0"}, {"by": 0}],
        achieved_goals=[{"id": None}],
    )
    assert found.new[0].source_ids == ("m1",)
    assert (found.updated, found.contradicted, found.achieved) == ([], [], [])
    assert found.dropped == 4 + 5 + 2 + 1


def test_b8_other_values_of_a_key_are_not_lost_unseen() -> None:
    """At any depth: JSON would keep the last, and nobody would know of the others."""
    for text in [
        '{"new_memories": [{"content": "She has a cat.", "type": "fact", "content": "So what."}]}',
        '{"profile": {"facts": {"personal": {"pet": "a cat", "pet": "a dog"}}}}',
        '{"conversation_summary": {"title": "Cats", "summary": "Of cats.", "title": ""}}',
    ]:
        with pytest.raises(UnusableAnswer, match="more than once"), refusing(text):
            read(text)


def test_b8_lists_of_a_key_are_joined() -> None:
    """A model that always repeats a key is read all the same."""
    for given, contents in [
        ('{"new_memories": [TEA], "new_memories": []}', ["tea"]),
        ('{"new_memories": [], "new_memories": [TEA], "new_memories": [RAIN]}', ["tea", "rain"]),
        ('{"new_memories": [TEA], "profile": {}, "new_memories": [TEA]}', ["tea"]),
        ('{"new_memories": [{"type": "fact", "content": "tea", "type": "fact"}]}', ["tea"]),
    ]:
        text = given
        for each in ("tea", "rain"):
            text = text.replace(each.upper(), json.dumps(item(content=each)))
        assert [new.content for new in read(text).new] == contents, given


def test_row_28_a_memory_ends_once() -> None:
    found = answered(contradicted_memories=[{"id": "e1"}, {"id": "e1"}, {"id": "e99"}])
    assert [closed.memory for closed in found.contradicted] == ["e1"]
    assert found.dropped == 2
    assert found.refused == (
        ("contradicted_memories[1]", "refused_repeated"),
        ("contradicted_memories[2]", "refused_id"),
    )


def test_row_28_a_successor_is_a_place_in_the_reply_or_nothing_or_drops_the_item() -> None:
    cases: list[tuple[Any, list[int | None]]] = [(0, [0]), (None, [None])]
    no_places: list[Any] = [-1, 1, 77, True, False, 0.0, "0", [0], {}]
    cases += [(by, []) for by in no_places]
    for by, kept in cases:
        found = answered(new_memories=[item()], contradicted_memories=[{"id": "e1", "by": by}])
        assert [closed.by for closed in found.contradicted] == kept, by
        assert found.dropped == 1 - len(kept), by
    (closed,) = answered(new_memories=[item()], contradicted_memories=[{"id": "e1"}]).contradicted
    assert closed.by is None


def test_sources_that_are_absent_differ_from_sources_that_do_not_exist() -> None:
    cases: list[Any] = [
        ({}, None, 0),
        ({"source_message_ids": None}, None, 0),
        ({"source_message_ids": []}, None, 0),
        ({"source_message_ids": ["m2"]}, ("m2",), 0),
        ({"source_message_ids": ["m9"]}, (), 1),
        ({"source_message_ids": "m1"}, ("m1",), 0),
        ({"source_message_ids": "[m2] user"}, ("m2",), 0),
        ({"source_message_ids": 1}, ("m1",), 0),
        ({"source_message_ids": [2, "1", "(M1)", "[1]"]}, ("m2", "m1"), 0),
        ({"source_message_ids": [True, -1, 10**20, "1st", {}]}, (), 5),
    ]
    for given, kept, dropped in cases:
        found = answered(
            contradicted_memories=[{"id": "e1", **given}], profile={"summary": "a", **given}
        )
        assert found.contradicted[0].cited.source_ids == kept, given
        assert [each.cited.source_ids for each in found.profile] == [kept], given
        assert found.dropped == 2 * dropped, given


def test_every_change_keeps_what_it_cites_and_its_place_in_the_reply() -> None:
    cited = {"source_message_ids": ["[M2]"], "quote": " as I said "}
    found = answered(
        updated_memories=[{"id": "e999", "content": "x"}, {"id": "[e1]", "content": "x", **cited}],
        contradicted_memories=[{"id": "E2", **cited}],
        achieved_goals=[{"id": "e3", **cited}],
        forgotten_memories=[{"id": "e3", **cited}],
        profile_changes=[{"path": "summary", "value": "x", **cited}],
    )
    changes: list[Any] = [
        *found.updated, *found.contradicted, *found.achieved, *found.forgotten, *found.profile
    ]  # fmt: skip
    assert [each.cited for each in changes] == [
        Cited(item, ("m2",), "as I said")
        for item in (
            "updated_memories[1]",
            "contradicted_memories[0]",
            "achieved_goals[0]",
            "forgotten_memories[0]",
            "profile_changes[0]",
        )
    ]


def test_a_profile_change_names_a_path() -> None:
    for path, value, read_as in [
        ("summary", "Likes tea", ("summary",)),
        ("current_projects", ["boat"], ("current_projects",)),
        ("preferences.tone", "dry", ("preferences", "tone")),
        ("preferences.units.of.length", "m", ("preferences", "units.of.length")),
        ("facts.personal.name", "Ana", ("facts", "personal", "name")),
        ("facts.personal.e.mail", "a@b.c", ("facts", "personal", "e.mail")),
        ("metadata.height", 1.7, ("metadata", "height")),
        ("metadata.vip", True, ("metadata", "vip")),
    ]:
        (change,) = answered(profile_changes=[{"path": path, "value": value}]).profile
        assert (change.path, change.value, change.ended) == (read_as, value, False)
    # What ended needs no value.
    (change,) = answered(profile_changes=[{"path": "preferences.tone", "ended": True}]).profile
    assert (change.path, change.value, change.ended) == (("preferences", "tone"), None, True)


def test_row_31_a_change_of_another_form_is_dropped() -> None:
    for path, value in [
        ("preferences", "dry"), ("facts", {"a": 1}), ("summary.title", "x"),
        ("access_level", "board"), ("department.name", "board"), ("facts.personal.", "x"),
        ("facts.personal.name", ""), ("facts.personal.name", {"first": "Ana"}), (7, "x"),
    ]:  # fmt: skip
        odd = {"path": path, "value": value}
        found = answered(new_memories=[item()], profile_changes=[odd])
        assert (found.profile, found.dropped) == ([], 1), path


def test_row_85_a_profile_of_earlier_prompts_is_read_value_by_value() -> None:
    pairs = [{"key": "units", "value": "metric"}, {"key": "clock", "value": "24 hours"}]
    found = answered(new_memories=[], profile={"preferences": pairs, "current_projects": ["boat"]})
    assert {each.path: each.value for each in found.profile} == {
        ("current_projects",): ["boat"],
        ("preferences", "units"): "metric",
        ("preferences", "clock"): "24 hours",
    }
    assert all(each.in_own_words for each in found.profile)
    assert found.dropped == 0


def test_a_year_a_month_or_a_day_is_one_of_the_persons_zone() -> None:
    """It begins with its first moment there, and what expires with it does so at its end."""
    others: list[tuple[str, tuple[int, int, int], tuple[int, int, int]]] = [
        ("2026", (2026, 1, 1), (2027, 1, 1)),
        ("2026-12", (2026, 12, 1), (2027, 1, 1)),
        ("2026-02", (2026, 2, 1), (2026, 3, 1)),
        ("2026-02-28", (2026, 2, 28), (2026, 3, 1)),
    ]
    for zone in ["Asia/Tokyo", "America/Los_Angeles", "UTC"]:
        for said, first, after in others:
            reply = json.dumps({"new_memories": [item(valid_from=said, expires_at=said)]})
            (new,) = read_answer(reply, messages=["m1"], memories=[], zone=ZoneInfo(zone)).new
            assert new.valid_from == datetime(*first, tzinfo=ZoneInfo(zone)), (zone, said)
            assert new.expires_at == datetime(*after, tzinfo=ZoneInfo(zone)), (zone, said)
            assert new.valid_from.utcoffset() == timedelta(0), (zone, said)
