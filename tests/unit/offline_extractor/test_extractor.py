"""What the offline rules answer: the whole loop, in English and Vietnamese, and nothing made up."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitherto_extraction.provider.offline import LIMITS, MODEL, OfflineExtractor
from hitherto_extraction.provider.offline.extractor import extract
from hitherto_extraction.provider.protocol import (
    Batch,
    ChatModel,
    Prompt,
    PromptMemory,
    PromptMessage,
)

SATURDAY = datetime(2026, 3, 14, 10, tzinfo=UTC)


def answer(
    *said: str,
    known: Sequence[tuple[str, str]] = (),
    name: str = "",
    profile: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    said_at: datetime = SATURDAY,
    time_zone: str = "UTC",
    user_id: str = "",
) -> dict[str, Any]:
    """What is answered to messages of the user ("> …": of the assistant).

    `known` holds (type, content) of existing memories e1, e2…
    """
    messages = [
        PromptMessage(f"m{number}", role, name if role == "user" else "", text, said_at)
        for number, text in enumerate(said, 1)
        for role in (("assistant" if text.startswith("> ") else "user"),)
    ]
    memories = [
        PromptMemory(f"e{number}", kind, content, SATURDAY)
        for number, (kind, content) in enumerate(known, 1)
    ]
    return extract(Batch(profile or {}, summary, memories, messages, time_zone, user_id=user_id))


def contents(found: Mapping[str, Any]) -> list[str]:
    return [memory["content"] for memory in found["new_memories"]]


async def test_it_is_a_chat_model_that_costs_nothing() -> None:
    model: ChatModel = OfflineExtractor()
    assert (model.extractor, model.model) == ("offline", MODEL)
    message = PromptMessage("m1", "user", "", "I live in Graz.", SATURDAY)
    prompt = Prompt("", "", Batch({}, None, (), (message,)), {})
    first, second = await model.complete(prompt), await model.complete(prompt)
    assert (first, first.calls, first.input_tokens, first.output_tokens) == (second, 0, 0, 0)
    assert contents(json.loads(first.text)) == ["User lives in Graz."]
    assert "English" in LIMITS
    assert "Vietnamese" in LIMITS
    await model.close()


def test_what_single_messages_give() -> None:
    for text, expected in [
        ("I live in Trier, is it far from Metz?", ["User lives in Trier."]),
        ("I’m based in Lisbon 🌞", ["User lives in Lisbon."]),
        ("I prefer tea. My favourite band is Pulp",
         ["User prefers tea.", "User's favourite band is Pulp."]),
        ("I work as a nurse in a bakery", ["User works as a nurse in a bakery."]),
        ("I'm a teacher at Siemens", ["User is a teacher at Siemens."]),
        ("My sister lives in Rome and my wife is a dentist.",
         ["User's sister lives in Rome.", "User's wife is a dentist."]),
        ("We decided to use Iceberg", ["User decided to use Iceberg."]),
        ("I'm allergic to lupins and most of those rolls hold them.",
         ["User is allergic to lupins."]),
        ("I have a problem with our Jenkins job.", ["User has a problem with their Jenkins job."]),
        ("I moved to Ghent last week.",
         ["User moved to Ghent and lives in Ghent (week of 2026-03-02)."]),
        ("My goal is to finish the report by next Friday",
         ["User's goal is to finish the report by 2026-03-20."]),
        ("chào bạn, tớ ở Quảng Ngãi nè 😄", ["Người dùng sống ở Quảng Ngãi."]),
        ("Tôi tên là Thanh, đang làm developer tại Hà Nội",
         ["Người dùng tên là Thanh.", "Người dùng làm developer ở Hà Nội."]),
        ("Mình bị dị ứng tôm và muốn học bơi.",
         ["Người dùng bị dị ứng tôm.", "Người dùng muốn học bơi."]),
        ("Vậy mình quyết định dùng SQLite cho bản thử.",
         ["Người dùng quyết định dùng SQLite cho bản thử."]),
        ("Hôm nay mình mới biết là pip có bộ nhớ đệm.",
         ["Người dùng đã học được rằng pip có bộ nhớ đệm (2026-03-14)."]),
        (
            "Whenever I ask about a recipe, always list the allergens first",
            [
                "User wants the assistant to list the allergens first "
                "whenever they ask about a recipe."
            ],
        ),
        (
            "Never suggest seafood when I ask for dinner ideas",
            ["User wants the assistant to never suggest seafood when they ask for dinner ideas."],
        ),
        (
            "Luôn ghi kèm giá tiền mỗi khi tôi hỏi về quán ăn nhé",
            ["Người dùng muốn trợ lý ghi kèm giá tiền mỗi khi mình hỏi về quán ăn."],
        ),
        ("Please look at what happens when I mention a user twice", []),
        ("My manager gets angry whenever I ask about my salary", []),
        # Nobody's own statement, or no statement.
        ("> I live in Oslo.", []),
        ("If I lived in Portugal I'd ride all winter", []),
        ("I'm German", []),
        ("Can you translate this? I live in Oslo and my name is Otto.", []),
        ("He told me 'I live in Oslo, and you'.", []),
        ("> quoted\n```\nI live in Oslo\n```\nassistant: I live in Rome", []),
        ("Ich wohne in Köln und mag Tee.", []),
        ("我住在上海，喜欢Python。", []),
        ("minh song o Hue nhe", []),
        ("I bought a camper van", []),
        ("I'd like a short answer, please", []),
    ]:  # fmt: skip
        assert contents(answer(text)) == expected


def test_a_memory_names_its_source_date_and_entities() -> None:
    found = answer("hello", "> Hi!", "I moved to Ghent last week.")
    (memory,) = found["new_memories"]
    assert memory["source_message_ids"] == ["m3"]
    assert {"name": "Ghent", "type": "place"} in memory["entities"]
    assert memory["valid_from"] == "2026-03-02"
    (change,) = found["profile_changes"]
    quoted = (change["path"], change["source_message_ids"], change["quote"])
    assert quoted == ("facts.personal.location", ["m3"], "I moved to Ghent last week.")
    (ahead,) = answer("I want to visit Seoul tomorrow")["new_memories"]
    assert "(2026-03-15)" in ahead["content"]
    assert "valid_from" not in ahead


def test_the_name_and_the_time_zone_of_the_speaker_are_used() -> None:
    found = answer("I live in Utrecht and love figs", name="Caroline")
    assert contents(found) == ["Caroline lives in Utrecht.", "Caroline likes figs."]
    late = datetime(2026, 3, 14, 20, tzinfo=UTC)
    for zone, day in (
        ("UTC", "2026-03-13"),
        ("Asia/Ho_Chi_Minh", "2026-03-14"),
        ("No/Zone", "2026-03-13"),
    ):
        (told,) = contents(answer("Hôm qua tôi đã đậu kỳ thi", said_at=late, time_zone=zone))
        assert day in told
    edge = datetime(9999, 12, 31, 23, tzinfo=UTC)
    answer("I want to visit Seoul tomorrow", said_at=edge, time_zone="Asia/Ho_Chi_Minh")


NOT_SO = "User's brother lives in Lisbon."


def test_what_is_said_of_something_known() -> None:
    for old, said, how, new in [
        ("User lives in Lisbon.", "I just moved to Ghent!", "contradicted", 1),
        ("The user lives in Lisbon (2025).", "I'm based in Ghent", "contradicted", 1),
        ("Người dùng sống ở Hà Nội.", "Mình mới chuyển vào Huế tuần trước", "contradicted", 1),
        ("User lives in Hanoi", "Tôi đang sống ở Huế", "contradicted", 1),
        ("User works at Siemens.", "I work at Maersk", "contradicted", 1),
        ("User works as a nurse.", "I'm a teacher", "contradicted", 1),
        ("User's favourite band is Blur.", "My favorite band is Pulp", "contradicted", 1),
        ("User likes coffee.", "I don't like coffee anymore", "contradicted", 1),
        ("User prefers detailed answers.", "Please keep your answers short.", "contradicted", 1),
        ("User is vegetarian.", "I'm vegan", "contradicted", 1),
        ("User lives in Lisbon.", "I don't live in Lisbon.", "contradicted", 0),
        ("Người dùng sống ở Huế.", "Em không còn sống ở Huế nữa", "contradicted", 0),
        ("User works at Siemens.", "Please forget that I work at Siemens", "forgotten", 0),
        ("Người dùng sống ở Huế.", "Hãy quên việc mình sống ở Huế", "forgotten", 0),
        ("User likes figs.", "I love figs", "updated", 0),
        ("User prefers brief answers.", "I'd like a short answer, please", "updated", 0),
        # What is known is confirmed, and a denial of something else changes nothing.
        ("User lives in Hanoi", "Tôi sống ở Hà Nội", "updated", 0),
        ("User is a nurse at Larkfield.", "I still work at Larkfield", "updated", 0),
        ("User's goal is to run a marathon.", "My goal is to run a marathon", "updated", 0),
        ("User lives in Linz.", "I don't live in Graz.", "", 0),
    ]:
        kind = "preference" if "likes" in old or "prefers" in old else "fact"
        found = answer(said, known=[("fact", NOT_SO), (kind, old)])
        assert len(found["new_memories"]) == new, (old, said)
        changes = ("contradicted", "forgotten", "updated")
        for change in changes:
            names = [item["id"] for item in found[f"{change}_memories"]]
            assert names == (["e2"] if change == how else []), (old, said)
            for item in found[f"{change}_memories"]:
                assert (item["source_message_ids"], item["quote"]) == (["m1"], said)
                assert item.get("by") == (0 if new else None)
                assert item.get("content", old) == old


def test_a_deed_reaches_its_goal_only() -> None:
    for goal, said, reached in [
        ("User wants to run a marathon in spring.", "I finally ran the marathon yesterday!", True),
        ("User wants to pass the driving test.", "I passed my driving test", True),
        ("User wants to ride 100 km in a day before the end of May.",
         "I did it! Yesterday I rode 100 km in a day, along the canal to York and back.", True),
        ("Người dùng muốn thi đậu JLPT N2.", "Hôm qua mình đã đậu kỳ thi JLPT N2 rồi", True),
        ("Người dùng muốn bơi 2 km ở biển.", "Sáng nay mình đã bơi 2 km ở biển luôn.", True),
        ("User wants to swim 2 km in open water.",
         "I swam 1 km in open water this morning.", False),
        ("User wants to bake a panettone.", "I baked the tiles of the old oven by mistake.", False),
        ("User wants to bake a panettone.", "My brother baked a panettone.", False),
        ("Người dùng muốn leo núi Bà Đen.", "Mai mình leo núi Bà Đen.", False),
    ]:  # fmt: skip
        found = answer(said, known=[("goal", "User wants to learn Basque."), ("goal", goal)])
        expected = [("e2", 0, said)] if reached else []
        assert [(e["id"], e["by"], e["quote"]) for e in found["achieved_goals"]] == expected, goal


def test_of_several_statements_the_last_counts_with_all_sources() -> None:
    found = answer("I live in Lisbon.", "I like figs", "I just moved to Ghent!", "I love figs")
    assert contents(found) == ["User moved to Ghent and lives in Ghent.", "User likes figs."]
    sources = [memory["source_message_ids"] for memory in found["new_memories"]]
    assert sources == [["m3"], ["m2", "m4"]]
    known = [("fact", "Caroline lives in Ghent."), ("fact", "Melanie lives in Ghent.")]
    named = answer("I live in Utrecht", known=known, name="Caroline")
    assert [each["id"] for each in named["contradicted_memories"]] == ["e1"]


def test_what_was_saved_under_the_users_own_name_is_about_the_user() -> None:
    named: list[dict[str, Any]] = [
        {"user_id": "caroline"},
        {"profile": {"facts": {"personal": {"name": "Caroline"}}}},
        {"name": "caroline"},
    ]
    for called in named:
        known = [("fact", "Melanie lives in Ghent."), ("fact", "Caroline lives in Ghent.")]
        found = answer("I live in Utrecht", known=known, **called)
        assert [each["id"] for each in found["contradicted_memories"]] == ["e2"], called
        assert not answer("I live in Utrecht", known=known)["contradicted_memories"], called


def test_outcome() -> None:
    for messages, outcome in [
        (["How do I sort a list in Python?"], "needs_followup"),
        (["How do I sort a list in Python?", "> Use sorted()."], "ongoing"),
        (["My Redis fails", "> Restart it.", "Thanks, it works!"], "resolved"),
        (["Redis bị lỗi", "> Thử lại.", "Chạy được rồi, cảm ơn"], "resolved"),
        (["Mai mình quay lại hỏi tiếp nhé"], "needs_followup"),
        (["> Hello!"], "ongoing"),
    ]:
        assert answer(*messages)["conversation_summary"]["outcome"] == outcome, messages


def test_the_profile_is_filled_in_any_form_of_unicode() -> None:
    for form in ("NFC", "NFD"):
        said = unicodedata.normalize(form, "Tôi tên là Đặng Thị Mỹ Duyên, đang làm việc với Docker")
        assert {each["path"]: each["value"] for each in answer(said)["profile_changes"]} == {
            "facts.personal.name": "Đặng Thị Mỹ Duyên",
            "facts.technical_context.frameworks": ["Docker"],
        }, form
    # A workplace does not move a known home.
    known = {"facts": {"personal": {"location": "Trier"}}}
    found = answer("I'm a nurse in Luxembourg.", profile=known)["profile_changes"]
    assert [each["path"] for each in found] == ["facts.personal.occupation"]


def test_the_summary_tells_what_was_said_and_asked_in_its_language() -> None:
    found = answer("Tôi sống ở Huế.", "Làm sao để sort array trong Python?", "> …")
    text = found["conversation_summary"]
    assert "sống ở Huế" in text["summary"]
    assert "hỏi: Làm sao để sort array trong Python?" in text["summary"]
    assert text["technical_topics"] == ["Python"]
    assert text["followup_suggestions"] == ["Bạn có muốn tiếp tục với Python?"]
    long = answer("My Docker deployment keeps failing with " + "a very strange error and " * 20)
    (first, *_) = long["conversation_summary"]["followup_suggestions"]
    assert first.startswith("Continue with ")
    assert len(first) <= 110
    earlier = {"summary": "Of Redis timeouts.", "technical_topics": ["Redis"]}
    later = answer("I use Kafka for the queue", summary=earlier)["conversation_summary"]
    assert later["summary"] == "Of Redis timeouts. User uses Kafka for the queue."
    assert later["technical_topics"] == ["Redis", "Kafka"]
    assert answer("أعيش في عمان")["conversation_summary"]["summary"] == "أعيش في عمان"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(["I ", "am a ", "live in ", "tôi ", "tên là ", "ở ", "?", ". ", "\n"]),
        ),
        max_size=8,
    )
)
def test_no_text_breaks_it(parts: list[str]) -> None:
    text = "".join(parts)
    found = answer(text, known=[("fact", f"User {text}")], name=text[:20])
    assert all(item["content"].strip() for item in found["new_memories"])
