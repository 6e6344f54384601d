"""Updates by a model: what the user said more exactly is taken, the rest waits or is dropped."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import memory_pb2, memory_service_pb2, retrieval_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, learn, memories, talk
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory

MEMORY = memory_pb2.MemoryStatus

TRUE = {
    "en": (
        "The user plays the cello.",
        "The user plays the cello in a string quartet.",
        "I play in a string quartet these days",
    ),
    "vi": (
        "Người dùng thích cà phê.",
        "Người dùng thích cà phê đen vào buổi sáng.",
        "Tôi uống cà phê đen mỗi buổi sáng",
    ),
    "zh": ("用户喜欢喝茶", "用户喜欢在早上喝绿茶", "我早上都喝绿茶"),
    "ar": (
        "المستخدم يشرب الشاي",
        "المستخدم يشرب الشاي الأخضر كل صباح",
        "أشرب الشاي الأخضر كل صباح",
    ),
}


async def test_what_the_user_said_more_exactly_becomes_the_next_version(
    modelled: Services, model: ScriptedModel
) -> None:
    def script(request: ChatRequest) -> ChatAnswer:
        said = request.messages[0].content
        for old, new, exact in TRUE.values():
            if said == old:
                return ChatAnswer.of(new_memories=[memory(old, ["m1"], importance=0.7)])
            if said == exact:
                update = {"id": "e1", "content": new, "importance": 1, "source_message_ids": ["m1"]}
                return ChatAnswer.of(updated_memories=[update])
        return ChatAnswer.of(new_memories=[])

    model.script = script
    for user, (old, new, exact) in TRUE.items():
        await learn(modelled, talk(old, user=user))
        result = await learn(modelled, talk(exact, user=user, conversation="c2"))
        assert (result.counts["refined"], result.dropped_items) == (1, 0)
        (now,) = await memories(modelled, user=user, statuses=ALL_STATUSES)
        assert (now.content, now.version) == (new, 2)
        assert list(now.source_message_ids) == ["c1-1", "c2-1"]
        # By so much one job moves it.
        assert abs(now.importance - 0.9) < 1e-9


async def test_row_71_what_may_be_right_waits_for_review_and_takes_the_place_once_approved(
    modelled: Services, model: ScriptedModel
) -> None:
    two, three = "The user has 2 cats.", "The user has 3 cats."
    answers: list[dict[str, Any]] = [
        {"new_memories": [memory(two, ["m1"])]},
        *(
            [{"updated_memories": [{"id": "e1", "content": three, "source_message_ids": ["m1"]}]}]
            * 2
        ),
    ]
    model.queue(*(ChatAnswer.of(**answer) for answer in answers))
    await learn(modelled, talk("I have 2 cats"))
    result = await learn(modelled, talk("I have 3 cats by now", conversation="c2"))
    assert (result.counts["refused_by_guard"], result.counts["quarantined"]) == (1, 1)
    # Said once more, it is not doubled.
    result = await learn(modelled, talk("I have 3 cats, you know", conversation="c3"))
    assert (result.counts["refused_by_guard"], result.counts["quarantined"]) == (1, 0)
    (known,) = await memories(modelled)
    assert (known.content, known.version) == (two, 1)
    (waiting,) = await memories(modelled, statuses=[MEMORY.MEMORY_STATUS_QUARANTINED])
    assert waiting.content == three
    await modelled.memory.ReviewMemory(
        memory_service_pb2.ReviewMemoryRequest(
            user_id="ana",
            memory_id=waiting.id,
            decision=memory_service_pb2.REVIEW_DECISION_APPROVE,
        )
    )
    every = {m.content: m for m in await memories(modelled, statuses=ALL_STATUSES)}
    assert every[three].status == MEMORY.MEMORY_STATUS_ACTIVE
    assert every[two].status == MEMORY.MEMORY_STATUS_CONTRADICTED
    assert every[two].superseded_by == every[three].id


async def test_b12_a_value_of_the_profile_is_replaced_by_what_the_user_said_only(
    modelled: Services, model: ScriptedModel
) -> None:
    lisbon, porto = (
        {"new_memories": [], "profile": {"facts": {"personal": {"location": place}}}}
        for place in ("Lisbon", "Porto")
    )
    model.queue(*(ChatAnswer.of(**answer) for answer in (lisbon, porto, porto)))

    async def location() -> str:
        found = await modelled.retrieval.GetProfile(
            retrieval_service_pb2.GetProfileRequest(user_id="ana")
        )
        personal = found.profile.facts.fields["personal"].struct_value
        return personal.fields["location"].string_value

    await learn(modelled, talk("I live in Lisbon"))
    result = await learn(modelled, talk("hello", ("assistant", "So, Porto?"), conversation="c2"))
    assert (await location(), result.counts["refused_profile"]) == ("Lisbon", 1)
    await learn(modelled, talk("I moved to Porto", conversation="c3"))
    assert await location() == "Porto"
