"""What a reply does not get is named in the result of its job: item, reason, words for people."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import job_pb2, memory_service_pb2
from hitherto_extraction.pipeline.profile import MAX_LIST_ITEMS
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, memories, shown, talk
from tests.e2e.masks import masked
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, memory, value

TEA, GREEN, OOLONG = "Ana drinks tea", "Ana drinks green tea", "Ana drinks oolong from Đà Lạt"


def named(result: job_pb2.JobResult) -> list[tuple[str, str]]:
    """The refusals of a job; each says why in words, and counts."""
    found = [(each.item, each.reason) for each in result.refusals]
    for item, reason in found:
        assert result.counts[reason] == sum(reason == other for _, other in found), item
    assert all(each.subject and "; " in each.subject for each in result.refusals)
    assert result.dropped_items >= len(found)
    return found


async def test_a_message_that_a_content_filter_refuses_is_named(modelled: Services) -> None:
    def script(request: ChatRequest) -> ChatAnswer:
        if any("poison" in each.content for each in request.messages):
            return ChatAnswer("", finish_reason="content_filter")
        return ChatAnswer.of(
            new_memories=[memory(each.content, [each.local_id]) for each in request.messages]
        )

    modelled.model.script = script
    await learn(modelled, talk("I own no boat", conversation="c1"))
    said = [f"I own a boat number {number}" for number in range(3)]
    later = talk("I own a boat", *said, "Mix me a poison", conversation="c1")
    for number, message in enumerate(later.messages):
        message.id = f"later-{number}"
    previewed = await ask(modelled, "PreviewExtraction", transcript=later)
    for result in (previewed.result, await learn(modelled, later)):
        assert named(result) == [("messages[4]", "refused_content")]
        assert (result.dropped_items, result.memories_created) == (1, 4)


async def test_a_second_change_of_a_memory_is_named_and_its_words_are_not_lost(
    modelled: Services,
) -> None:
    said = f"{GREEN}, {OOLONG}"

    def script(request: ChatRequest) -> ChatAnswer:
        if said not in [each.content for each in request.messages]:
            return ChatAnswer.of(new_memories=[memory(TEA)])
        tea = shown(request, TEA)
        return ChatAnswer.of(
            updated_memories=[
                change(tea, GREEN, content=GREEN),
                change(tea, OOLONG, content=OOLONG),
                change(tea, GREEN, content=f"{GREEN}."),
                change("e77", GREEN, content=GREEN),
            ],
            contradicted_memories=[{"why": "no id"}],
        )

    modelled.model.script = script
    await learn(modelled, talk(TEA))
    result = await learn(modelled, talk(said, conversation="c2"))
    assert named(result) == [
        ("updated_memories[3]", "refused_id"),
        ("contradicted_memories[0]", "refused_shape"),
        ("updated_memories[1]", "refused_repeated"),
        ("updated_memories[2]", "refused_repeated"),
    ]
    assert (result.dropped_items, result.memories_updated) == (4, 1)
    held = {each.content: each for each in await memories(modelled)}
    assert set(held) == {GREEN, OOLONG}
    assert list(held[OOLONG].may_replace) == [held[GREEN].id]


async def test_a_value_that_a_full_profile_does_not_take_is_named(modelled: Services) -> None:
    full = memory_service_pb2.UpdateProfileRequest(user_id="ana")
    full.profile.current_projects.extend(f"project {n}" for n in range(MAX_LIST_ITEMS))
    await modelled.memory.UpdateProfile(masked(full))
    said = "I build a boat and live in Huế"
    changes: list[dict[str, Any]] = [
        value("current_projects", ["a boat"], said),
        value("facts.personal.city", "Huế", said),
    ]
    modelled.model.script = lambda _: ChatAnswer.of(new_memories=[], profile_changes=changes)
    result = await learn(modelled, talk(said))
    assert named(result) == [("profile_changes[0]", "refused_limit")]
    assert (result.dropped_items, result.counts["refused_profile"]) == (1, 1)
