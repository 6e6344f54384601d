"""What is learnt from behaviour and feedback (F5, F6), and profiles changed by hand (E2, E3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    history_pb2,
    memory_service_pb2,
    profile_pb2,
    retrieval_service_pb2,
)
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, talk
from tests.e2e.masks import masked
from tests.e2e.methods import ask, read_refusal
from tests.e2e.privacy import choose
from tests.tenants import SUBJECT

MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


async def context_of(services: Services, user: str) -> retrieval_service_pb2.GetContextResponse:
    return await services.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(user_id=user)
    )


async def preferences_of(services: Services, user: str) -> dict[str, tuple[Any, float]]:
    found = (await context_of(services, user)).preferences
    return {
        f"{p.type}.{p.key}": (json_format.MessageToDict(p.value), round(p.confidence, 6))
        for p in found
    }


async def test_style_topics_and_time_are_learnt_from_what_the_user_writes(
    services: Services,
) -> None:
    """F5: the assistant's long answers and its topics do not count."""
    said = talk(
        ("user", "Any new mail?"),
        ("assistant", "Here is a ticket for a meeting. " * 30),
        ("user", "Reply to it, please."),
        at=MORNING,
    )
    said.time_zone = "Europe/Lisbon"
    await learn(services, said)
    assert await preferences_of(services, "ana") == {
        "interaction.message_style": ("brief", 0.6),
        "topics.email": (True, 0.6),
        "usage.active_time": ("morning", 0.6),
    }


@pytest.mark.parametrize("zone", ["", "UTC", "Etc/UTC"])
async def test_without_a_time_zone_the_time_of_day_is_that_in_utc(
    services: Services, zone: str
) -> None:
    """F5: in the user's time zone, else UTC; eight o'clock in UTC is an afternoon in Hanoi."""
    said = talk(("user", "Any new mail?"), at=MORNING)
    said.time_zone = zone
    await learn(services, said)
    assert (await preferences_of(services, "ana"))["usage.active_time"] == ("morning", 0.5)
    said = talk(("user", "Any new mail?"), user="bo", at=MORNING)
    said.time_zone = "Asia/Ho_Chi_Minh"
    await learn(services, said)
    assert (await preferences_of(services, "bo"))["usage.active_time"] == ("afternoon", 0.5)


async def test_the_settings_name_the_zone_of_transcripts_without_one(services: Services) -> None:
    """F5."""
    await choose(services, time_zone="Asia/Ho_Chi_Minh")
    await learn(services, talk(("user", "Any new mail?"), at=MORNING))
    assert (await preferences_of(services, "ana"))["usage.active_time"] == ("afternoon", 0.5)


async def test_a_sign_against_makes_less_sure(services: Services) -> None:
    """F5: brief twice (0.6), then detailed (0.5)."""
    long = "I would like to tell you at length what happened to me today at work. " * 5
    await learn(
        services, talk(("user", "Hi there"), ("user", "Thanks"), ("user", long), at=MORNING)
    )
    found = await preferences_of(services, "ana")
    assert found["interaction.message_style"] == ("brief", 0.5)


async def test_length_is_counted_in_any_script(services: Services) -> None:
    """F5: scripts without spaces have words too; a file of Japanese is not one word."""
    await learn(services, talk(("user", "今日はとても長い話をします。" * 12), at=MORNING))
    assert (await preferences_of(services, "ana"))["interaction.message_style"][0] == "detailed"


async def answered(services: Services, user: str, memory_ids: list[str]) -> None:
    """A message of the assistant that used these memories."""
    await services.extraction.SubmitTranscripts(
        extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[
                conversation_pb2.Transcript(
                    user_id=user,
                    conversation_id="answers",
                    messages=[
                        conversation_pb2.Message(
                            id="a1",
                            role=conversation_pb2.ROLE_ASSISTANT,
                            content="An answer.",
                            context_item_ids=memory_ids,
                        )
                    ],
                )
            ]
        )
    )


def feedback(user: str, **fields: Any) -> memory_service_pb2.RecordFeedbackRequest:
    return memory_service_pb2.RecordFeedbackRequest(
        user_id=user, conversation_id="answers", message_id="a1", **fields
    )


@pytest.mark.parametrize(("rating", "step"), [(5, 0.1), (4, 0.1), (3, 0.0), (2, -0.1), (1, -0.1)])
async def test_a_rating_moves_what_the_answer_used(
    rating: int, step: float, services: Services
) -> None:
    """F6: preferences and the memories behind the answer, found by its context items."""
    await learn(services, talk(("user", "My favourite tea is jasmine tea."), at=MORNING))
    (known,) = (await context_of(services, "ana")).memories
    await answered(services, "ana", [known.id, "not-one-of-ours"])
    before = await preferences_of(services, "ana")

    moved = await services.memory.RecordFeedback(feedback("ana", rating=rating))

    after = await preferences_of(services, "ana")
    assert {key: round(after[key][1] - before[key][1], 6) for key in before} == dict.fromkeys(
        before, step
    )
    (now,) = (await context_of(services, "ana")).memories
    assert round(now.importance - known.importance, 6) == step
    assert list(moved.memory_ids) == ([known.id] if step else [])
    assert len(moved.preferences) == (len(before) if step else 0)
    if step:
        history = await ask(services, "GetMemoryHistory", memory_id=known.id)
        assert [event.kind for event in history.events] == [
            history_pb2.HISTORY_EVENT_KIND_UPDATED,
            history_pb2.HISTORY_EVENT_KIND_CREATED,
        ]
        assert history.events[0].actor == SUBJECT
        assert set(history.events[0].after.fields) == {"importance"}


