"""A tag is one tag however it is written: when it is given, and when it is looked for."""

from __future__ import annotations

from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import (
    profile_pb2,
)
from tests.e2e.conftest import Services
from tests.e2e.methods import ask


async def test_d4_tags_are_found_in_any_spelling(services: Services) -> None:
    for content, tags in (
        ("Works from home on Fridays.", ["Home Office"]),
        ("Uống cà phê mỗi sáng.", ["Cà phê"]),
    ):
        await ask(services, "SaveMemory", content=content, tags=tags)

    async def listed(tag: str) -> list[str]:
        found = await ask(services, "ListMemories", tags=[tag])
        return [memory.content for memory in found.memories]

    async def searched(tag: str) -> list[str]:
        found = await ask(services, "SearchMemories", tags=[tag])
        return [result.memory.content for result in found.results]

    for look in (listed, searched):
        for tag in ("Home Office", "home_office", " HOME-OFFICE "):
            assert await look(tag) == ["Works from home on Fridays."], tag
        assert await look("Cà  Phê") == ["Uống cà phê mỗi sáng."]
        for tag in ("office", "!!!"):
            assert await look(tag) == []


async def test_e4_consolidation_takes_a_tag_in_any_spelling(services: Services) -> None:
    for content in (f"Likes {kind} tea." for kind in "green black white mint rooibos sage".split()):
        await ask(services, "SaveMemory", content=content, tags=["Hot Tea"])
    counts = [
        dict((await ask(services, "Consolidate", tag=tag, dry_run=True)).counts)
        for tag in ("hot_tea", "Hot Tea", "hot-tea", "tea")
    ]
    assert counts[0] == counts[1] == counts[2]
    assert counts[0] != counts[3]


async def test_b9_what_is_set_by_hand_is_trimmed_as_what_is_learnt(services: Services) -> None:
    blanks = " " * 70
    saved = await ask(
        services,
        "SaveMemory",
        content="Works from home.",
        tags=[f"{blanks}Home Office{blanks}", "home office"],
        keywords=[f"{blanks}desk ", "desk"],
    )
    assert list(saved.memory.tags) == ["home_office"]
    assert list(saved.memory.keywords) == ["desk"]
    profile = await ask(
        services,
        "UpdateProfile",
        profile=profile_pb2.Profile(current_projects=["  Atlas ", "Atlas", "Boat\n"]),
        update_mask=FieldMask(paths=["current_projects"]),
    )
    assert list(profile.profile.current_projects) == ["Atlas", "Boat"]
