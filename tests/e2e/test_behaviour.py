"""What is learnt from behaviour and feedback (F5, F6), and profiles changed by hand (E2, E3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import history_pb2, memory_service_pb2, profile_pb2, retrieval_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, submit, talk
from tests.e2e.masks import masked
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sessions import refusal_of
from tests.tenants import SUBJECT

MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


async def context_of(services: Services, user: str) -> retrieval_service_pb2.GetContextResponse:
    found: retrieval_service_pb2.GetContextResponse = await ask(
        services, "GetContext", user_id=user
    )
    return found


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
    # Plurals too, but no parts of other words.
    await learn(services, talk("Any tickets for Docker meetings?", user="kim", at=MORNING))
    topics = {key for key in await preferences_of(services, "kim") if key.startswith("topics")}
    assert topics == {"topics.calendar", "topics.tasks"}
    # Brief twice (0.6), then detailed (0.5): a sign against makes less sure.
    long = "I would like to tell you at length what happened to me today at work. " * 5
    await learn(services, talk("Hi there", "Thanks", long, user="bo", at=MORNING))
    assert (await preferences_of(services, "bo"))["interaction.message_style"] == ("brief", 0.5)
    # Scripts without spaces have words too.
    await learn(services, talk("今日はとても長い話をします。" * 12, user="eve", at=MORNING))
    assert (await preferences_of(services, "eve"))["interaction.message_style"][0] == "detailed"


async def test_the_time_of_day_is_that_of_the_user_or_in_utc(services: Services) -> None:
    """F5: eight o'clock in UTC is an afternoon in Hanoi."""
    hanoi = "Asia/Ho_Chi_Minh"
    await choose(services, user="eve", time_zone=hanoi)
    for user, zone, part in (
        ("ana", "", "morning"),
        ("bo", hanoi, "afternoon"),
        ("eve", "", "afternoon"),
    ):
        said = talk("Any new mail?", user=user, at=MORNING)
        said.time_zone = zone
        await learn(services, said)
        assert (await preferences_of(services, user))["usage.active_time"] == (part, 0.5), user


async def answered(services: Services, user: str, memory_ids: list[str]) -> None:
    """A message of the assistant that used these memories."""
    said = talk(("assistant", "An answer."), user=user, conversation="answers")
    said.messages[0].context_item_ids.extend(memory_ids)
    await submit(services, said)


def feedback(user: str, **fields: Any) -> memory_service_pb2.RecordFeedbackRequest:
    return memory_service_pb2.RecordFeedbackRequest(
        user_id=user, conversation_id="answers", message_id="answers-1", **fields
    )


@pytest.mark.parametrize(("rating", "step"), [(4, 0.1), (3, 0.0), (2, -0.1)])
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
    changes = {key: round(after[key][1] - before[key][1], 6) for key in before}
    assert changes == dict.fromkeys(before, step)
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


async def test_an_edit_teaches_the_length(services: Services) -> None:
    """F6: shorter than 0.7 or longer than 1.3 of the answer, counted in characters."""
    for length, learnt in ((69, "concise"), (131, "detailed"), (70, None)):
        user = f"u{length}"
        await answered(services, user, [])
        edit = memory_service_pb2.ResponseEdit(original="é" * 100, edited="x" * length)
        moved = await services.memory.RecordFeedback(feedback(user, edit=edit))
        found = {p.key: json_format.MessageToDict(p.value) for p in moved.preferences}
        assert found == ({"length": learnt} if learnt else {})  # type: ignore[comparison-overlap]


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
    """B4: a repeated call moves nothing again and tells the same. Not of a message of the user."""
    await learn(services, talk(("user", "Any new mail?"), at=MORNING))
    refusal = await refusal_of(services.memory.RecordFeedback(feedback("ana", rating=5)))
    assert refusal.reason == "MESSAGE_NOT_FOUND"
    await answered(services, "ana", [])
    request = feedback("ana", rating=5, idempotency_key="k1")
    first = await services.memory.RecordFeedback(request)
    again = await services.memory.RecordFeedback(request)
    assert list(again.preferences) == list(first.preferences)
    assert (await preferences_of(services, "ana"))["topics.email"] == (True, 0.6)


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
    refusal = await refusal_of(update(services, summary="Three.", version=1))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
    assert refusal.metadata == {"expected": "1", "actual": "3"}
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
    future = datetime(2199, 1, 1, tzinfo=UTC)
    await learn(services, talk("My name is Cleo.", at=future, conversation="later"))
    found = await context_of(services, "ana")
    assert json_format.MessageToDict(found.profile.facts)["personal"]["name"] == "Cleo"


async def test_paths_that_cannot_be_changed_are_named(services: Services) -> None:
    for path in ("version", "summary.x", "facts..x", "user_id", "nothing", ""):
        assert list((await refusal_of(update(services, "summary", path, summary="x"))).fields) == [
            "update_mask.paths[1]"
        ], path
    # 64 KiB in all; the change that would pass it is refused whole.
    await update(services, metadata=struct(a="x" * 40_000))
    refusal = await refusal_of(update(services, facts=struct(b="y" * 40_000)))
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert (await context_of(services, "ana")).profile.version == 1