@pytest.mark.parametrize(
    ("edited", "learnt"), [("x" * 69, "concise"), ("x" * 131, "detailed"), ("x" * 70, None)]
)
async def test_an_edit_teaches_the_length(
    edited: str, learnt: str | None, services: Services
) -> None:
    """F6: shorter than 0.7 or longer than 1.3 of the answer, counted in characters."""
    await answered(services, "ana", [])
    moved = await services.memory.RecordFeedback(
        feedback("ana", edit=memory_service_pb2.ResponseEdit(original="é" * 100, edited=edited))
    )
    found: dict[str, Any] = {p.key: json_format.MessageToDict(p.value) for p in moved.preferences}
    assert found == ({"length": learnt} if learnt else {})


async def test_what_one_message_shows_is_told_to_nobody_however_good_the_answer(
    services: Services,
) -> None:
    """F5, F6: a rating is no second observation; the next message is."""
    await answered(services, "ana", [])
    for number in (1, 2):
        said = talk("Any new mail?", conversation=f"c{number}", at=MORNING)
        await learn(services, said)
        await services.memory.RecordFeedback(feedback("ana", rating=5))
        context = await context_of(services, "ana")
        assert min(each.confidence for each in context.preferences) >= 0.6
        assert ("morning" in context.prompt_block) is (number == 2)


async def test_feedback_with_a_key_counts_once(services: Services) -> None:
    """B4: a repeated call moves nothing again and tells the same."""
    await learn(services, talk(("user", "Any new mail?"), at=MORNING))
    await answered(services, "ana", [])
    request = feedback("ana", rating=5, idempotency_key="k1")
    first = await services.memory.RecordFeedback(request)
    again = await services.memory.RecordFeedback(request)
    assert list(again.preferences) == list(first.preferences)
    assert (await preferences_of(services, "ana"))["topics.email"] == (True, 0.6)


async def test_feedback_on_a_message_that_is_not_there(services: Services) -> None:
    """MESSAGE_NOT_FOUND, also for a message of the user."""
    await learn(services, talk(("user", "Hello"), at=MORNING))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await services.memory.RecordFeedback(feedback("ana", rating=5))
    assert read_refusal(caught.value).reason == "MESSAGE_NOT_FOUND"


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


async def update(
    services: Services, *paths: str, version: int = 0, **fields: Any
) -> profile_pb2.Profile:
    request = memory_service_pb2.UpdateProfileRequest(
        user_id="ana",
        profile=profile_pb2.Profile(**fields),
        update_mask=FieldMask(paths=paths) if paths else None,
        version=version,
    )
    return (await services.memory.UpdateProfile(masked(request))).profile


async def test_a_profile_is_made_and_changed_by_hand(services: Services) -> None:
    """E3: paths into free JSON; a path without a value removes; every change is a version."""
    made = await update(
        services,
        summary="Ana bakes.",
        facts=struct(personal={"name": "Ana", "location": "Lisbon"}),
        current_projects=["bread"],
    )
    assert (made.version, made.access_level) == (1, "standard")
    moved = await update(
        services,
        "facts.personal.location",
        "facts.personal.name",
        facts=struct(personal={"location": "Berlin"}),
    )
    assert moved.version == 2
    assert json_format.MessageToDict(moved.facts) == {"personal": {"location": "Berlin"}}
    same = await update(services, "summary", summary="Ana bakes.")
    assert same.version == 2
    emptied = await update(services, "summary", "current_projects")
    assert (emptied.version, emptied.summary, list(emptied.current_projects)) == (3, "", [])
    history = await ask(services, "GetProfileHistory")
    assert [event.version for event in history.events] == [3, 2, 1]
    assert {event.actor for event in history.events} == {SUBJECT}
    assert json_format.MessageToDict(history.events[1].before)["facts"]["personal"]["name"] == "Ana"


async def test_a_hand_is_overruled_only_by_what_is_said_later(services: Services) -> None:
    """E2: a transcript from before the change by hand does not undo it, a later one does."""
    await update(services, facts=struct(personal={"name": "Bea"}))
    await learn(services, talk(("user", "My name is Ana."), at=MORNING))
    found = await context_of(services, "ana")
    assert json_format.MessageToDict(found.profile.facts)["personal"]["name"] == "Bea"
    await learn(
        services,
        talk(
            ("user", "My name is Cleo."), at=datetime(2199, 1, 1, tzinfo=UTC), conversation="later"
        ),
    )
    found = await context_of(services, "ana")
    assert json_format.MessageToDict(found.profile.facts)["personal"]["name"] == "Cleo"


async def test_a_version_that_is_gone_is_told(services: Services) -> None:
    """ABORTED VERSION_MISMATCH with both versions; nothing changes."""
    await update(services, summary="One.")
    await update(services, summary="Two.")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(services, summary="Three.", version=1)
    refusal = read_refusal(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
    assert refusal.metadata == {"expected": "1", "actual": "2"}
    assert (await context_of(services, "ana")).profile.summary == "Two."


@pytest.mark.parametrize("path", ["version", "summary.x", "facts..x", "user_id", "nothing", ""])
async def test_paths_that_cannot_be_changed_are_named(path: str, services: Services) -> None:
    """INVALID_ARGUMENT at the path's place in the mask."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(services, "summary", path, summary="x")
    assert list(read_refusal(caught.value).fields) == ["update_mask.paths[1]"]


async def test_a_profile_has_a_size(services: Services) -> None:
    """64 KiB in all; the change that would pass it is refused whole."""
    await update(services, metadata=struct(a="x" * 40_000))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(services, facts=struct(b="y" * 40_000))
    assert read_refusal(caught.value).code == grpc.StatusCode.INVALID_ARGUMENT
    assert (await context_of(services, "ana")).profile.version == 1
